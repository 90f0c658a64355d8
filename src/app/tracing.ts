import { randomFillSync } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { RandomWords } from '../core/random-words.ts'
import { SpanRing } from '../events/span-ring.ts'
import { TraceRatio } from '../events/trace-ratio.ts'
import { Tracer } from '../events/tracer.ts'
import type { MetricCells } from '../metrics/cells.ts'
import type { PushOptions } from '../server/options.ts'

/** Spans between two drains of the service thread: 1.3 MiB. */
const RING_SPANS = 8_192

/** What records spans, and the ring they end in; null when there is nobody to push them to. */
export interface Tracing {
  readonly tracer: Tracer
  readonly ring: SharedArrayBuffer | null
}

/** Tracing as the options ask for it. */
export function openTracing({ endpoint, traceRatio }: PushOptions, clock: Clock, cells: MetricCells): Tracing {
  if (endpoint === '' || traceRatio === 0) return { tracer: Tracer.off(), ring: null }
  const ring = SpanRing.create(RING_SPANS)
  const ids = new RandomWords((pool) => void randomFillSync(pool))
  const tracer = Tracer.create({ ring, clock, ratio: new TraceRatio(traceRatio), ids, cells: cells.spans })
  return { tracer, ring: ring.buffer }
}
