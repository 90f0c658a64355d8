import type { Clock } from '../../src/core/clock.ts'
import { RandomWords } from '../../src/core/random-words.ts'
import { SPAN_KINDS, SPAN_OUTCOMES } from '../../src/events/span-kinds.ts'
import { SPAN_AT, SpanRing } from '../../src/events/span-ring.ts'
import { TraceRatio } from '../../src/events/trace-ratio.ts'
import { Tracer } from '../../src/events/tracer.ts'
import { MetricCells } from '../../src/metrics/cells.ts'
import { random } from './random.ts'

/** A span as it came out of the ring, times as the clock has them. */
export interface EndedSpan {
  readonly name: string
  readonly trace: string
  readonly id: string
  /** Empty = none. */
  readonly parent: string
  readonly flags: number
  readonly startMs: number
  readonly endMs: number
  readonly tenant: number
  readonly adapter: number
  readonly outcome: string
  readonly chunks: number
  readonly bytes: number
  readonly numbers: readonly number[]
}

/** A tracer with a ring of its own, and what it recorded. Ids come of the seed, or of `fill`. */
export function makeTracing(
  clock: Clock,
  {
    cells = MetricCells.create({ maxTenants: 2 }),
    ratio = 1,
    capacitySpans = 1024,
    seed = 1,
    fill,
  }: {
    readonly cells?: MetricCells
    readonly ratio?: number
    readonly capacitySpans?: number
    readonly seed?: number
    readonly fill?: (pool: Uint32Array) => void
  } = {},
) {
  const ring = SpanRing.create(capacitySpans)
  const next = random(seed)
  let fills = 0
  const ids = new RandomWords((pool) => {
    fills += 1
    if (fill !== undefined) fill(pool)
    else for (let at = 0; at < pool.length; at += 1) pool[at] = next(2 ** 32)
  })
  const tracer = Tracer.create({ ring, clock, ratio: new TraceRatio(ratio), ids, cells: cells.spans })
  const spans = () => {
    const ended: EndedSpan[] = []
    ring.drain((records, at) => ended.push(endedSpanAt(records, at)))
    return ended
  }
  return { tracer, ring, cells, spans, fills: () => fills }
}

function endedSpanAt(records: Float64Array, at: number): EndedSpan {
  const hex = (from: number, words: number) =>
    Array.from(records.subarray(at + from, at + from + words), (word) => word.toString(16).padStart(8, '0')).join('')
  const parent = hex(SPAN_AT.parent, 2)
  const kind = SPAN_KINDS[records[at + SPAN_AT.kind]!]!
  return {
    name: kind.name,
    trace: hex(SPAN_AT.trace, 4),
    id: hex(SPAN_AT.id, 2),
    parent: /^0+$/.test(parent) ? '' : parent,
    flags: records[at + SPAN_AT.flags]!,
    startMs: records[at + SPAN_AT.startMs]!,
    endMs: records[at + SPAN_AT.endMs]!,
    tenant: records[at + SPAN_AT.tenant]!,
    adapter: records[at + SPAN_AT.adapter]!,
    outcome: SPAN_OUTCOMES[records[at + SPAN_AT.outcome]!]!.name,
    chunks: records[at + SPAN_AT.chunks]!,
    bytes: records[at + SPAN_AT.bytes]!,
    numbers: kind.numbers.map((_, place) => records[at + SPAN_AT.numbers + place]!),
  }
}

/** The spans as a tree of names, children in the order in which they began, indented by two for each level. */
export function treeOf(spans: readonly EndedSpan[]): string[] {
  const below = (parent: string, indent: string): string[] =>
    spans
      .filter((span) => span.parent === parent)
      .toSorted((left, right) => left.startMs - right.startMs)
      .flatMap((span) => [`${indent}${span.name} ${span.outcome}`, ...below(span.id, `${indent}  `)])
  const known = new Set(spans.map(({ id }) => id))
  const tops = new Set(spans.filter(({ parent }) => !known.has(parent)).map(({ parent }) => parent))
  return [...tops].flatMap((parent) => below(parent, ''))
}
