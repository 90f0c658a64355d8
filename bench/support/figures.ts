/**
 * One claim of a bench: a ratio within one run, ours against something else, or a figure that a bound is on. Ratios can
 * be compared between runs and machines (`bench/compare.ts`); other figures can not.
 */
export interface Figure {
  readonly name: string
  readonly value: number
  /** `x` = a ratio. */
  readonly unit: string
  readonly better: 'lower' | 'higher'
  /** What it must be at most, or at least; absent: nothing is claimed. */
  readonly bound?: number
}

/** What a bench gives with `--json`, on one line. */
export interface Report {
  readonly figures: readonly Figure[]
  /** Everything else that was measured. */
  readonly rows: readonly object[]
}

export function holds({ value, better, bound }: Figure): boolean {
  if (bound === undefined) return true
  return better === 'lower' ? value <= bound : value >= bound
}

export function ratioFigure(name: string, value: number, better: 'lower' | 'higher', bound?: number): Figure {
  const ratio = Number(value.toPrecision(4))
  return { name, value: ratio, unit: 'x', better, ...(bound === undefined ? {} : { bound }) }
}

/** Prints a report: tables, or one line of JSON with `--json`. Sets the exit code when a bound does not hold. */
export function printReport({ figures, rows }: Report): void {
  if (process.argv.includes('--json')) console.log(JSON.stringify({ figures, rows }))
  else {
    console.table(rows)
    console.table(figures.map((figure) => ({ ...figure, holds: figure.bound === undefined ? '' : holds(figure) })))
  }
  if (!figures.every(holds)) process.exitCode = 1
}
