import { assert } from '../core/assert.ts'

/** Ends a list of blocks. */
export const NO_BLOCK = -1

/**
 * Blocks 0..capacity-1 of the device pool: which are free, and the lists that the others form.
 * Free blocks are a stack. It starts in ascending order and a list is given back in reverse, so that a list taken
 * tends to lie in one piece on the device and its copies merge.
 */
export class BlockPool {
  readonly capacity: number
  readonly #next: Int32Array
  #freeHead = NO_BLOCK
  #freeCount = 0

  constructor(capacity: number) {
    this.capacity = capacity
    this.#next = new Int32Array(capacity)
    for (let block = 0; block < capacity; block += 1) this.#next[block] = block + 1 < capacity ? block + 1 : NO_BLOCK
    this.#freeHead = capacity > 0 ? 0 : NO_BLOCK
    this.#freeCount = capacity
  }

  get free(): number {
    return this.#freeCount
  }

  /** Block after each one in its list, or NO_BLOCK: the pool's own array, for those who follow lists elsewhere. */
  get nextBlocks(): Int32Array {
    return this.#next
  }

  /** Block after this one in its list, or NO_BLOCK. */
  next(block: number): number {
    return this.#next[block]!
  }

  /** Takes a list of `count` blocks, count >= 1. @returns its first block. */
  take(count: number): number {
    assert(count >= 1 && count <= this.#freeCount, 'more blocks taken than are free')
    const first = this.#freeHead
    let last = first
    for (let i = 1; i < count; i += 1) last = this.#next[last]!
    this.#freeHead = this.#next[last]!
    this.#next[last] = NO_BLOCK
    this.#freeCount -= count
    return first
  }

  /** Gives a whole list back. The next `take` gets its blocks first, in the same order. */
  give(first: number): void {
    let last = first
    let count = 1
    for (let block = this.#next[first]!; block !== NO_BLOCK; block = this.#next[block]!) {
      last = block
      count += 1
    }
    this.#next[last] = this.#freeHead
    this.#freeHead = first
    this.#freeCount += count
  }

  /** Checks the free list and marks its blocks in `seen` (capacity bytes). */
  verify(seen: Uint8Array): void {
    let count = 0
    for (let block = this.#freeHead; block !== NO_BLOCK; block = this.#next[block]!) {
      assert(seen[block] === 0, 'block twice in the free list')
      seen[block] = 1
      count += 1
    }
    assert(count === this.#freeCount, 'free blocks miscounted')
  }
}
