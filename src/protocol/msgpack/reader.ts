import { isUtf8 } from 'node:buffer'

/** What the next value of a message is. `end` also stands for a broken message. */
export type MsgpackKind = 'nil' | 'bool' | 'int' | 'float' | 'str' | 'bin' | 'array' | 'map' | 'ext' | 'end'

// First byte -> kind, filled below.
const KINDS: MsgpackKind[] = []

const NO_BYTES = new Uint8Array(0)
/** Shorter lists are not worth a call. */
const NATIVE_WORDS_MIN = 64

/** Words that were read before. */
export interface KnownWords {
  /** Not to be written to. */
  readonly words: Uint32Array
  /** Bytes that they came in. */
  readonly bytes: number
  /** Where they are kept. */
  readonly place: number
}

/**
 * Reads the words of an array, as `MsgpackReader` does: into `words`, from `from` on.
 *
 * @param at where the first of them begins. @returns where what follows begins; -1 when there is anything else.
 */
export type ReadWords = (bytes: Uint8Array, at: number, words: Uint32Array, from: number) => number

/** Remembers lists of words by the bytes they came in. */
export interface WordsMemory {
  /** Reads what is not known. Null = the reader does. */
  readonly readWords: ReadWords | null
  /** The longest known list of at most `count` words whose bytes are those of `bytes` from `at` on. */
  find(bytes: Uint8Array, at: number, count: number): KnownWords | null
  /** Remembers what was read. @param continued the list found, that these words begin with. */
  add(bytes: Uint8Array, words: Uint32Array, continued: KnownWords | null): void
}

/**
 * A cursor over one MessagePack message from a peer that is not trusted. Nothing throws: the first thing that is
 * wrong (another type, a length behind the end, a number out of range) breaks the reader for good; from then on every
 * read gives an empty value, and `isBroken` says so. Check it once, at the end.
 *
 * - A length is checked against the bytes that are there before anything is allocated: one of 1 GiB costs nothing.
 * - Integers of up to 64 bits come whole: numbers where they are safe, else bigint. Floats are never taken for them.
 * - Extension types are skipped, never interpreted. Nesting costs no stack.
 *
 * Reading into the shapes at hand, instead of a general tree of objects, is what lets the tokens of a prompt become a
 * Uint32Array without 32,000 boxed numbers on the way. Packages decode to trees, and forget int from float.
 */
export class MsgpackReader {
  readonly #bytes: Uint8Array
  #at = 0
  #isBroken = false

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** Only for what is rare: a view costs as much as reading a short message. */
  get #view(): DataView {
    const { buffer, byteOffset, byteLength } = this.#bytes
    return new DataView(buffer, byteOffset, byteLength)
  }

  get isBroken(): boolean {
    return this.#isBroken
  }

  /** The message was read to its end, and nothing was wrong with it. */
  get isDone(): boolean {
    return !this.#isBroken && this.#at === this.#bytes.length
  }

  /** Kind of the value that comes next. */
  next(): MsgpackKind {
    return this.#isBroken || this.#at >= this.#bytes.length ? 'end' : KINDS[this.#bytes[this.#at]!]!
  }

  /** Makes the reader broken: the caller saw what is wrong. */
  refuse(): void {
    this.#isBroken = true
  }

  /** Steps over a nil; false when something else comes next. */
  takeNil(): boolean {
    if (this.next() !== 'nil') return false
    this.#at += 1
    return true
  }

  bool(): boolean {
    const head = this.#head('bool')
    return head === 0xc3
  }

  /** A whole number: number where it is safe, else bigint. */
  int(): number | bigint {
    const head = this.#head('int')
    if (this.#isBroken) return 0
    if (head < 0x80) return head
    if (head >= 0xe0) return head - 256
    const width = 1 << (head & 3)
    const at = this.#at
    if (!this.#skip(width)) return 0
    switch (head) {
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#big(at, width)
      case 0xcf:
        return narrow(this.#view.getBigUint64(at))
      case 0xd0:
        return this.#view.getInt8(at)
      case 0xd1:
        return this.#view.getInt16(at)
      case 0xd2:
        return this.#view.getInt32(at)
      default:
        return narrow(this.#view.getBigInt64(at))
    }
  }

  /** A whole number as a bigint. */
  bigint(): bigint {
    return BigInt(this.int())
  }

  /** A whole number of minimum..maximum, both safe. */
  count(minimum: number, maximum: number): number {
    const value = this.int()
    if (typeof value === 'number' && value >= minimum && value <= maximum) return value
    this.#isBroken = true
    return minimum
  }

  /** A finite number, whole or not. */
  number(): number {
    if (this.next() === 'int') return Number(this.int())
    const head = this.#head('float')
    const at = this.#at
    if (this.#isBroken || !this.#skip(head === 0xca ? 4 : 8)) return 0
    const value = head === 0xca ? this.#view.getFloat32(at) : this.#view.getFloat64(at)
    if (!Number.isFinite(value)) this.#isBroken = true
    return this.#isBroken ? 0 : value
  }

  /** A string of at most `maximumBytes` of UTF-8. What is not UTF-8 is refused: two names must not become one. */
  string(maximumBytes: number): string {
    const head = this.#head('str')
    const length = this.#isBroken ? 0 : head < 0xc0 ? head & 31 : this.#length(1 << (head - 0xd9))
    const bytes = this.#take(length, maximumBytes)
    if (!isUtf8(bytes)) this.#isBroken = true
    return this.#isBroken ? '' : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  }

  /** As `string`, but what is no such string is stepped over, and empty. */
  anyString(maximumBytes: number): string {
    if (this.next() !== 'str') {
      this.skip()
      return ''
    }
    const bytes = this.#take(this.#stringLength(), this.#bytes.length)
    if (this.#isBroken || bytes.length > maximumBytes || !isUtf8(bytes)) return ''
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  }

  /** Bytes, as a view of the message. */
  bin(maximumBytes: number): Uint8Array {
    const head = this.#head('bin')
    const length = this.#isBroken ? 0 : this.#length(1 << (head - 0xc4))
    return this.#take(length, maximumBytes)
  }

  /** Opens an array. @returns how many values follow. */
  array(maximum: number): number {
    const head = this.#head('array')
    const count = this.#isBroken ? 0 : head < 0xa0 ? head & 15 : this.#length(head === 0xdc ? 2 : 4)
    return this.#members(count, maximum, 1)
  }

  /** Opens a map. @returns how many pairs of key and value follow. */
  map(maximum: number): number {
    const head = this.#head('map')
    const count = this.#isBroken ? 0 : head < 0x90 ? head & 15 : this.#length(head === 0xde ? 2 : 4)
    return this.#members(count, maximum, 2)
  }

  /**
   * An array of whole numbers of 0..2^32-1. A prompt has many: the usual forms are read in place, and those of 1, 2 and
   * 4 bytes alike, because a processor cannot foresee which comes next. What `memory` has is not read again.
   *
   * @returns words that are not to be written to when there is a memory.
   */
  words(maximum: number, memory?: WordsMemory): Uint32Array {
    const count = this.array(maximum)
    const start = this.#at
    const known = this.#isBroken ? null : (memory?.find(this.#bytes, start, count) ?? null)
    if (known !== null) this.#at += known.bytes
    if (known?.words.length === count) return known.words
    const words = new Uint32Array(count)
    if (known !== null) words.set(known.words)
    this.#readWords(words, known?.words.length ?? 0, memory?.readWords ?? null)
    if (this.#isBroken) return new Uint32Array(0)
    memory?.add(this.#bytes.subarray(start, this.#at), words, known)
    return words
  }

  /** 32-bit words packed as big-endian bytes. As `words`. */
  packedWords(maximum: number, memory?: WordsMemory): Uint32Array {
    const packed = this.bin(4 * maximum)
    if (packed.length % 4 !== 0) this.#isBroken = true
    if (this.#isBroken) return new Uint32Array(0)
    const count = packed.length / 4
    const known = memory?.find(packed, 0, count) ?? null
    if (known?.words.length === count) return known.words
    const words = new Uint32Array(count)
    if (known !== null) words.set(known.words)
    const rest = Buffer.from(words.buffer, known?.bytes ?? 0)
    rest.set(packed.subarray(known?.bytes ?? 0))
    rest.swap32()
    memory?.add(packed, words, known)
    return words
  }

  /** Reads behind the first `from` words. @param native reads longer lists, if there is one. */
  #readWords(words: Uint32Array, from: number, native: ReadWords | null): void {
    const bytes = this.#bytes
    if (native !== null && words.length - from >= NATIVE_WORDS_MIN) {
      const end = native(bytes, this.#at, words, from)
      if (end < 0) this.#isBroken = true
      else this.#at = end
      return
    }
    const view = this.#view
    const quickEnd = bytes.length - 5 // no form below is longer
    let at = this.#at
    for (let index = from; index < words.length; index += 1) {
      const head = at <= quickEnd ? bytes[at]! : 0xff
      if (head >= 0xcc && head <= 0xce) {
        const width = 1 << (head - 0xcc)
        words[index] = view.getUint32(at + 1) >>> (32 - 8 * width)
        at += 1 + width
      } else if (head < 0x80) {
        words[index] = head
        at += 1
      } else {
        this.#at = at
        words[index] = this.count(0, 0xffff_ffff)
        if (this.#isBroken) break
        at = this.#at
      }
    }
    this.#at = at
  }

  /** Steps over one value, whatever it is and however deep. */
  skip(): void {
    for (let left = 1; left > 0 && !this.#isBroken; left -= 1) left += this.#skipOne()
  }

  /** Steps over one value, or the head of a list. @returns members of the list. */
  #skipOne(): number {
    const kind = this.next()
    const most = this.#bytes.length
    switch (kind) {
      case 'array':
        return this.array(most)
      case 'map':
        return 2 * this.map(most)
      case 'int':
        this.int()
        return 0
      case 'str':
        this.#take(this.#stringLength(), most)
        return 0
      case 'bin':
        this.bin(most)
        return 0
      case 'ext':
        this.#skipExt()
        return 0
      case 'float':
        this.#skip(this.#bytes[this.#at] === 0xca ? 5 : 9)
        return 0
      case 'end':
        this.#isBroken = true
        return 0
      default:
        this.#skip(1)
        return 0
    }
  }

  #stringLength(): number {
    const head = this.#head('str')
    return head < 0xc0 ? head & 31 : this.#length(1 << (head - 0xd9))
  }

  #skipExt(): void {
    const head = this.#head('ext')
    const length = head >= 0xd4 ? 1 << (head - 0xd4) : this.#length(1 << (head - 0xc7))
    this.#skip(1 + length)
  }

  /** The first byte of a value, stepped over; breaks the reader when the value is of another kind. */
  #head(kind: MsgpackKind): number {
    if (this.next() !== kind) {
      this.#isBroken = true
      return 0
    }
    return this.#bytes[this.#at++]!
  }

  #length(width: number): number {
    const at = this.#at
    if (!this.#skip(width)) return 0
    return this.#big(at, width)
  }

  /** A number of 1, 2 or 4 bytes that are there. */
  #big(at: number, width: number): number {
    const bytes = this.#bytes
    if (width === 1) return bytes[at]!
    const low = (bytes[at + width - 2]! << 8) | bytes[at + width - 1]!
    return width === 2 ? low : ((((bytes[at]! << 8) | bytes[at + 1]!) << 16) | low) >>> 0
  }

  #members(count: number, maximum: number, bytesEach: number): number {
    if (count > maximum || count * bytesEach > this.#bytes.length - this.#at) this.#isBroken = true
    return this.#isBroken ? 0 : count
  }

  #take(length: number, maximum: number): Uint8Array {
    const at = this.#at
    if (length > maximum) this.#isBroken = true
    return this.#skip(length) ? this.#bytes.subarray(at, at + length) : NO_BYTES
  }

  #skip(bytes: number): boolean {
    if (bytes > this.#bytes.length - this.#at) this.#isBroken = true
    if (this.#isBroken) return false
    this.#at += bytes
    return true
  }
}

function narrow(value: bigint): number | bigint {
  const isSafe = value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER
  return isSafe ? Number(value) : value
}

function kindOf(head: number): MsgpackKind {
  if (head < 0x80 || head >= 0xe0) return 'int'
  if (head < 0x90) return 'map'
  if (head < 0xa0) return 'array'
  if (head < 0xc0) return 'str'
  if (head === 0xc0) return 'nil'
  if (head === 0xc1) return 'end' // never used
  if (head <= 0xc3) return 'bool'
  if (head <= 0xc6) return 'bin'
  if (head <= 0xc9) return 'ext'
  if (head <= 0xcb) return 'float'
  if (head <= 0xd3) return 'int'
  if (head <= 0xd8) return 'ext'
  if (head <= 0xdb) return 'str'
  return head <= 0xdd ? 'array' : 'map'
}

for (let head = 0; head < 256; head += 1) KINDS.push(kindOf(head))
