import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BenchResult, compareResults } from './support/compare-results.ts'
import { RESULT_FILE } from './support/result-file.ts'

/**
 * Compares the last result of `npm run bench` with the last committed baseline, by its ratios alone.
 *
 * `npm run bench -- compare [RESULT.json] [--baseline FILE] [--tolerance 1.5] [--json]`. Ends with 1 when a ratio is
 * worse than the tolerance allows, or gone.
 */
const BASELINES = join(import.meta.dirname, 'baselines')
const TOLERANCE = 1.5

function read(file: string): BenchResult {
  return JSON.parse(readFileSync(file, 'utf8')) as BenchResult
}

/** The newest of the folder. */
function lastBaseline(): string {
  const files = readdirSync(BASELINES).filter((name) => name.endsWith('.json'))
  const dated = files.map((name) => ({ file: join(BASELINES, name), date: read(join(BASELINES, name)).date }))
  const last = dated.sort((one, other) => one.date.localeCompare(other.date)).at(-1)
  if (last === undefined) throw new Error('there is no baseline')
  return last.file
}

function wordAfter(flag: string): string | undefined {
  const at = process.argv.indexOf(flag)
  return at < 0 ? undefined : process.argv[at + 1]
}

const named = process.argv[3]?.endsWith('.json') === true ? process.argv[3] : RESULT_FILE
const baseline = read(wordAfter('--baseline') ?? lastBaseline())
const result = read(named)
const { changes, missing } = compareResults(baseline, result, Number(wordAfter('--tolerance') ?? TOLERANCE))
const worse = changes.filter(({ isWorse }) => isWorse)
if (process.argv.includes('--json')) console.log(JSON.stringify({ changes, missing }))
else {
  const line = ({ date, machine }: BenchResult) =>
    `${date}, ${machine.cores} x ${machine.processor}, load ${machine.load}`
  console.log(`baseline: ${line(baseline)}\nresult:   ${line(result)}`)
  const rounded = (value: number) => Number(value.toPrecision(3))
  console.table(changes.map((one) => ({ ...one, worse: rounded(one.worse) })))
  for (const name of missing) console.log(`missing: ${name}`)
  console.log(`${changes.length} ratios, ${worse.length} worse, ${missing.length} missing`)
}
if (worse.length > 0 || missing.length > 0) process.exitCode = 1
