import { CHUNK_WORDS, META, SPACE_SHIFT } from '../chunk-table.ts'

const WAYS = 8
const TIMES_SHIFT = 14
const PRINT_MASK = (1 << TIMES_SHIFT) - 1

/**
 * How often evicted chunks had been asked for: prints of (space, hash) of 14 bits with a count of 1 to 3, in sets of 8
 * ways that forget their oldest print. Bounded, preallocated, 17 bits a print. A chunk is taken for another once in
 * 2,000 times; then it is only ordered a little wrong.
 */
export class UsePrints {
  readonly #words: Uint32Array
  /** 0 = none; else count << 14 | print. */
  readonly #entries: Uint16Array
  readonly #nextWay: Uint8Array
  readonly #scale: number

  /** @param capacity prints to remember, rounded up to eights. */
  constructor(words: Uint32Array, capacity: number) {
    const sets = Math.max(1, Math.ceil(capacity / WAYS))
    this.#words = words
    this.#entries = new Uint16Array(sets * WAYS)
    this.#nextWay = new Uint8Array(sets)
    this.#scale = sets / 2 ** 32
  }

  get bytes(): number {
    return this.#entries.byteLength + this.#nextWay.byteLength
  }

  /** @param times 1 to 3. */
  add(id: number, times: number): void {
    const record = id * CHUNK_WORDS
    const set = this.#setOf(record)
    const way = this.#nextWay[set]!
    this.#entries[set * WAYS + way] = (times << TIMES_SHIFT) | this.#printOf(record)
    this.#nextWay[set] = (way + 1) % WAYS
  }

  /** The count of a chunk, or 0. It is forgotten. */
  take(id: number): number {
    const record = id * CHUNK_WORDS
    const start = this.#setOf(record) * WAYS
    const print = this.#printOf(record)
    for (let at = start; at < start + WAYS; at += 1) {
      const entry = this.#entries[at]!
      if (entry === 0 || (entry & PRINT_MASK) !== print) continue
      this.#entries[at] = 0
      return entry >>> TIMES_SHIFT
    }
    return 0
  }

  /** Bits of the hash, which are random, and of the space. */
  #printOf(record: number): number {
    const space = this.#words[record + META]! >>> SPACE_SHIFT
    return (this.#words[record]! ^ Math.imul(space, 0x9e3779b1)) >>> (32 - TIMES_SHIFT)
  }

  #setOf(record: number): number {
    return Math.floor(this.#words[record + 1]! * this.#scale)
  }
}
