import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import type { ChunkRefs } from './chunk-refs.ts'
import { CHUNK_WORDS, GENERATION, GENERATION_MASK, NO_CHUNK } from './chunk-table.ts'
import type { Residency } from './residency.ts'

/** What leaves L1 next, for those who write it down before. It touches, leases and counts nothing. */
export class EvictionOrder {
  readonly #residency: Residency

  constructor(residency: Residency) {
    this.#residency = residency
  }

  /**
   * The chunks that nobody holds, those that leave first at first, at most `countMax`; appended to `out`.
   * None under a policy that keeps no such order.
   */
  oldest(countMax: number, out: ChunkRefs): void {
    const { policy } = this.#residency
    let id = policy.next(NO_CHUNK)
    for (let count = 0; count < countMax && id !== NO_CHUNK; count += 1) {
      this.#push(id, out)
      id = policy.next(id)
    }
  }

  /** The chunk `index` of a chain when every shard of it is readable, appended to `out`; false when it is not. */
  complete(space: SpaceId, chain: HashChain, index: number, out: ChunkRefs): boolean {
    const { ranks } = this.#residency.spaces.spec(space)
    const id = this.#residency.findComplete(space, chain.words, index * HASH_WORDS, ranks)
    if (id !== NO_CHUNK) this.#push(id, out)
    return id !== NO_CHUNK
  }

  /** The key space of a record that a reference names. */
  spaceOf(id: number): SpaceId {
    return this.#residency.spaceOf(id)
  }

  #push(id: number, out: ChunkRefs): void {
    out.push(id, this.#residency.table.words[id * CHUNK_WORDS + GENERATION]! & GENERATION_MASK)
  }
}
