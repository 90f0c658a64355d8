import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { BenchResult } from './support/compare-results.ts'
import { type Figure, holds, type Report, ratioFigure } from './support/figures.ts'
import { thisMachine } from './support/machine.ts'
import { RESULT_FILE } from './support/result-file.ts'

/**
 * The set that `npm run bench` runs, one bench after the other: a table, and one JSON file for `compare`.
 *
 * `npm run bench -- set [--only NAME,...] [--out FILE] [--json]`. Each bench checks its work before it times it. A bench
 * that cannot run here says why, and the others go on. Ends with 1 when a bound does not hold.
 */
interface Entry {
  readonly name: string
  readonly words?: readonly string[]
  /** Figures out of what a bench prints that has no `figures` of its own. */
  readonly figures?: (report: never) => readonly Figure[]
}

interface IndexReport {
  readonly relativeGrowth: number
  readonly rows: readonly { readonly bytesPerChunk: number }[]
}

interface CopyReport {
  readonly copies: readonly { readonly piece_kib: number; readonly arena_to_plain: number }[]
}

interface MpReport {
  readonly pings: readonly [{ readonly cpuUs: number }, { readonly cpuUs: number }]
  readonly rows: readonly { readonly phase: string; readonly what: string; readonly toFloorP50: number }[]
}

interface RedisReport {
  readonly rows: readonly { readonly direction: string; readonly ours_to_raw: number }[]
}

const SET: readonly Entry[] = [
  { name: 'lookup-floor' },
  {
    name: 'l1-index',
    words: ['--sizes', '10000,100000,1000000'],
    figures: ({ relativeGrowth, rows }: IndexReport) => [
      ratioFigure('growth of the cost, to the reference', relativeGrowth, 'lower', 1.5),
      { name: 'bytes a chunk', value: rows.at(-1)!.bytesPerChunk, unit: 'B', better: 'lower', bound: 120 },
    ],
  },
  { name: 'index-rivals' },
  { name: 'recording-rivals' },
  {
    name: 'memory-copy',
    figures: ({ copies }: CopyReport) =>
      copies.map((row) => ratioFigure(`copy of ${row.piece_kib} KiB, to plain`, row.arena_to_plain, 'lower')),
  },
  { name: 'native' },
  {
    name: 'l2-redis',
    words: ['--pairs', '9'],
    figures: ({ rows }: RedisReport) =>
      rows.map((row) => ratioFigure(`${row.direction}, to a bare socket`, row.ours_to_raw, 'higher')),
  },
  {
    name: 'mp-wire',
    figures: ({ rows, pings: [ours, floor] }: MpReport) => [
      ratioFigure('CPU a ping, to an echo', ours.cpuUs / floor.cpuUs, 'lower'),
      ...rows.map((row) => ratioFigure(`${row.phase}: ${row.what}, p50 to an echo`, row.toFloorP50, 'lower')),
    ],
  },
  { name: 'rival-wire' },
  { name: 'rival-data' },
  { name: 'http' },
]

function wordAfter(flag: string): string | undefined {
  const at = process.argv.indexOf(flag)
  return at < 0 ? undefined : process.argv[at + 1]
}

/** Runs one in a process of its own. @throws Error when it gives no result. */
async function run({ name, words = [], figures }: Entry): Promise<Report> {
  const main = join(import.meta.dirname, 'main.ts')
  const child = spawn(process.execPath, [main, name, ...words, '--json'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const printed: string[] = []
  child.stdout!.setEncoding('utf8').on('data', (text: string) => printed.push(text))
  const [code] = (await once(child, 'close')) as [number | null]
  const line = printed.join('').trim().split('\n').at(-1)!
  if (!line.startsWith('{')) throw new Error(`exit code ${code}, and no result`)
  const report = JSON.parse(line) as Report
  return figures === undefined ? report : { figures: figures(report as never), rows: [report] }
}

const only = wordAfter('--only')?.split(',')
const machine = thisMachine()
const benches: Record<string, BenchResult['benches'][string]> = {}
console.error(
  `${machine.cores} x ${machine.processor}, ${machine.memoryGib} GiB, Node ${machine.node}, load ${machine.load}`,
)
for (const entry of SET) {
  if (only !== undefined && !only.includes(entry.name)) continue
  const start = performance.now()
  try {
    const report = await run(entry)
    benches[entry.name] = { ...report, seconds: Math.round((performance.now() - start) / 1000) }
  } catch (error) {
    benches[entry.name] = { error: error instanceof Error ? error.message : String(error) }
  }
}
const result: BenchResult = { date: new Date().toISOString(), machine, benches }
const out = wordAfter('--out') ?? RESULT_FILE
mkdirSync(dirname(out), { recursive: true })
writeFileSync(out, `${JSON.stringify(result, null, 1)}\n`)
const rows = Object.entries(benches).flatMap(([bench, report]) =>
  'error' in report
    ? [{ bench, figure: report.error, value: '', bound: '', holds: false }]
    : report.figures.map((figure) => ({
        bench,
        figure: figure.name,
        value: `${Number(figure.value.toPrecision(3))} ${figure.unit}`,
        bound: figure.bound ?? '',
        holds: figure.bound === undefined ? '' : holds(figure),
      })),
)
if (process.argv.includes('--json')) console.log(JSON.stringify(result))
else console.table(rows)
console.error(`written to ${out}; npm run bench -- compare sets it beside the last baseline`)
if (rows.some((row) => row.holds === false)) process.exitCode = 1
