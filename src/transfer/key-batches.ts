import { HASH_BYTES, type HashChain } from '../core/hash-chain.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { KeyBatch, KeySpace } from '../l2/adapter.ts'

/** What L2 calls the space of one rank's shards. */
export function keySpaceOf(spec: SpaceSpec, rank: number): KeySpace {
  const { model, salt, ranks, shardBytes, layout } = spec
  return { model, salt, ranks, rank, shardBytes, layout }
}

/** The keys of the chunks `indices` of a chain, for one rank. The parent of a first chunk is 32 zero bytes. */
export function keyBatchOf(spec: SpaceSpec, rank: number, chain: HashChain, indices: readonly number[]): KeyBatch {
  const hashes = new Uint8Array(indices.length * HASH_BYTES)
  const parents = new Uint8Array(indices.length * HASH_BYTES)
  indices.forEach((index, at) => {
    hashes.set(chain.at(index), at * HASH_BYTES)
    if (index > 0) parents.set(chain.at(index - 1), at * HASH_BYTES)
  })
  return { space: keySpaceOf(spec, rank), count: indices.length, hashes, parents }
}
