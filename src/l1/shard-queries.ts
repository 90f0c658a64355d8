import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import type { ChunkRefs } from './chunk-refs.ts'
import { CHUNK_WORDS, FIRST_SHARD, GENERATION, GENERATION_MASK, LIVE, NO_CHUNK, PARENT } from './chunk-table.ts'
import type { Residency } from './residency.ts'
import { CHUNK, NEXT_SHARD, NO_SHARD, RANK_MASK, RANK_STATE, READABLE, SHARD_WORDS } from './shard-table.ts'

/** Questions about single shards and records. They touch, lease and count nothing. */
export class ShardQueries {
  readonly #residency: Residency

  constructor(residency: Residency) {
    this.#residency = residency
  }

  /** Whether the shard of `rank` of chunk `index` can be read, whatever the other ranks have. */
  isReadable(space: SpaceId, rank: number, chain: HashChain, index: number): boolean {
    const shard = this.#find(space, rank, chain, index)
    return shard !== NO_SHARD && this.#residency.shards.stateOf(shard) === READABLE
  }

  /** Chunks of [from, to) whose shard of `rank` is neither readable nor being written. */
  absent(space: SpaceId, rank: number, chain: HashChain, from: number, to: number): number {
    let absent = 0
    for (let index = from; index < to; index += 1) {
      if (this.#find(space, rank, chain, index) === NO_SHARD) absent += 1
    }
    return absent
  }

  /**
   * Chunks with readable shards, from shard number `from` on: at most `shardsMax` of them, and `recordsMax` records looked
   * at; appended to `out`, whose rows take their rank from `ranks`. @returns where to go on; -1 = the end.
   */
  readable(from: number, recordsMax: number, shardsMax: number, out: ChunkRefs, ranks: number[]): number {
    const { shards, table } = this.#residency
    const end = Math.min(shards.endId, Math.max(1, from) + recordsMax)
    for (let shard = Math.max(1, from); shard < end; shard += 1) {
      if (ranks.length === shardsMax) return shard
      const id = shards.words[shard * SHARD_WORDS + CHUNK]!
      if (shards.stateOf(shard) !== READABLE || this.#residency.stateOf(id) !== LIVE) continue
      out.push(id, table.words[id * CHUNK_WORDS + GENERATION]! & GENERATION_MASK)
      ranks.push(shards.words[shard * SHARD_WORDS + RANK_STATE]! & RANK_MASK)
    }
    return end >= shards.endId ? -1 : end
  }

  /** Whether a reference still names a chunk that is found. */
  isLive(id: number, generation: number): boolean {
    const isSame = (this.#residency.table.words[id * CHUNK_WORDS + GENERATION]! & GENERATION_MASK) === generation
    return isSame && this.#residency.stateOf(id) === LIVE
  }

  /** Copies the hash of a record to `out[at..at+8)`. Valid while a lease or a reference names it. */
  copyHash(id: number, out: Uint32Array, at: number): void {
    const record = id * CHUNK_WORDS
    for (let word = 0; word < HASH_WORDS; word += 1) out[at + word] = this.#residency.table.words[record + word]!
  }

  /** A word of the hash of a record, 0 to 7. Valid as `copyHash`. */
  hashWord(id: number, word: number): number {
    return this.#residency.table.words[id * CHUNK_WORDS + word]!
  }

  /** As `copyHash`, of the parent. False, and zeros, for the root of a chain. */
  copyParentHash(id: number, out: Uint32Array, at: number): boolean {
    const parent = this.#residency.table.words[id * CHUNK_WORDS + PARENT]!
    if (parent === NO_CHUNK) out.fill(0, at, at + HASH_WORDS)
    else this.copyHash(parent, out, at)
    return parent !== NO_CHUNK
  }

  /** The key space of a record that a lease or a reference names. */
  spaceOf(id: number): SpaceId {
    return this.#residency.spaceOf(id)
  }

  #find(space: SpaceId, rank: number, chain: HashChain, index: number): number {
    const { table, shards } = this.#residency
    const id = this.#residency.findLive(space, chain.words, index * HASH_WORDS)
    if (id === NO_CHUNK) return NO_SHARD
    let shard = table.words[id * CHUNK_WORDS + FIRST_SHARD]!
    while (shard !== NO_SHARD && (shards.words[shard * SHARD_WORDS + RANK_STATE]! & RANK_MASK) !== rank) {
      shard = shards.words[shard * SHARD_WORDS + NEXT_SHARD]!
    }
    return shard
  }
}
