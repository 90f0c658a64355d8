import { assert } from '../core/assert.ts'
import type { EventType } from '../events/define.ts'
import type { FieldOf, TableName } from './cells.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram'

/** Names of the readings that are not a cell; `snapshot.ts` has a function for each. */
export type Reading =
  | 'busDepth'
  | 'busLag'
  | 'busDropped'
  | 'busDroppedByType'
  | 'labelOverflow'
  | 'wouldHitRatio'
  | 'historyDropped'
  | 'historySampleRate'
  | 'deviceInfo'

/** A field of a counter table as one series for each of its rows. */
export interface CellPart {
  readonly table: TableName
  readonly field: string
  /** Labels of this field besides those of the row, such as `reason`. */
  readonly extra: Readonly<Record<string, string>>
  /** Fields of the same row: while one of them is not 0, this one is shown even at 0. */
  readonly visibleWith: readonly string[]
  /** `age`: the cell is a time in ms, shown as seconds since then. */
  readonly reader: 'plain' | 'age'
  /** All rows are summed into one series. */
  readonly isSummed: boolean
}

/** How an event becomes one sample of a histogram; `undefined` stands for no sample. */
export interface EventSample {
  readonly on: EventType
  /** Place of the value (or numerator) in the payload, 0 to 2. */
  readonly value: number
  /** Place of the divisor in the payload, or -1. No sample when either is 0. */
  readonly per: number
  /** What the quotient is divided by. */
  readonly scale: number
  /** Place of the adapter row in the payload, or -1. */
  readonly adapter: number
  /** Place of the number of samples in the payload, or -1 for one. */
  readonly times: number
}

export type Source =
  | { readonly kind: 'cells'; readonly parts: readonly CellPart[] }
  | { readonly kind: 'reading'; readonly reading: Reading }
  | { readonly kind: 'event'; readonly sample: EventSample }
  /** Stack distances of reuse, which the recorder takes from `reuse-distance.ts`. */
  | { readonly kind: 'reuseDistance'; readonly events: readonly EventType[] }

/** One metric: everything that exporters, docs, dashboards and checks know of it. */
export interface Metric {
  readonly name: string
  readonly type: MetricType
  readonly help: string
  readonly labels: readonly string[]
  /** Exported from the start, at 0. Otherwise it appears with its first recording. */
  readonly always: boolean
  /** Not one of the 46 names of the interface document. */
  readonly extension: boolean
  /** Upper bounds of the buckets, ascending, without infinity. Empty unless a histogram. */
  readonly bounds: readonly number[]
  readonly source: Source
}

export const PREFIX = 'cache_mp_'

// Label sets.
export const NONE = [] as const
export const TENANT = ['model_name', 'cache_salt'] as const
export const ADAPTER = ['l2_name'] as const
export const ADAPTER_TENANT = ['model_name', 'cache_salt', 'l2_name'] as const

// Histogram bounds.
export const SECONDS = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 43200] as const
export const GB_PER_SECOND = [
  0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 25, 30, 40, 50, 55, 60, 80, 100,
] as const
/** 4^0 to 4^13. */
export const REUSE_DISTANCE: readonly number[] = Array.from({ length: 14 }, (_, power) => 4 ** power)

interface Row {
  readonly help: string
  readonly labels: readonly string[]
  readonly always?: boolean
  readonly extension?: boolean
}

interface ValueRow extends Row {
  readonly from: readonly CellPart[] | Reading
}

function value(type: 'counter' | 'gauge', name: string, row: ValueRow): Metric {
  return {
    name: PREFIX + name,
    type,
    help: row.help,
    labels: row.labels,
    always: row.always ?? false,
    extension: row.extension ?? false,
    bounds: [],
    source: typeof row.from === 'string' ? { kind: 'reading', reading: row.from } : { kind: 'cells', parts: row.from },
  }
}

/** A number that only grows. The name ends in `_total`. */
export function counter(name: `${string}_total`, row: ValueRow): Metric {
  return value('counter', name, row)
}

export function gauge(name: string, row: ValueRow): Metric {
  return value('gauge', name, row)
}

interface SampleRow<Payload extends readonly string[]> extends Row {
  readonly bounds: readonly number[]
  readonly on: EventType<Payload>
  /** Payload name of the value. */
  readonly value: Payload[number]
  /** Payload name of what the value is divided by. */
  readonly per?: Payload[number]
  readonly scale?: number
  /** Payload name of the adapter row. */
  readonly adapter?: Payload[number]
  /** Payload name of how many things the event tells of, each a sample of this value; absent = one. */
  readonly times?: Payload[number]
}

/** A distribution of one value of an event. */
export function histogram<const Payload extends readonly string[]>(name: string, row: SampleRow<Payload>): Metric {
  const place = (key: string | undefined) => {
    const at = key === undefined ? -1 : row.on.payload.indexOf(key)
    assert(key === undefined || at >= 0, 'the event has no such value')
    return at
  }
  const sample: EventSample = {
    on: row.on,
    value: place(row.value),
    per: place(row.per),
    scale: row.scale ?? 1,
    adapter: place(row.adapter),
    times: place(row.times),
  }
  return {
    name: PREFIX + name,
    type: 'histogram',
    help: row.help,
    labels: row.labels,
    always: false,
    extension: row.extension ?? false,
    bounds: row.bounds,
    source: { kind: 'event', sample },
  }
}

/** A distribution of stack distances of reuse. */
export function distanceHistogram(
  name: string,
  row: Row & { readonly bounds: readonly number[]; readonly events: readonly EventType[] },
): Metric {
  return {
    name: PREFIX + name,
    type: 'histogram',
    help: row.help,
    labels: row.labels,
    always: false,
    extension: row.extension ?? false,
    bounds: row.bounds,
    source: { kind: 'reuseDistance', events: row.events },
  }
}

interface CellOptions<Name extends TableName> {
  readonly extra?: Readonly<Record<string, string>>
  readonly visibleWith?: readonly FieldOf<Name>[]
  readonly reader?: 'plain' | 'age'
  readonly isSummed?: boolean
}

/** One field of a table as the source of a metric. */
export function cell<Name extends TableName>(
  table: Name,
  field: FieldOf<Name>,
  { extra = {}, visibleWith = [], reader = 'plain', isSummed = false }: CellOptions<Name> = {},
): CellPart {
  return { table, field, extra, visibleWith, reader, isSummed }
}

/** Several fields of a table under one name, told apart by a label: `{ label value: field }`. */
export function split<Name extends TableName>(
  table: Name,
  label: string,
  fields: Readonly<Record<string, FieldOf<Name>>>,
  options: CellOptions<Name> = {},
): CellPart[] {
  return Object.entries(fields).map(([text, field]) => cell(table, field, { ...options, extra: { [label]: text } }))
}
