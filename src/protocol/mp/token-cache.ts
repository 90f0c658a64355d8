import type { KnownWords, ReadWords, WordsMemory } from '../msgpack/reader.ts'

/** Shorter lists are read as fast as they are compared; longer ones would be much to keep. */
const BYTES_MIN = 512
const BYTES_MAX = 1024 * 1024
/** All that is kept, as it came. */
const TOTAL_BYTES_MAX = 64 * 1024 * 1024
/** Prompts of one template begin alike and end alike: this much is compared first. */
const HEAD_BYTES = 256
/** Lists that may be compared beyond that and turn out to be others, before a list is read anew. */
const MISSES_MAX = 4
const NO_BYTES = Buffer.alloc(0)
const NO_WORDS: Uint32Array = new Uint32Array(0)

/**
 * The token lists that were read last, by the bytes they came in. A client sends all tokens of a prompt with each of its
 * requests, and with a few more at the end for the next turn: comparing bytes is ten times as fast as reading them, and
 * makes no garbage.
 *
 *     kept    |--------- bytes ---------|  ->  words
 *     came    |=========================|.....|          the words are taken over, the rest is read behind them
 *
 * The words are shared by all who get them: nobody writes to them. Bounded: each list takes the place of the one that it
 * continues, else of the oldest.
 */
export class TokenCache implements WordsMemory {
  readonly readWords: ReadWords | null
  /** The bytes of a list are the start of a buffer that is reused. */
  readonly #buffers: Buffer[]
  readonly #words: Uint32Array[]
  /** Of the bytes; 0 = a free place. */
  readonly #lengths: Uint32Array
  readonly #counts: Uint32Array
  /** The last four bytes of the list, to compare first. */
  readonly #ends: Int32Array
  /** Of the first HEAD_BYTES: lists that begin otherwise are passed over without a look at their bytes. */
  readonly #heads: Int32Array
  #total = 0
  #next = 0

  constructor(capacity: number, readWords: ReadWords | null = null) {
    this.readWords = readWords
    this.#buffers = new Array(capacity).fill(NO_BYTES)
    this.#words = new Array(capacity).fill(NO_WORDS)
    this.#lengths = new Uint32Array(capacity)
    this.#counts = new Uint32Array(capacity)
    this.#ends = new Int32Array(capacity)
    this.#heads = new Int32Array(capacity)
  }

  find(bytes: Uint8Array, at: number, count: number): KnownWords | null {
    const left = bytes.length - at
    if (left < BYTES_MIN) return null
    const places = this.#lengths.length
    const head = headOf(bytes, at)
    let best = -1
    // The newest first: a request repeats the one before it.
    for (let back = 1, misses = 0; back <= places && misses < MISSES_MAX; back += 1) {
      const place = (this.#next - back + places) % places
      if (this.#heads[place] !== head) continue
      const length = this.#lengths[place]!
      const isLonger = this.#counts[place]! <= count && (best < 0 || length > this.#lengths[best]!)
      if (length === 0 || length > left || !isLonger || this.#ends[place] !== endOf(bytes, at + length)) continue
      const known = this.#buffers[place]!
      if (known.compare(bytes, at, at + length, 0, length) === 0) best = place
      else misses += 1
      if (best === place && this.#counts[place] === count) break
    }
    return best < 0 ? null : { words: this.#words[best]!, bytes: this.#lengths[best]!, place: best }
  }

  add(bytes: Uint8Array, words: Uint32Array, continued: KnownWords | null): void {
    const { length } = bytes
    if (length < BYTES_MIN || length > BYTES_MAX) return
    const place = continued?.place ?? this.#next
    if (continued === null) this.#next = (place + 1) % this.#lengths.length
    this.#drop(place)
    for (let oldest = this.#next; this.#total + length > TOTAL_BYTES_MAX; oldest += 1) {
      this.#drop(oldest % this.#lengths.length)
    }
    this.#buffers[place] = fitting(this.#buffers[place]!, length)
    this.#buffers[place].set(bytes)
    this.#words[place] = words
    this.#lengths[place] = length
    this.#counts[place] = words.length
    this.#ends[place] = endOf(bytes, length)
    this.#heads[place] = headOf(bytes, 0)
    this.#total += length
  }

  #drop(place: number): void {
    if (this.#lengths[place] === 0) return
    this.#total -= this.#lengths[place]!
    if (this.#total > TOTAL_BYTES_MAX / 2) this.#buffers[place] = NO_BYTES
    this.#lengths[place] = 0
    this.#words[place] = NO_WORDS
  }
}

/** The buffer when it has about this length, else another. */
function fitting(buffer: Buffer, length: number): Buffer {
  return buffer.length >= length && buffer.length <= 2 * length ? buffer : Buffer.allocUnsafeSlow(length)
}

/** A sum over the first HEAD_BYTES, in which places count. */
function headOf(bytes: Uint8Array, at: number): number {
  let sum = 0
  for (let index = at; index < at + HEAD_BYTES; index += 1) sum = (Math.imul(sum, 31) + bytes[index]!) | 0
  return sum
}

function endOf(bytes: Uint8Array, end: number): number {
  return (bytes[end - 4]! << 24) | (bytes[end - 3]! << 16) | (bytes[end - 2]! << 8) | bytes[end - 1]!
}
