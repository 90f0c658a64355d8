import type { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { NO_SHARD } from '../l1/shard-table.ts'
import { OUTCOME_CORRUPT, OUTCOME_OK } from '../l2/adapter.ts'

/**
 * What a store learnt about the bytes in L1. The adapter sums each shard for its record, and compares:
 *
 *   the sum that L1 has   -> stored
 *   another one           -> not stored; the chunk leaves L1 with all that follows it
 *   L1 has none yet       -> stored; L1 takes the adapter's
 */
export class StoreSums {
  readonly #l1: L1Cache

  constructor(l1: L1Cache) {
    this.#l1 = l1
  }

  /**
   * Acts on the end of a batch, while its lease still holds the shards.
   * @param sums one a shard: what L1 had, filled up by the adapter.
   */
  settle(refs: ChunkRefs, rank: number, sums: Uint32Array, outcomes: Uint8Array): void {
    const { sums: known } = this.#l1
    for (let at = 0; at < refs.count; at += 1) {
      const sum = sums[at]!
      const isCorrupt = outcomes[at] === OUTCOME_CORRUPT
      if (sum === 0 || !(isCorrupt || outcomes[at] === OUTCOME_OK)) continue
      const id = refs.id[at]!
      if (known.get(id, rank) < 0) known.set(id, rank, sum)
      if (!isCorrupt) continue
      const shard = known.find(id, refs.generation[at]!, rank, sum)
      if (shard !== NO_SHARD) this.#l1.dropCorrupt(shard)
    }
  }
}
