import { assert } from '../../core/assert.ts'
import { CHILDREN, CHUNK_WORDS, type ChunkTable, HOLDS, NEWER, NO_CHUNK, OLDER, SECOND_ROOT } from '../chunk-table.ts'

/** The two queues of a policy. */
export const FIRST_QUEUE = 1
export const SECOND_QUEUE = 2

const QUEUE_MASK = 3
const LINKED = 4
const RENEWED = 8
const COUNT_SHIFT = 4
const COUNT_MAX = 3

/**
 * Two queues over the chunk records for policies whose order does not put children before parents by itself, with one
 * byte a chunk: queue (2 bits) | linked | renewed | a small access count (2 bits).
 *
 *   linked --- found at the oldest end while held or with children: park ---> parked
 *      ^                                                                          |
 *      +--- it is free and has no child any more: unpark, at the oldest end ------+
 *           (at the newest end when it was asked for meanwhile)
 *
 * A chunk is unlinked by parking only where a search meets it, and linked again only by the event that makes it
 * evictable. So every park is paid for by one lease or one child, and a search is O(1) amortised however long the
 * chains are.
 */
export class ParkingQueues {
  /** Chunks by queue, parked ones included: so a search that parks does not change them. */
  readonly sizes = new Uint32Array(3)
  readonly #linked = new Uint32Array(3)
  readonly #words: Uint32Array
  readonly #state: Uint8Array
  readonly #table: ChunkTable

  constructor(table: ChunkTable) {
    this.#table = table
    this.#words = table.words
    this.#state = new Uint8Array(table.words.length / CHUNK_WORDS)
    const second = SECOND_ROOT * CHUNK_WORDS
    this.#words[second + NEWER] = SECOND_ROOT
    this.#words[second + OLDER] = SECOND_ROOT
  }

  get bytes(): number {
    return this.#state.byteLength
  }

  /** A new chunk at the newest end. */
  add(id: number, queue: number): void {
    this.#state[id] = queue
    this.sizes[queue] = this.sizes[queue]! + 1
    this.#link(id, queue, this.#words[rootOf(queue) * CHUNK_WORDS + OLDER]!)
  }

  drop(id: number): void {
    if ((this.#state[id]! & LINKED) !== 0) this.#unlink(id)
    const queue = this.queueOf(id)
    this.sizes[queue] = this.sizes[queue]! - 1
    this.#state[id] = 0
  }

  /** The queue that a chunk is in, or was parked from. */
  queueOf(id: number): number {
    return this.#state[id]! & QUEUE_MASK
  }

  countOf(id: number): number {
    return this.#state[id]! >>> COUNT_SHIFT
  }

  /** One access more; counts up to 3. */
  countUp(id: number): void {
    const state = this.#state[id]!
    if (state >>> COUNT_SHIFT < COUNT_MAX) this.#state[id] = state + (1 << COUNT_SHIFT)
  }

  countDown(id: number): void {
    this.#state[id] = this.#state[id]! - (1 << COUNT_SHIFT)
  }

  /** Makes a chunk the newest of a queue; a parked one takes that place when it is unparked. */
  renew(id: number, queue: number): void {
    const state = this.#state[id]!
    const left = state & QUEUE_MASK
    this.sizes[left] = this.sizes[left]! - 1
    this.sizes[queue] = this.sizes[queue]! + 1
    if ((state & LINKED) === 0) {
      this.#state[id] = (state & ~QUEUE_MASK) | queue | RENEWED
      return
    }
    this.#unlink(id)
    this.#state[id] = (this.#state[id]! & ~QUEUE_MASK) | queue
    this.#link(id, queue, this.#words[rootOf(queue) * CHUNK_WORDS + OLDER]!)
  }

  /** Back into its queue, if it is parked and nothing stands in the way of its eviction. */
  unpark(id: number): void {
    const state = this.#state[id]!
    if ((state & LINKED) !== 0 || !this.#isEvictable(id)) return
    const root = rootOf(state & QUEUE_MASK)
    this.#state[id] = state & ~RENEWED
    this.#link(id, state & QUEUE_MASK, (state & RENEWED) === 0 ? root : this.#words[root * CHUNK_WORDS + OLDER]!)
  }

  /** The oldest chunk of a queue that could be evicted, or NO_CHUNK. Parks what lies before it. */
  oldest(queue: number): number {
    const root = rootOf(queue)
    for (;;) {
      const id = this.#words[root * CHUNK_WORDS + NEWER]!
      if (id === root) return NO_CHUNK
      if (this.#isEvictable(id)) return id
      this.#unlink(id)
    }
  }

  verify(): void {
    for (const queue of [FIRST_QUEUE, SECOND_QUEUE]) {
      const root = rootOf(queue)
      let walked = 0
      for (let id = this.#words[root * CHUNK_WORDS + NEWER]!; id !== root; ) {
        assert((this.#state[id]! & (QUEUE_MASK | LINKED)) === (queue | LINKED), 'a queue holds a stranger')
        assert(this.#words[this.#words[id * CHUNK_WORDS + NEWER]! * CHUNK_WORDS + OLDER] === id, 'a queue is torn')
        id = this.#words[id * CHUNK_WORDS + NEWER]!
        walked += 1
      }
      assert(walked === this.#linked[queue], 'a queue is miscounted')
    }
    const sizes = [0, 0, 0]
    for (let id = this.#table.firstId; id < this.#table.endId; id += 1) {
      const state = this.#state[id]!
      sizes[state & QUEUE_MASK]! += 1
      if (state === 0 || (state & LINKED) !== 0) continue
      assert(!this.#isEvictable(id), 'an evictable chunk is parked')
    }
    for (const queue of [FIRST_QUEUE, SECOND_QUEUE]) assert(sizes[queue] === this.sizes[queue], 'sizes are wrong')
  }

  #isEvictable(id: number): boolean {
    const record = id * CHUNK_WORDS
    return this.#words[record + HOLDS] === 0 && this.#words[record + CHILDREN] === 0
  }

  /** Links a chunk on the newer side of `older`. */
  #link(id: number, queue: number, older: number): void {
    const words = this.#words
    const newer = words[older * CHUNK_WORDS + NEWER]!
    words[older * CHUNK_WORDS + NEWER] = id
    words[newer * CHUNK_WORDS + OLDER] = id
    words[id * CHUNK_WORDS + OLDER] = older
    words[id * CHUNK_WORDS + NEWER] = newer
    this.#state[id] = this.#state[id]! | LINKED
    this.#linked[queue] = this.#linked[queue]! + 1
  }

  #unlink(id: number): void {
    const words = this.#words
    const newer = words[id * CHUNK_WORDS + NEWER]!
    const older = words[id * CHUNK_WORDS + OLDER]!
    words[older * CHUNK_WORDS + NEWER] = newer
    words[newer * CHUNK_WORDS + OLDER] = older
    const queue = this.#state[id]! & QUEUE_MASK
    this.#state[id] = this.#state[id]! & ~LINKED
    this.#linked[queue] = this.#linked[queue]! - 1
  }
}

function rootOf(queue: number): number {
  return queue === FIRST_QUEUE ? NO_CHUNK : SECOND_ROOT
}
