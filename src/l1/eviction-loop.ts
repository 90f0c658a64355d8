import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { EVICTION_SPAN, SPAN_CANCELLED, SPAN_ERROR, SPAN_OK, SPAN_PARTIAL } from '../events/span-kinds.ts'
import { NO_ROW, NO_SPAN, type Span, Tracer } from '../events/tracer.ts'
import type { L1Cache } from './l1-cache.ts'
import type { L1Field } from './l1-recorder.ts'

/** Chunks evicted at most before the thread is yielded. */
const SLICE_CHUNKS_MAX = 256
/** The same, as a share of the chunks the index can hold. */
const SLICE_RATIO = 0.01

export interface EvictionLoopParts {
  readonly cache: L1Cache
  readonly totals: CounterTable<L1Field>
  readonly clock: Clock
  readonly onError: (loop: string, error: unknown) => void
  readonly onBeat: (nowMs: number) => void
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/**
 * The background trim of L1: every interval, and as soon as it is woken by pressure, it looks at the fill level. At or
 * over the high watermark it evicts by the distance of the watermarks, to the byte, in slices of at most 256 chunks or
 * 1 % of the index, with the thread yielded in between. Watermarks are shares of the bytes that shards can use
 * (`Arena.usableBytes`): when shards of several lengths share L1, windows must have room to change hands.
 *
 * Reservations do not wait for it: they evict on demand. One that had to shows that L1 was full at a lower level,
 * because what is free lies scattered or much is leased; then the loop trims by the same distance from there.
 *
 *            interval, wake                  usage < high, and nothing evicted on demand
 *   waiting ----------------> tick counted ----------------------------------> waiting
 *                                 | else: triggered counted                       ^
 *                                 v                                               |
 *                             slice --- target reached, or nothing can leave -----+
 *                             ^    | more to do
 *                             +----+ schedule(0)
 */
export class EvictionLoop {
  readonly #cache: L1Cache
  readonly #clock: Clock
  readonly #cells: Float64Array
  readonly #ticks: number
  readonly #triggered: number
  /** From the high watermark to the low one. */
  readonly #trimBytes: number
  readonly #sliceChunks: number
  readonly #loop: SupervisedLoop
  readonly #onError: EvictionLoopParts['onError']
  #isTrimming = false
  #targetBytes = 0
  #isRunning = false
  readonly #tracer: Tracer
  #span: Span = NO_SPAN
  #evictedChunks = 0
  #startBytes = 0

  constructor(parts: EvictionLoopParts) {
    const { capacityBytes, evictionHighRatio, evictionLowRatio, evictionIntervalMs, indexCapacityChunks } =
      parts.cache.options
    this.#cache = parts.cache
    this.#clock = parts.clock
    this.#onError = parts.onError
    this.#tracer = parts.tracer ?? Tracer.off()
    this.#cells = parts.totals.values
    this.#ticks = parts.totals.column('loopTicks')
    this.#triggered = parts.totals.column('loopTriggered')
    this.#trimBytes = Math.max(0, evictionHighRatio - evictionLowRatio) * capacityBytes
    this.#sliceChunks = Math.max(1, Math.min(SLICE_CHUNKS_MAX, Math.floor(indexCapacityChunks * SLICE_RATIO)))
    this.#loop = new SupervisedLoop({
      name: 'eviction',
      intervalMs: evictionIntervalMs,
      clock: parts.clock,
      cycle: () => this.#cycle(),
      onError: parts.onError,
      onBeat: parts.onBeat,
    })
  }

  start(): void {
    this.#isRunning = true
    this.#loop.start()
  }

  stop(): void {
    this.#isRunning = false
    this.#loop.stop()
  }

  /** Told of pressure. Costs next to nothing below the high watermark. */
  wake(): void {
    if (!this.#isTrimming && this.#cache.usageBytes >= this.#cache.highBytes) this.#loop.wake()
  }

  #cycle(): void {
    this.#cells[this.#ticks] = this.#cells[this.#ticks]! + 1
    const { usageBytes, highBytes } = this.#cache
    this.#trimQuotas()
    const isFull = this.#cache.takeDemand() || usageBytes >= highBytes
    if (this.#isTrimming || !isFull) return
    this.#cells[this.#triggered] = this.#cells[this.#triggered]! + 1
    this.#isTrimming = true
    this.#targetBytes = Math.min(usageBytes, highBytes) - this.#trimBytes
    this.#span = this.#tracer.root(EVICTION_SPAN)
    this.#evictedChunks = 0
    this.#startBytes = usageBytes
    this.#slice()
  }

  /** Brings salts under their quotas, a slice at a time. Counts as removal, not as eviction. */
  #trimQuotas(): void {
    const removed = this.#cache.trimQuotas(this.#sliceChunks)
    if (removed === this.#sliceChunks) this.#clock.schedule(0, () => this.#isRunning && this.#trimQuotas())
  }

  #slice(): void {
    if (!this.#isRunning) {
      this.#isTrimming = false
      this.#endSpan(SPAN_CANCELLED)
      return
    }
    try {
      const evicted = this.#cache.evictTo(this.#targetBytes, this.#sliceChunks)
      this.#evictedChunks += evicted
      const isReached = this.#cache.usageBytes <= this.#targetBytes
      this.#isTrimming = evicted === this.#sliceChunks && !isReached
      if (!this.#isTrimming) this.#endSpan(isReached ? SPAN_OK : SPAN_PARTIAL)
    } catch (error) {
      this.#isTrimming = false
      this.#endSpan(SPAN_ERROR)
      this.#onError('eviction', error)
    }
    if (this.#isTrimming) this.#clock.schedule(0, () => this.#slice())
  }

  #endSpan(outcome: number): void {
    const bytes = Math.max(0, this.#startBytes - this.#cache.usageBytes)
    this.#tracer.end(this.#span, outcome, NO_ROW, NO_ROW, this.#evictedChunks, bytes)
    this.#span = NO_SPAN
  }
}
