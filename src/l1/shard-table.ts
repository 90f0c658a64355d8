import { assert } from '../core/assert.ts'

/** No shard: ids start at 1. */
export const NO_SHARD = 0

/** 32-bit words of one shard record, and where each field lies in it. */
export const SHARD_WORDS = 6
export const SLOT = 0
export const CHUNK = 1
export const NEXT_SHARD = 2
/** rank (8 bits) | state << 8 */
export const RANK_STATE = 3
export const ALLOCATED_MS = 4
/** Checksum of the bytes, for whoever verifies them. 0 = not taken yet. */
export const CHECKSUM = 5

export const RANK_MASK = 0xff
export const SHARD_STATE_SHIFT = 8
export const SHARD_FREE = 0
export const RESERVED = 1
export const READABLE = 2
export const QUARANTINED = 3

/**
 * The stored objects of L1: one record of 24 bytes for each (chunk, rank) that has a slot of the arena.
 * The shards of a chunk are a singly linked list that starts in its chunk record.
 *
 *            allocate           commit                  evict, remove
 *     FREE ------------> RESERVED ------> READABLE ----------------------> FREE
 *      ^                 |      | write lease expired            (removed while leased: stays READABLE
 *      |   abort, failed |      v                                 under a DOOMED chunk until the lease ends)
 *      +-----------------+   QUARANTINED (of no chunk) --- fence --> FREE
 */
export class ShardTable {
  readonly capacity: number
  readonly words: Uint32Array
  #freeHead = NO_SHARD
  #fresh = 1
  #freeCount: number

  constructor(capacity: number) {
    assert(capacity >= 1, 'a shard index without room')
    this.capacity = capacity
    this.words = new Uint32Array((capacity + 1) * SHARD_WORDS)
    this.#freeCount = capacity
  }

  get freeCount(): number {
    return this.#freeCount
  }

  /** Ids are 1..endId-1, so far. */
  get endId(): number {
    return this.#fresh
  }

  get bytes(): number {
    return this.words.byteLength
  }

  /** A RESERVED record of a chunk, not yet in its list, with no slot; NO_SHARD when all are in use. */
  allocate(chunk: number, rank: number, nowMs: number): number {
    const words = this.words
    let id = this.#freeHead
    if (id !== NO_SHARD) this.#freeHead = words[id * SHARD_WORDS + NEXT_SHARD]!
    else if (this.#fresh <= this.capacity) id = this.#fresh++
    else return NO_SHARD
    this.#freeCount -= 1
    const record = id * SHARD_WORDS
    words[record + CHUNK] = chunk
    words[record + NEXT_SHARD] = NO_SHARD
    words[record + RANK_STATE] = rank | (RESERVED << SHARD_STATE_SHIFT)
    words[record + ALLOCATED_MS] = nowMs
    words[record + CHECKSUM] = 0
    return id
  }

  free(id: number): void {
    const record = id * SHARD_WORDS
    this.words[record + RANK_STATE] = 0
    this.words[record + NEXT_SHARD] = this.#freeHead
    this.#freeHead = id
    this.#freeCount += 1
  }

  stateOf(id: number): number {
    return this.words[id * SHARD_WORDS + RANK_STATE]! >>> SHARD_STATE_SHIFT
  }

  setState(id: number, state: number): void {
    const at = id * SHARD_WORDS + RANK_STATE
    this.words[at] = (this.words[at]! & RANK_MASK) | (state << SHARD_STATE_SHIFT)
  }

  /** The shard of a rank in the list that starts at `first`, or NO_SHARD. */
  ofRank(first: number, rank: number): number {
    const words = this.words
    let id = first
    while (id !== NO_SHARD && (words[id * SHARD_WORDS + RANK_STATE]! & RANK_MASK) !== rank) {
      id = words[id * SHARD_WORDS + NEXT_SHARD]!
    }
    return id
  }
}
