import { CHUNK_WORDS, META, SPACE_SHIFT } from '../chunk-table.ts'

const WAYS = 8

/**
 * A policy's own memory of what it evicted: 32-bit prints of (space, hash), each on list 1 or 2, in sets of 8 ways
 * that forget their oldest print. Bounded, preallocated, 5 bytes a print. Two chunks may share a print (once in 500
 * million); a policy that mistakes one for the other only orders it a little wrong.
 */
export class GhostPrints {
  /** Prints on each list. */
  readonly counts = new Uint32Array(3)
  readonly #words: Uint32Array
  readonly #prints: Uint32Array
  readonly #lists: Uint8Array
  readonly #nextWay: Uint8Array
  readonly #setMask: number

  /** @param capacity prints to remember, rounded up to 8 times a power of two. */
  constructor(words: Uint32Array, capacity: number) {
    const sets = 2 ** Math.max(0, Math.ceil(Math.log2(capacity / WAYS)))
    this.#words = words
    this.#prints = new Uint32Array(sets * WAYS)
    this.#lists = new Uint8Array(sets * WAYS)
    this.#nextWay = new Uint8Array(sets)
    this.#setMask = sets - 1
  }

  get bytes(): number {
    return this.#prints.byteLength + this.#lists.byteLength + this.#nextWay.byteLength
  }

  /** Remembers the chunk of a record on list 1 or 2. */
  add(id: number, list: number): void {
    const set = this.#setOf(id)
    const way = this.#nextWay[set]!
    const at = set * WAYS + way
    const forgotten = this.#lists[at]!
    if (forgotten !== 0) this.counts[forgotten] = this.counts[forgotten]! - 1
    this.#prints[at] = this.#printOf(id)
    this.#lists[at] = list
    this.counts[list] = this.counts[list]! + 1
    this.#nextWay[set] = (way + 1) % WAYS
  }

  /** The list on which the chunk of a record was remembered, or 0. It is forgotten. */
  take(id: number): number {
    const start = this.#setOf(id) * WAYS
    const print = this.#printOf(id)
    for (let at = start; at < start + WAYS; at += 1) {
      const list = this.#lists[at]!
      if (list === 0 || this.#prints[at] !== print) continue
      this.#lists[at] = 0
      this.counts[list] = this.counts[list]! - 1
      return list
    }
    return 0
  }

  #printOf(id: number): number {
    const record = id * CHUNK_WORDS
    const space = this.#words[record + META]! >>> SPACE_SHIFT
    return (this.#words[record]! ^ this.#words[record + 3]! ^ Math.imul(space + 1, 0x9e3779b1)) >>> 0
  }

  #setOf(id: number): number {
    const mixed = Math.imul(this.#words[id * CHUNK_WORDS + 1]! ^ this.#words[id * CHUNK_WORDS + 2]!, 0x85ebca6b)
    return (mixed ^ (mixed >>> 16)) & this.#setMask
  }
}
