import type { Clock } from '../core/clock.ts'
import { SpanRing } from '../events/span-ring.ts'
import { TraceRatio } from '../events/trace-ratio.ts'
import type { MetricCells } from '../metrics/cells.ts'
import { TracePush, type TracePushParts } from '../server/push/trace-push.ts'
import type { TraceStates } from '../server/push/trace-states.ts'

/** The wall clock was set when it differs by more from where the engine's clock says it should be. */
const CLOCK_SET_MS = 10

export interface TraceServiceParts
  extends Pick<TracePushParts, 'sender' | 'encoding' | 'intervalMs' | 'clock' | 'random' | 'log'>,
    Pick<TracePushParts['facts'], 'resource' | 'scope'> {
  readonly ring: SharedArrayBuffer
  readonly states: TraceStates
  readonly cells: MetricCells
  /** Of traces that begin in the engine. */
  readonly ratio: number
}

/** Traces on the service thread: spans come out of the ring, and go to the receiver. */
export class TraceService {
  readonly #push: TracePush

  constructor({ ring, states, cells, ratio, resource, scope, ...common }: TraceServiceParts) {
    this.#push = new TracePush({
      ...common,
      ring: SpanRing.attach(ring),
      facts: {
        resource,
        scope,
        tenants: cells.tenants,
        adapters: cells.adapters,
        states,
        ownState: `ot=th:${new TraceRatio(ratio).threshold}`,
        epochMs: epochOf(common.clock),
      },
      cells: cells.spanPush,
    })
    this.#push.start()
  }

  /** Takes over what has ended. Run at least as often as the ring fills. */
  drain(): void {
    this.#push.drain()
  }

  /** See `TracePush`. */
  close(deadlineMs: number): Promise<void> {
    return this.#push.close(deadlineMs)
  }
}

/**
 * Milliseconds since 1970 when a clock read 0. The same until the wall clock is set: its readings are whole
 * milliseconds, and spans of one trace must not shift against each other.
 */
export function epochOf(clock: Clock): () => number {
  let epochMs = clock.wallMs() - clock.nowMs()
  return () => {
    const nowMs = clock.wallMs() - clock.nowMs()
    if (Math.abs(nowMs - epochMs) > CLOCK_SET_MS) epochMs = nowMs
    return epochMs
  }
}
