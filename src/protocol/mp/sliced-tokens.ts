import type { KnownWords, ReadWords, WordsMemory } from '../msgpack/reader.ts'
import type { TokenMemories } from './codec.ts'

/** Bytes of a packed token. */
const PACKED_BYTES = 4

/** Where the tokens of a message lie. */
interface TokenList {
  readonly bytes: Uint8Array
  readonly at: number
  readonly isPacked: boolean
}

/**
 * Reads the tokens of one message a few at a time: a million take 5 ms. The message is decoded twice, and its tokens are
 * read in between; neither decoding reads any:
 *
 *   FINDING  --decodeIncoming(tokens: this)-->  READING  --readSome, again and again-->  READ  --decodeIncoming--> request
 *      what comes out means nothing
 *
 * What is found broken while it is read is refused by the second decoding. The frames must stay as they are until then.
 */
export class SlicedTokens implements TokenMemories {
  readonly ids: WordsMemory
  readonly packed: WordsMemory
  readonly #readWords: ReadWords
  #list: TokenList | null = null
  #words: Uint32Array = new Uint32Array(0)
  #isFinding = true
  #isBroken = false
  /** Tokens that were read, and where the next one lies. */
  #read = 0
  #next = 0

  constructor(readWords: ReadWords) {
    this.#readWords = readWords
    const read: ReadWords = (bytes, at, words, from) =>
      this.#isFinding || this.#isBroken ? -1 : readWords(bytes, at, words, from)
    this.ids = {
      readWords: read,
      find: (bytes, at, count) => this.#find({ bytes, at, isPacked: false }, count),
      add() {},
    }
    this.packed = {
      readWords: null,
      find: (bytes, at, count) => this.#find({ bytes, at, isPacked: true }, count),
      add() {},
    }
  }

  /** Reads the next tokens, `most` of them. @returns whether all are read: the message may be decoded. */
  readSome(most: number): boolean {
    this.#isFinding = false
    const list = this.#list
    if (list === null || this.#isBroken) return true
    const to = Math.min(this.#words.length, this.#read + most)
    const end = list.isPacked
      ? this.#swap(list.bytes, to)
      : this.#readWords(list.bytes, this.#next, this.#words.subarray(0, to), this.#read)
    this.#isBroken = end < 0
    this.#next = end
    this.#read = to
    return this.#isBroken || to === this.#words.length
  }

  #swap(bytes: Uint8Array, to: number): number {
    const [from, end] = [PACKED_BYTES * this.#read, PACKED_BYTES * to]
    const target = Buffer.from(this.#words.buffer, from, end - from)
    target.set(bytes.subarray(from, end))
    target.swap32()
    return end
  }

  #find(list: TokenList, count: number): KnownWords | null {
    if (this.#isFinding && this.#list === null) {
      this.#list = list
      this.#words = new Uint32Array(count)
      this.#next = list.at
    }
    const isIt = this.#list !== null && isSame(this.#list, list) && this.#words.length === count
    if (!isIt || this.#isBroken || (this.#isFinding && !list.isPacked)) return null
    return { words: this.#words, bytes: list.isPacked ? PACKED_BYTES * count : this.#next - list.at, place: 0 }
  }
}

function isSame(one: TokenList, other: TokenList): boolean {
  return (
    one.isPacked === other.isPacked &&
    one.bytes.byteOffset + one.at === other.bytes.byteOffset + other.at &&
    one.bytes.buffer === other.bytes.buffer
  )
}
