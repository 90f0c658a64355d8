import { LOOPS } from '../events/counters.ts'
import { type MetricCells, type RowKind, TABLES, type Tables } from './cells.ts'
import type { CellPart, Metric } from './define.ts'
import type { Histograms } from './histograms.ts'
import { labelText } from './label-text.ts'
import { READINGS, type ReadingContext, type ReadValue } from './readings.ts'
import { type FamilyVisitor, Series, TextStore } from './series.ts'

/** All series of one metric in one snapshot, in places that can be visited a range at a time; some may be empty. */
export interface Family {
  readonly metric: Metric
  places(): number
  /** Visits the series at places from..to-1 that are shown. */
  visit(from: number, to: number, visitor: FamilyVisitor): void
}

/** Tells which rows of a table are in use, in places 0..n-1, and what labels a row has. */
export class Rows {
  /** Where all series of these rows keep their texts. */
  readonly texts = new TextStore()
  readonly #cells: MetricCells
  #tenants = 0
  #adapters = 0

  constructor(cells: MetricCells) {
    this.#cells = cells
  }

  /** Looks again how many rows there are. */
  refresh(): void {
    this.#tenants = this.#cells.tenants.size()
    this.#adapters = this.#cells.adapters.size()
  }

  count(kind: RowKind): number {
    switch (kind) {
      case 'one':
        return 1
      case 'tenant':
        return this.#tenants + 1
      case 'adapter':
        return this.#adapters
      case 'adapterTenant':
        return this.#adapters * (this.#tenants + 1)
      case 'loop':
        return LOOPS.length
    }
  }

  /** Row of a place; the fold is the last place of the tenants. */
  rowAt(kind: RowKind, place: number): number {
    if (kind === 'tenant') return place === this.#tenants ? this.#cells.tenants.fold : place
    if (kind !== 'adapterTenant') return place
    const adapter = Math.floor(place / (this.#tenants + 1))
    return adapter * this.#cells.tenants.rows + this.rowAt('tenant', place - adapter * (this.#tenants + 1))
  }

  isAttached(kind: RowKind, row: number): boolean {
    return kind !== 'adapter' || this.#cells.adapters.isAttached(row)
  }

  labels(kind: RowKind, row: number): Record<string, string> {
    const { tenants, adapters } = this.#cells
    const pair = kind === 'tenant' || kind === 'adapterTenant' ? tenants.labels(row % tenants.rows) : undefined
    return {
      ...(pair === undefined ? {} : { model_name: pair.model, cache_salt: pair.salt }),
      ...(kind === 'adapter' ? { l2_name: adapters.label(row) ?? '' } : {}),
      ...(kind === 'adapterTenant' ? { l2_name: adapters.label(Math.floor(row / tenants.rows)) ?? '' } : {}),
      ...(kind === 'loop' ? { loop: LOOPS[row]! } : {}),
    }
  }
}

function seriesOf(metric: Metric, labels: Readonly<Record<string, string>>, texts: TextStore): Series {
  return new Series(
    metric.labels.map((name) => [name, labels[name]!]),
    texts,
  )
}

interface BoundPart {
  readonly part: CellPart
  readonly kind: RowKind
  readonly values: Float64Array
  readonly stride: number
  readonly column: number
  readonly siblings: readonly number[]
  readonly series: (Series | undefined)[]
}

/** A metric that shows fields of counter tables. */
export class CellFamily implements Family {
  readonly metric: Metric
  readonly #parts: readonly BoundPart[]
  readonly #rows: Rows
  readonly #nowMs: () => number

  /** @param tables what is read: a private copy of the cells. */
  constructor(metric: Metric, parts: readonly CellPart[], tables: Tables, rows: Rows, nowMs: () => number) {
    this.metric = metric
    this.#rows = rows
    this.#nowMs = nowMs
    this.#parts = parts.map((part) => {
      const { fields, rows: kind } = TABLES[part.table]
      const { values, stride } = tables[part.table]
      const column = (field: string) => (fields as readonly string[]).indexOf(field)
      const siblings = part.visibleWith.map(column)
      return { part, kind, values, stride, column: column(part.field), siblings, series: [] }
    })
  }

  places(): number {
    return this.#parts.reduce((sum, bound) => sum + this.#placesOf(bound), 0)
  }

  visit(from: number, to: number, visitor: FamilyVisitor): void {
    let start = 0
    for (const bound of this.#parts) {
      const places = this.#placesOf(bound)
      const last = Math.min(to - start, places)
      for (let place = Math.max(0, from - start); place < last; place += 1) this.#visitPlace(bound, place, visitor)
      start += places
    }
  }

  #placesOf(bound: BoundPart): number {
    return bound.part.isSummed ? 1 : this.#rows.count(bound.kind)
  }

  #visitPlace(bound: BoundPart, place: number, visitor: FamilyVisitor): void {
    const row = bound.part.isSummed ? 0 : this.#rows.rowAt(bound.kind, place)
    const raw = bound.part.isSummed ? this.#sum(bound) : bound.values[row * bound.stride + bound.column]!
    if (!this.#isShown(bound, row, raw)) return
    let series = bound.series[row]
    if (series === undefined) {
      const labels = bound.part.isSummed ? {} : this.#rows.labels(bound.kind, row)
      series = seriesOf(this.metric, { ...labels, ...bound.part.extra }, this.#rows.texts)
      bound.series[row] = series
    }
    visitor.value(series, bound.part.reader === 'age' ? Math.max(0, this.#nowMs() - raw) / 1000 : raw)
  }

  #isShown(bound: BoundPart, row: number, raw: number): boolean {
    if (this.metric.always) return this.#rows.isAttached(bound.kind, row)
    if (raw !== 0) return true
    for (const sibling of bound.siblings) if (bound.values[row * bound.stride + sibling] !== 0) return true
    return false
  }

  #sum(bound: BoundPart): number {
    let sum = 0
    for (let place = 0; place < this.#rows.count(bound.kind); place += 1) {
      sum += bound.values[this.#rows.rowAt(bound.kind, place) * bound.stride + bound.column]!
    }
    return sum
  }
}

/** A metric that is read by a function. */
export class ReadingFamily implements Family {
  readonly metric: Metric
  readonly #read: () => ReadValue[]
  readonly #series = new Map<string, Series>()
  readonly #rows: Rows
  #values: ReadValue[] = []

  constructor(metric: Metric, reading: keyof typeof READINGS, context: ReadingContext, rows: Rows) {
    this.metric = metric
    this.#rows = rows
    this.#read = () => READINGS[reading](context)
  }

  refresh(): void {
    this.#values = this.#read()
  }

  places(): number {
    return this.#values.length
  }

  visit(from: number, to: number, visitor: FamilyVisitor): void {
    for (const [labels, value] of this.#values.slice(from, to)) {
      const key = JSON.stringify(labels)
      let series = this.#series.get(key)
      if (series === undefined) {
        const values = this.metric.labels.map((name, i) => [name, labelText(labels[i]!)] as const)
        series = new Series(values, this.#rows.texts)
        this.#series.set(key, series)
      }
      visitor.value(series, value)
    }
  }
}

/** A metric that shows distributions. They are read when visited: each series is whole, all are of about now. */
export class HistogramFamily implements Family {
  readonly metric: Metric
  readonly #histograms: Histograms
  readonly #rows: Rows
  readonly #series: (Series | undefined)[] = []

  constructor(histograms: Histograms, rows: Rows) {
    this.metric = histograms.metric
    this.#histograms = histograms
    this.#rows = rows
  }

  places(): number {
    return this.#histograms.series.length
  }

  visit(from: number, to: number, visitor: FamilyVisitor): void {
    const kind = this.metric.labels.includes('l2_name') ? 'adapterTenant' : 'tenant'
    for (let place = from; place < Math.min(to, this.places()); place += 1) {
      const row = this.#histograms.series[place]!
      this.#series[place] ??= seriesOf(this.metric, this.#rows.labels(kind, row), this.#rows.texts)
      visitor.distribution(this.#series[place]!, this.#histograms.cells(row)!)
    }
  }
}
