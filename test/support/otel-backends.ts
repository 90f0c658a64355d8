import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { parse, stringify } from 'yaml'
import { type ParsedExposition, parseExposition } from './exposition-parser.ts'
import { freePort } from './free-port.ts'
import { goTool } from './go-program.ts'
import { REPOSITORY } from './source-tree.ts'
import { until } from './until.ts'

/** Characters of a program's output that are kept. */
const PRINTED_MAX = 1_000_000

/** A program that runs in a folder of its own. `stop` ends it and takes the folder away. */
class Server {
  readonly folder = mkdtempSync(join(tmpdir(), 'kvtier-backend-'))
  readonly #child: ChildProcess
  #printed = ''

  constructor(program: string, argv: (folder: string) => readonly string[]) {
    this.#child = spawn(program, argv(this.folder), { stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [this.#child.stdout!, this.#child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#printed = (this.#printed + text).slice(-PRINTED_MAX)
      })
    }
  }

  get printed(): string {
    return this.#printed
  }

  /** Resolves once an address answers. @throws Error with what it printed */
  async answers(url: string): Promise<void> {
    await until(`${url} answers: ${this.#printed}`, async () => {
      if (this.#child.exitCode !== null) throw new Error(this.#printed)
      return (await fetch(url)).status < 500 ? true : undefined
    })
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGTERM')
      await once(this.#child, 'close')
    }
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** A span as a Collector read it. */
export interface CollectedSpan {
  readonly name: string
  readonly trace: string
  readonly id: string
  /** Empty = none. */
  readonly parent: string
  readonly kind: string
  readonly state: string
  readonly startMs: number
  /** Values as text. */
  readonly attributes: Readonly<Record<string, string>>
}

/** A real OpenTelemetry Collector with the configuration of `config/otel`, on free ports. */
export class Collector {
  readonly endpoint: string
  readonly #metrics: string
  readonly #server: Server

  private constructor(endpoint: string, metrics: string, server: Server) {
    this.endpoint = endpoint
    this.#metrics = metrics
    this.#server = server
  }

  static async start(context: TestContext): Promise<Collector> {
    const program = goTool(context, 'otel-collector')
    const [otlp, metrics] = [await freePort(), await freePort()]
    const config = parse(readFileSync(join(REPOSITORY, 'config/otel/collector.yaml'), 'utf8'))
    config.receivers.otlp.protocols.http.endpoint = `127.0.0.1:${otlp}`
    config.exporters.prometheus.endpoint = `127.0.0.1:${metrics}`
    config.exporters.debug.verbosity = 'detailed'
    const server = new Server(program, (folder) => {
      writeFileSync(join(folder, 'collector.yaml'), stringify(config))
      return [`--config=file:${folder}/collector.yaml`]
    })
    const url = `http://127.0.0.1:${metrics}/metrics`
    await server.answers(url)
    return new Collector(`http://127.0.0.1:${otlp}`, url, server)
  }

  /** What its Prometheus exporter shows. */
  async scrape(): Promise<ParsedExposition> {
    return parseExposition(await (await fetch(this.#metrics)).text())
  }

  /** The spans that it took, as its debug exporter writes them. */
  spans(): CollectedSpan[] {
    const blocks = this.#server.printed.split(/^Span #\d+$/m).slice(1)
    return blocks.map((block) => {
      const field = (name: string) => new RegExp(`^ {4}${name} *: *(.*)$`, 'm').exec(block)?.[1]?.trim() ?? ''
      const attributes = [...block.matchAll(/^ {5}-> (kvtier\.[\w.]+): \w+\((.*)\)$/gm)]
      return {
        name: field('Name'),
        trace: field('Trace ID'),
        id: field('ID'),
        parent: field('Parent ID'),
        kind: field('Kind'),
        state: field('TraceState'),
        startMs: Date.parse(field('Start time').replace(' +0000 UTC', 'Z')),
        attributes: Object.fromEntries(attributes.map(([, name, value]) => [name!, value!])),
      }
    })
  }

  stop(): Promise<void> {
    return this.#server.stop()
  }
}

/** A real Prometheus 3 that takes OTLP. */
export class OtlpPrometheus {
  readonly #url: string
  readonly #server: Server

  private constructor(url: string, server: Server) {
    this.#url = url
    this.#server = server
  }

  static async start(context: TestContext): Promise<OtlpPrometheus> {
    const program = goTool(context, 'prometheus', 'github.com/prometheus/prometheus/cmd/prometheus')
    const port = await freePort()
    const server = new Server(program, (folder) => {
      writeFileSync(join(folder, 'prometheus.yaml'), '{}')
      return [
        `--config.file=${folder}/prometheus.yaml`,
        `--storage.tsdb.path=${folder}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--web.enable-otlp-receiver',
        '--log.level=warn',
      ]
    })
    const url = `http://127.0.0.1:${port}`
    await server.answers(`${url}/-/ready`)
    return new OtlpPrometheus(url, server)
  }

  get endpoint(): string {
    return `${this.#url}/api/v1/otlp`
  }

  /** The series that an instant query finds now, with their values. */
  async query(expression: string): Promise<{ labels: Record<string, string>; value: number }[]> {
    const response = await fetch(`${this.#url}/api/v1/query?query=${encodeURIComponent(expression)}`)
    const { data } = (await response.json()) as {
      data: { result: { metric: Record<string, string>; value: [number, string] }[] }
    }
    return data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }))
  }

  stop(): Promise<void> {
    return this.#server.stop()
  }
}
