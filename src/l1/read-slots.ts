import { CHUNK_WORDS, FIRST_SHARD } from './chunk-table.ts'
import { ALL_RANKS, EXPIRED_READ, type Leases, READ } from './leases.ts'
import { NEXT_SHARD, NO_SHARD, SHARD_WORDS, SLOT } from './shard-table.ts'

/**
 * The slots of chunks. Those under read leases are not counted in the arena one by one, for lookups are frequent and
 * moves are rare: they are walked over when something is about to be moved. Pins and leases of stores to L2, which last,
 * are counted.
 */
export class ReadSlots {
  readonly #leases: Leases
  readonly #chunks: Uint32Array
  readonly #shards: Uint32Array
  readonly #entries: Uint32Array

  constructor(leases: Leases, chunks: Uint32Array, shards: Uint32Array) {
    this.#leases = leases
    this.#chunks = chunks
    this.#shards = shards
    this.#entries = new Uint32Array(leases.entryCapacity)
  }

  /** Visits each slot under a read lease, once for each lease. */
  eachRead(visit: (slot: number) => void): void {
    const leases = this.#leases
    for (let lease = 0; lease < leases.endSlot; lease += 1) {
      const kind = leases.kind[lease]!
      if ((kind !== READ && kind !== EXPIRED_READ) || leases.rank[lease] !== ALL_RANKS) continue
      const count = leases.entries(lease, this.#entries)
      for (let at = 0; at < count; at += 1) this.ofChunk(this.#entries[at]!, visit)
    }
  }

  /** Visits the slots of a chunk. */
  ofChunk(id: number, visit: (slot: number) => void): void {
    const shards = this.#shards
    for (let shard = this.#chunks[id * CHUNK_WORDS + FIRST_SHARD]!; shard !== NO_SHARD; ) {
      visit(shards[shard * SHARD_WORDS + SLOT]!)
      shard = shards[shard * SHARD_WORDS + NEXT_SHARD]!
    }
  }
}
