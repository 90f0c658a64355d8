import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { PANEL_ROWS, withMatchers } from '../../src/fleet/panels.ts'
import { ALERT_RULES, RECORDING_RULES } from '../../src/fleet/rules.ts'
import { needProgram, Prometheus } from '../support/debian-prometheus.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'

const SEED = 20_261_121

let replay: ChildProcess | undefined
let prometheus: Prometheus | undefined
let folder: string | undefined
afterEach(async () => {
  await prometheus?.stop()
  if (replay !== undefined && replay.exitCode === null) {
    replay.kill('SIGKILL')
    await once(replay, 'close')
  }
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
})

/** Requests that come back to old prompts at every distance, so that every tier hits, and evicts. */
function trace(): string {
  const next = random(SEED)
  const lines = Array.from({ length: 20_000 }, (_, at) => {
    const prompt = next(4) === 0 ? at : Math.max(0, at - next(400))
    const ids = [0, 1, 2].map((block) => 10 * prompt + block)
    return JSON.stringify({ timestamp: at * 100, input_length: 3 * 512, output_length: 1, hash_ids: ids })
  })
  return lines.join('\n')
}

it('every query of the dashboard and every recording rule answers while a replay runs', async (context) => {
  needProgram(context, 'prometheus')
  folder = mkdtempSync(join(tmpdir(), 'kvtier-dashboard-'))
  const file = join(folder, 'trace.jsonl')
  writeFileSync(file, trace())
  const sizes = ['--l0-size', '4MiB', '--l1-size', '16MiB', '--l2-size', '256MiB', '--l2-dir', folder]
  const flags = ['--speed', '5', '--prefill-rate', '1000000', '--prometheus-port', '0', ...sizes]
  replay = spawn('node_modules/.bin/node', ['src/cli/main.ts', 'replay', file, ...flags])
  let printed = ''
  replay.stderr!.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  const url = await until('it says where metrics are', () => /http:\S+/.exec(printed)?.[0])
  prometheus = await Prometheus.start(Number(new URL(url).port))
  await prometheus.scrapedTwice()
  const expressions = [
    ...PANEL_ROWS.flatMap((row) => row.panels).flatMap(({ title, queries }) =>
      queries.map(({ expr }) => [
        title,
        withMatchers(expr, 'job=~".*"', 'job=~".*",model_name=~".*",cache_salt=~".*"'),
      ]),
    ),
    ...RECORDING_RULES.filter(({ expr }) => !expr.includes('kvtier:')).map(({ record, expr }) => [record, expr]),
  ] as [string, string][]
  for (const [title, expr] of expressions) {
    const rows = await until(`an answer of ${title}: ${expr}`, async () => {
      const found = await prometheus!.query(expr)
      return found.some(({ value }) => Number.isFinite(Number(value[1]))) ? found : undefined
    })
    expect(rows.length, expr).toBeGreaterThan(0)
  }
  for (const { expr } of ALERT_RULES) await prometheus.query(expr)
})
