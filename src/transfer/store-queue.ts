import { assert } from '../core/assert.ts'
import { NO_SPAN, type Span } from '../events/tracer.ts'

/**
 * Shards waiting to be stored in one adapter, oldest first: a bounded ring in typed arrays.
 * An entry names a chunk by (id, generation) and holds no lease: one that left L1 meanwhile is skipped.
 */
export class StoreQueue {
  readonly id: Uint32Array
  readonly generation: Uint32Array
  readonly space: Uint32Array
  readonly rank: Uint16Array
  /** Of the client's store that brought the shard; NO_SPAN = none that is recorded. */
  readonly span: Uint32Array
  readonly #capacity: number
  #head = 0
  #count = 0

  constructor(capacityShards: number) {
    assert(capacityShards > 0, 'a queue without room')
    this.#capacity = capacityShards
    this.id = new Uint32Array(capacityShards)
    this.generation = new Uint32Array(capacityShards)
    this.space = new Uint32Array(capacityShards)
    this.rank = new Uint16Array(capacityShards)
    this.span = new Uint32Array(capacityShards)
  }

  get count(): number {
    return this.#count
  }

  /** False when the ring is full; nothing changed then. */
  push(id: number, generation: number, space: number, rank: number, span: Span = NO_SPAN): boolean {
    if (this.#count === this.#capacity) return false
    const at = (this.#head + this.#count) % this.#capacity
    this.id[at] = id
    this.generation[at] = generation
    this.space[at] = space
    this.rank[at] = rank
    this.span[at] = span
    this.#count += 1
    return true
  }

  /** Index into the arrays of the entry `ahead` places behind the oldest. */
  at(ahead: number): number {
    return (this.#head + ahead) % this.#capacity
  }

  /** Entries from the oldest on that have its space and rank, at most `limit`. */
  leadingBatch(limit: number): number {
    const first = this.#head
    let count = 0
    while (count < this.#count && count < limit) {
      const at = this.at(count)
      if (this.space[at] !== this.space[first] || this.rank[at] !== this.rank[first]) break
      count += 1
    }
    return count
  }

  /** The first span of the oldest `count` entries, or NO_SPAN. */
  spanOf(count: number): Span {
    for (let ahead = 0; ahead < count; ahead += 1) {
      const span = this.span[this.at(ahead)]!
      if (span !== NO_SPAN) return span
    }
    return NO_SPAN
  }

  drop(count: number): void {
    assert(count <= this.#count, 'dropped more than queued')
    this.#head = (this.#head + count) % this.#capacity
    this.#count -= count
  }
}
