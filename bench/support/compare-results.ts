import type { Figure, Report } from './figures.ts'
import type { Machine } from './machine.ts'

/** What `npm run bench` writes, and what is kept in `bench/baselines`. */
export interface BenchResult {
  /** ISO 8601, UTC. */
  readonly date: string
  readonly machine: Machine
  /** By name; `error` = the bench gave no result. */
  readonly benches: Readonly<Record<string, (Report & { readonly seconds: number }) | { readonly error: string }>>
}

export interface Change {
  readonly bench: string
  readonly figure: string
  readonly before: number
  readonly now: number
  /** Above 1: worse than before, so many times. */
  readonly worse: number
  readonly isWorse: boolean
}

export interface Comparison {
  readonly changes: readonly Change[]
  /** `bench: figure` of the baseline that the result does not have. */
  readonly missing: readonly string[]
}

/**
 * Compares the ratios of two results; other figures are times of a machine, and say nothing beside those of another.
 *
 * @param tolerance how many times worse a ratio may be: shared machines do not give the same one twice.
 */
export function compareResults(before: BenchResult, now: BenchResult, tolerance: number): Comparison {
  const changes: Change[] = []
  const missing: string[] = []
  for (const [bench, old] of Object.entries(before.benches)) {
    const fresh = now.benches[bench]
    if (fresh === undefined) continue // it was not asked for
    for (const { name, value, better } of ratiosOf(old)) {
      const same = ratiosOf(fresh).find((one) => one.name === name)
      if (same === undefined) {
        missing.push(`${bench}: ${name}`)
        continue
      }
      const worse = better === 'lower' ? same.value / value : value / same.value
      changes.push({ bench, figure: name, before: value, now: same.value, worse, isWorse: worse > tolerance })
    }
  }
  return { changes, missing }
}

function ratiosOf(bench: BenchResult['benches'][string]): readonly Figure[] {
  return 'error' in bench ? [] : bench.figures.filter(({ unit }) => unit === 'x')
}
