import { SPAN_DOUBLES } from '../../events/span-ring.ts'

/**
 * Ended spans that wait to be pushed: a bounded ring of records. When it is full the oldest makes room, so that what
 * arrives after an outage is what happened last.
 */
export class SpanQueue {
  readonly capacitySpans: number
  readonly #records: Float64Array
  /** Spans ever put in, and ever taken out or dropped. */
  #head = 0
  #tail = 0

  constructor(capacitySpans: number) {
    this.capacitySpans = capacitySpans
    this.#records = new Float64Array(capacitySpans * SPAN_DOUBLES)
  }

  get count(): number {
    return this.#head - this.#tail
  }

  /** Copies a record in. @returns false when the oldest was dropped for it. */
  push(records: Float64Array, at: number): boolean {
    const to = (this.#head % this.capacitySpans) * SPAN_DOUBLES
    for (let double = 0; double < SPAN_DOUBLES; double += 1) this.#records[to + double] = records[at + double]!
    this.#head += 1
    if (this.count <= this.capacitySpans) return true
    this.#tail += 1
    return false
  }

  /** The oldest spans, at most `spansMax`, as `read` makes them. They stay until they are dropped. */
  batch<Made>(spansMax: number, read: (records: Float64Array, at: number) => Made): { made: Made[]; end: number } {
    const end = Math.min(this.#head, this.#tail + spansMax)
    const made: Made[] = []
    for (let span = this.#tail; span < end; span += 1) {
      made.push(read(this.#records, (span % this.capacitySpans) * SPAN_DOUBLES))
    }
    return { made, end }
  }

  /** Takes out every span up to the `end` of a batch, those of it that made room meanwhile aside. @returns how many. */
  dropTo(end: number): number {
    const dropped = Math.max(0, Math.min(end, this.#head) - this.#tail)
    this.#tail += dropped
    return dropped
  }
}
