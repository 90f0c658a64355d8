import type { SpaceId } from '../core/ids.ts'
import type { ChunkRefs } from './chunk-refs.ts'
import { CHUNK_WORDS, FIRST_SHARD, GENERATION, GENERATION_MASK, LIVE } from './chunk-table.ts'
import type { Residency } from './residency.ts'
import { CHECKSUM, CHUNK, NO_SHARD, RANK_MASK, RANK_STATE, READABLE, SHARD_WORDS, SLOT, SUMMED } from './shard-table.ts'

/** Places of shards and the checksums of their bytes: arrays of the same length, `count` rows in use. */
export class SumList {
  count = 0
  readonly shard: Uint32Array
  readonly offset: Float64Array
  readonly length: Float64Array
  readonly sum: Uint32Array

  constructor(capacity: number) {
    this.shard = new Uint32Array(capacity)
    this.offset = new Float64Array(capacity)
    this.length = new Float64Array(capacity)
    this.sum = new Uint32Array(capacity)
  }
}

/**
 * The checksums of readable shards. Somebody else computes them: this keeps them, says which are lacking, and lists them
 * to be verified. A checksum is that of the bytes as they were committed, or found after a restart.
 */
export class ShardSums {
  readonly #residency: Residency

  constructor(residency: Residency) {
    this.#residency = residency
  }

  /** Keeps the checksum of a shard whose chunk is leased since it was computed. */
  set(id: number, rank: number, sum: number): void {
    const { shards } = this.#residency
    const shard = this.#shardOf(id, rank)
    if (shard === NO_SHARD || shards.stateOf(shard) !== READABLE) return
    const record = shard * SHARD_WORDS
    shards.words[record + CHECKSUM] = sum
    shards.words[record + RANK_STATE] = shards.words[record + RANK_STATE]! | SUMMED
  }

  /** The checksum of a shard; -1 when it is not known. */
  get(id: number, rank: number): number {
    const shard = this.#shardOf(id, rank)
    const { words } = this.#residency.shards
    const isKnown = shard !== NO_SHARD && (words[shard * SHARD_WORDS + RANK_STATE]! & SUMMED) !== 0
    return isKnown ? words[shard * SHARD_WORDS + CHECKSUM]! : -1
  }

  /** The shard of a rank of a chunk that is still found, under its generation, with this checksum; NO_SHARD if not. */
  find(id: number, generation: number, rank: number, sum: number): number {
    const { table } = this.#residency
    const isSame = (table.words[id * CHUNK_WORDS + GENERATION]! & GENERATION_MASK) === generation
    if (!isSame || this.#residency.stateOf(id) !== LIVE || this.get(id, rank) !== sum) return NO_SHARD
    return this.#shardOf(id, rank)
  }

  /** Fills `out` with shards that have a checksum, from shard number `from` on. @returns where to go on; -1 = the end. */
  list(from: number, out: SumList): number {
    const { shards, arena } = this.#residency
    out.count = 0
    for (let shard = Math.max(1, from); shard < shards.endId; shard += 1) {
      const record = shard * SHARD_WORDS
      if (shards.stateOf(shard) !== READABLE || (shards.words[record + RANK_STATE]! & SUMMED) === 0) continue
      if (out.count === out.shard.length) return shard
      const slot = shards.words[record + SLOT]!
      out.shard[out.count] = shard
      out.offset[out.count] = arena.offsetOf(slot)
      out.length[out.count] = arena.lengthOf(slot)
      out.sum[out.count] = shards.words[record + CHECKSUM]!
      out.count += 1
    }
    return -1
  }

  /**
   * Chunks with shards of one rank that lack a checksum, from shard number `from` on, at most `countMax` records looked
   * at; appended to `out`, whose rows take their rank from `ranks`. @returns where to go on; -1 = the end.
   */
  lacking(from: number, countMax: number, out: ChunkRefs, ranks: number[]): number {
    const { shards, table } = this.#residency
    const end = Math.min(shards.endId, from + countMax)
    for (let shard = Math.max(1, from); shard < end; shard += 1) {
      const record = shard * SHARD_WORDS
      if (shards.stateOf(shard) !== READABLE || (shards.words[record + RANK_STATE]! & SUMMED) !== 0) continue
      const id = shards.words[record + CHUNK]!
      if (this.#residency.stateOf(id) !== LIVE) continue
      out.push(id, table.words[id * CHUNK_WORDS + GENERATION]! & GENERATION_MASK)
      ranks.push(shards.words[record + RANK_STATE]! & RANK_MASK)
    }
    return end === shards.endId ? -1 : end
  }

  /** The chunk of a shard in a list, and its key space. */
  chunkOf(shard: number): { readonly id: number; readonly space: SpaceId; readonly isLive: boolean } {
    const id = this.#residency.shards.words[shard * SHARD_WORDS + CHUNK]!
    return { id, space: this.#residency.spaceOf(id), isLive: this.#residency.stateOf(id) === LIVE }
  }

  #shardOf(id: number, rank: number): number {
    return this.#residency.shards.ofRank(this.#residency.table.words[id * CHUNK_WORDS + FIRST_SHARD]!, rank)
  }
}
