import { CounterTable } from '../core/counters.ts'
import { CATALOGUE } from './catalogue.ts'
import { type MetricCells, type RowKind, TABLES, type TableName, type Tables } from './cells.ts'
import type { Metric } from './define.ts'
import { CellFamily, type Family, HistogramFamily, ReadingFamily, Rows } from './families.ts'
import type { ReadingContext } from './readings.ts'

/**
 * Reads everything the catalogue names. Each `take` copies the cells at once, so that a slow rendering shows one
 * moment. Families and their series stay the same objects from one snapshot to the next; the last snapshot holds.
 */
export class SnapshotReader {
  readonly #cells: MetricCells
  readonly #copy: Tables
  readonly #rows: Rows
  readonly #families: readonly Family[]
  readonly #context: ReadingContext
  #nowMs = 0

  constructor(context: ReadingContext, catalogue: readonly Metric[] = CATALOGUE) {
    this.#context = context
    this.#cells = context.cells
    this.#rows = new Rows(context.cells)
    this.#copy = privateTables(context.cells)
    this.#families = catalogue.map((metric) => this.#familyOf(metric))
  }

  /** @returns one family for each metric, in the order of the catalogue. Valid until the next call. */
  take(): readonly Family[] {
    this.#rows.refresh()
    this.#nowMs = this.#context.clock.nowMs()
    for (const name of Object.keys(TABLES) as TableName[]) this.#copyTable(name)
    for (const family of this.#families) if (family instanceof ReadingFamily) family.refresh()
    return this.#families
  }

  #familyOf(metric: Metric): Family {
    const { source } = metric
    switch (source.kind) {
      case 'cells':
        return new CellFamily(metric, source.parts, this.#copy, this.#rows, () => this.#nowMs)
      case 'reading':
        return new ReadingFamily(metric, source.reading, this.#context, this.#rows)
      case 'event':
      case 'reuseDistance':
        return new HistogramFamily(this.#context.recorder.histograms(metric.name), this.#rows)
    }
  }

  /**
   * Copies the rows in use, last field first. An owner adds to the whole before the part (tokens asked for before
   * tokens hit), and fields are listed in that order, so a part that is copied first is never ahead of its whole.
   */
  #copyTable(name: TableName): void {
    const kind: RowKind = TABLES[name].rows
    const from = this.#cells.tables[name].values
    const to = this.#copy[name].values
    const stride = TABLES[name].fields.length
    for (let place = this.#rows.count(kind) - 1; place >= 0; place -= 1) {
      const start = this.#rows.rowAt(kind, place) * stride
      for (let at = start + stride - 1; at >= start; at -= 1) to[at] = from[at]!
    }
  }
}

function privateTables(cells: MetricCells): Tables {
  const tables = Object.entries(cells.tables).map(([name, table]: [string, CounterTable]) => {
    return [name, new CounterTable(table.fields, table.rows)]
  })
  return Object.fromEntries(tables) as Tables
}
