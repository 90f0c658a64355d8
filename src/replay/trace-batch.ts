import { assert } from '../core/assert.ts'
import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import { traceKeys } from './trace-keys.ts'

/** The session of a request that belongs to none. */
export const NO_SESSION = 0xffffffff

/**
 * Requests of a trace, column by column. It grows and never shrinks; `clear` keeps the memory.
 * Block ids of request i are `ids[firstId[i] .. firstId[i + 1])`, root first.
 *
 * Requests with text have hashes too, 8 words a block; the id of such a block is the first word of its hash. All
 * requests of a batch have them, or none has.
 */
export class TraceBatch {
  count = 0
  timestampMs = new Float64Array(64)
  inputTokens = new Float64Array(64)
  outputTokens = new Float64Array(64)
  firstId = new Uint32Array(65)
  ids = new Uint32Array(1024)
  /** Empty = blocks have ids alone. */
  hashes = new Uint32Array(0)
  /** Number of the session that a request belongs to, in order of their first requests, or NO_SESSION. */
  session = new Uint32Array(64)
  /** 1 = the last request of its session. */
  endsSession = new Uint8Array(64)

  clear(): void {
    this.count = 0
    this.firstId[0] = 0
  }

  /** Block ids over all requests. */
  get idCount(): number {
    return this.firstId[this.count]!
  }

  /** @param blockIds whole numbers of 0..2^32-1, of which the first `blocks` are taken. */
  push(
    timestampMs: number,
    inputTokens: number,
    outputTokens: number,
    blockIds: ArrayLike<number>,
    blocks: number,
  ): void {
    assert(blocks <= blockIds.length, 'fewer ids than blocks')
    const index = this.count
    const from = this.idCount
    this.#ensureRoom(index + 1, from + blocks)
    this.timestampMs[index] = timestampMs
    this.inputTokens[index] = inputTokens
    this.outputTokens[index] = outputTokens
    this.session[index] = NO_SESSION
    this.endsSession[index] = 0
    for (let block = 0; block < blocks; block += 1) this.ids[from + block] = blockIds[block]!
    this.firstId[index + 1] = from + blocks
    this.count = index + 1
  }

  /** Appends a request whose blocks have the hashes of a chain. */
  pushChain(timestampMs: number, inputTokens: number, outputTokens: number, chain: HashChain): void {
    const from = this.idCount
    const { count, words } = chain
    assert(from === 0 || this.hashes.length > 0, 'requests with hashes and without in one batch')
    this.#ensureHashes(from + count)
    this.hashes.set(words.subarray(0, count * HASH_WORDS), from * HASH_WORDS)
    const ids = Uint32Array.from({ length: count }, (_, block) => words[block * HASH_WORDS]!)
    this.push(timestampMs, inputTokens, outputTokens, ids, count)
  }

  /** The session of the request that was appended last. */
  setSession(session: number, endsSession: boolean): void {
    this.session[this.count - 1] = session
    this.endsSession[this.count - 1] = endsSession ? 1 : 0
  }

  /** Appends request `index` of another batch, without its hashes. */
  pushFrom(other: TraceBatch, index: number): void {
    const from = other.firstId[index]!
    const to = other.firstId[index + 1]!
    this.push(
      other.timestampMs[index]!,
      other.inputTokens[index]!,
      other.outputTokens[index]!,
      other.ids.subarray(from, to),
      to - from,
    )
    this.setSession(other.session[index]!, other.endsSession[index] === 1)
  }

  /** Writes the keys of request `index` to a chain: its hashes, or what `traceKeys` makes of its ids. */
  keysOf(index: number, chain: HashChain): void {
    const from = this.firstId[index]!
    const to = this.firstId[index + 1]!
    if (this.hashes.length === 0) traceKeys(this.ids, from, to, chain)
    else {
      chain.ensureCapacity(to - from)
      chain.count = to - from
      chain.words.set(this.hashes.subarray(from * HASH_WORDS, to * HASH_WORDS))
    }
  }

  #ensureHashes(blocks: number): void {
    if (blocks * HASH_WORDS <= this.hashes.length && this.hashes.length > 0) return
    const length = Math.max(1, blocks, 2 * Math.floor(this.hashes.length / HASH_WORDS)) * HASH_WORDS
    this.hashes = grown(this.hashes, new Uint32Array(length))
  }

  #ensureRoom(requests: number, ids: number): void {
    if (requests > this.timestampMs.length) {
      const length = this.timestampMs.length * 2
      this.timestampMs = grown(this.timestampMs, new Float64Array(length))
      this.inputTokens = grown(this.inputTokens, new Float64Array(length))
      this.outputTokens = grown(this.outputTokens, new Float64Array(length))
      this.firstId = grown(this.firstId, new Uint32Array(length + 1))
      this.session = grown(this.session, new Uint32Array(length))
      this.endsSession = grown(this.endsSession, new Uint8Array(length))
    }
    if (ids > this.ids.length) this.ids = grown(this.ids, new Uint32Array(Math.max(ids, this.ids.length * 2)))
  }
}

type Columns = Float64Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>

function grown<Column extends Columns>(from: Column, to: Column): Column {
  to.set(from)
  return to
}
