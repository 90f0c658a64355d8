import type { EventBatchSink } from '../events/bus.ts'
import type { EventType } from '../events/define.ts'

/** The time of the batch at hand. */
export interface BatchTime {
  /** Reading of the clock, ms. */
  readonly timeMs: number
  /** The same as a stamp: whole milliseconds, modulo 2^32. */
  readonly stamp: number
}

/**
 * Events of one kind, of which equal ones that follow each other in a batch are published as one, with their number. An
 * event tells one or two ages, in seconds since stamps, and then how many it stands for. Nothing is allocated.
 */
export class AgeRun {
  readonly #events: EventBatchSink
  readonly #type: EventType
  readonly #hasTwo: boolean
  readonly #now: BatchTime
  readonly #since = new Uint32Array(2)
  #tenant = 0
  #count = 0

  constructor(events: EventBatchSink, type: EventType, now: BatchTime) {
    this.#events = events
    this.#type = type
    this.#hasTwo = type.payload.length === 3
    this.#now = now
  }

  /** @param other stamp of the second age, where there are two. */
  add(tenant: number, since: number, other: number, count: number): void {
    const held = this.#since
    if (this.#count > 0) {
      if (held[0] === since && held[1] === other && this.#tenant === tenant) {
        this.#count += count
        return
      }
      this.flush()
    }
    held[0] = since
    held[1] = other
    this.#tenant = tenant
    this.#count = count
  }

  /** Hands what is held to the sink, as of now; the sink is to be flushed. */
  flush(): void {
    if (this.#count === 0) return
    const { stamp, timeMs } = this.#now
    const first = ((stamp - this.#since[0]!) >>> 0) / 1000
    const second = ((stamp - this.#since[1]!) >>> 0) / 1000
    if (this.#hasTwo) this.#events.enqueue(this.#type, this.#tenant, timeMs, first, second, this.#count)
    else this.#events.enqueue(this.#type, this.#tenant, timeMs, first, this.#count)
    this.#count = 0
  }
}
