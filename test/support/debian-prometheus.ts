import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

/** The hit-rate query of the interface document. */
export const HIT_RATE_QUERY =
  'sum(rate(cache_mp_lookup_hit_tokens_total[5m])) / sum(rate(cache_mp_lookup_requested_tokens_total[5m]))'

/** The only names that promtool objects to, and is allowed to: the interface document gives them. */
export const LINT_ALLOWED: readonly string[] = ['l0_l1_store', 'l0_l1_load', 'l2_store', 'l2_load'].map(
  (path) => `cache_mp_${path}_throughput_GB_per_second`,
)

/**
 * For tests with the programs of the Debian package `prometheus`. Where a program is missing the test counts as
 * skipped and says so; in CI (environment variable CI=true) it fails instead.
 */
export function needProgram(context: TestContext, program: 'promtool' | 'prometheus'): void {
  if (spawnSync(program, ['--version']).status === 0) return
  const reason = `${program} is missing: apt-get install prometheus`
  if (process.env.CI === 'true') throw new Error(reason)
  context.skip(reason)
}

/** What `promtool check metrics` says of a text: the metrics it objects to, its lines, its exit code (3 = lint only). */
export function promtoolCheck(text: string | Uint8Array) {
  const { stdout, stderr, status } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
  const lines = `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
  const names = [...new Set(lines.map((line) => line.split(' ')[0]!))].sort()
  return { names, lines, status }
}

export interface QueryResult {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [seconds: number, value: string]
}

/** A real Prometheus that scrapes one port of this machine, as job `engine`, every second. */
export class Prometheus {
  readonly #port: number
  readonly #end: () => Promise<void>

  private constructor(port: number, end: () => Promise<void>) {
    this.#port = port
    this.#end = end
  }

  static async start(targetPort: number): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'kvtier-prometheus-'))
    const config = join(folder, 'prometheus.yml')
    const job = `{job_name: engine, static_configs: [{targets: ['127.0.0.1:${targetPort}']}]}`
    writeFileSync(config, `global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [${job}]\n`)
    const port = await freePort()
    const flags = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${folder}/data`,
      `--web.listen-address=127.0.0.1:${port}`,
    ]
    const child = spawn('prometheus', [...flags, '--log.level=warn'], { stdio: 'ignore' })
    const exited = once(child, 'exit')
    return new Prometheus(port, async () => {
      child.kill('SIGTERM')
      await exited
      rmSync(folder, { recursive: true, force: true })
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Resolves once the target has answered two scrapes. */
  async scrapedTwice(): Promise<void> {
    await until('two scrapes', async () => {
      const rows = await this.query('sum_over_time(up{job="engine"}[5m]) >= 2')
      return rows.length > 0 ? true : undefined
    })
  }

  /** What the HTTP API answers under `data`. @throws Error */
  async get<Data>(path: string): Promise<Data> {
    const response = await fetch(`http://127.0.0.1:${this.#port}${path}`)
    const answer = (await response.json()) as { status: string; data: Data; error?: string }
    if (answer.status !== 'success') throw new Error(answer.error)
    return answer.data
  }

  async query(expression: string): Promise<QueryResult[]> {
    const data = await this.get<{ result: QueryResult[] }>(`/api/v1/query?query=${encodeURIComponent(expression)}`)
    return data.result
  }

  /** The one value of an expression, as soon as there is one. */
  value(expression: string): Promise<number> {
    return until(expression, async () => {
      const value = Number((await this.query(expression))[0]?.value[1])
      return Number.isNaN(value) ? undefined : value
    })
  }

  stop(): Promise<void> {
    return this.#end()
  }
}
