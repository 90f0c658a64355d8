import { assert } from '../core/assert.ts'
import type { TenantId } from '../core/ids.ts'

/** What L0 needs to know of a key space. */
export interface L0Space {
  readonly tenant: TenantId
  readonly chunkTokens: number
  /** Bytes of one chunk on this device, over all ranks that it holds. */
  readonly chunkBytes: number
  /** Ranks whose shards this device holds: the parts of a chunk, equal in length. */
  readonly ranks: number
}

/** The key spaces that L0 knows, by the number that L1 gave them. */
export class BlockSpaces {
  readonly #specs: (L0Space | undefined)[] = []

  /** Idempotent; a space keeps its shape for the life of the process. */
  register(space: number, spec: L0Space): void {
    const known = this.#specs[space]
    if (known === undefined) {
      assert(spec.chunkTokens > 0 && spec.chunkBytes > 0, 'space of empty chunks')
      assert(spec.chunkBytes % spec.ranks === 0, 'shards of unequal length')
      this.#specs[space] = spec
      return
    }
    const isSame =
      known.chunkTokens === spec.chunkTokens && known.chunkBytes === spec.chunkBytes && known.ranks === spec.ranks
    assert(isSame, 'space registered with another shape')
  }

  has(space: number): boolean {
    return this.#specs[space] !== undefined
  }

  of(space: number): L0Space {
    const spec = this.#specs[space]
    assert(spec !== undefined, 'space is not registered in L0')
    return spec
  }

  chunkBytes(space: number): number {
    return this.of(space).chunkBytes
  }

  shardBytes(space: number): number {
    return this.chunkBytes(space) / this.of(space).ranks
  }
}
