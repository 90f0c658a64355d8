import { assert } from '../core/assert.ts'

/** No shard: ids start at 1. */
export const NO_SHARD = 0

/** 32-bit words of one shard record, and where each field lies in it. */
export const SHARD_WORDS = 6
export const SLOT = 0
export const CHUNK = 1
export const NEXT_SHARD = 2
/** rank (8 bits) | state << 8 (8 bits) | SUMMED */
export const RANK_STATE = 3
export const ALLOCATED_MS = 4
/** Checksum of the bytes, when SUMMED is set. */
export const CHECKSUM = 5

export const RANK_MASK = 0xff
export const SHARD_STATE_SHIFT = 8
export const SHARD_STATE_MASK = 0xff
/** The checksum was taken. Set after it; gone with the state. */
export const SUMMED = 0x1_0000
export const SHARD_FREE = 0
export const RESERVED = 1
export const READABLE = 2
export const QUARANTINED = 3

/** 32-bit words of a table. */
export function shardTableWords(capacity: number): number {
  return (capacity + 1) * SHARD_WORDS
}

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

  /** @param words of `shardTableWords(capacity)`; those of an earlier engine need `restore` before anything else. */
  constructor(capacity: number, words: Uint32Array = new Uint32Array(shardTableWords(capacity))) {
    assert(capacity >= 1 && words.length === shardTableWords(capacity), 'a shard index of another size')
    this.capacity = capacity
    this.words = words
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

  /**
   * A record for a chunk, not yet in its list: NO_SHARD when all are in use. It counts as in use and still says FREE:
   * the caller sets its slot, and then its state. A record of another state always names its slot.
   */
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
    words[record + RANK_STATE] = rank
    words[record + ALLOCATED_MS] = nowMs
    return id
  }

  free(id: number): void {
    const record = id * SHARD_WORDS
    this.words[record + RANK_STATE] = 0
    this.words[record + NEXT_SHARD] = this.#freeHead
    this.#freeHead = id
    this.#freeCount += 1
  }

  /** Takes over records of an earlier engine: every record that is not FREE stays. */
  restore(): void {
    this.#fresh = this.capacity + 1
    while (this.#fresh > 1 && this.stateOf(this.#fresh - 1) === SHARD_FREE) this.#fresh -= 1
    this.#freeHead = NO_SHARD
    this.#freeCount = this.capacity + 1 - this.#fresh
    for (let id = this.#fresh - 1; id > 0; id -= 1) if (this.stateOf(id) === SHARD_FREE) this.free(id)
  }

  stateOf(id: number): number {
    return (this.words[id * SHARD_WORDS + RANK_STATE]! >>> SHARD_STATE_SHIFT) & SHARD_STATE_MASK
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
