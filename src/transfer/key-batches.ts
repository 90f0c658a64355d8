import { HASH_BYTES, HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import type { ChunkRefs } from '../l1/chunk-refs.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import type { KeyBatch, KeySpace } from '../l2/adapter.ts'

/** What L2 calls the space of one rank's shards. */
export function keySpaceOf(spec: SpaceSpec, rank: number): KeySpace {
  const { model, salt, ranks, shardBytes, layout } = spec
  return { model, salt, ranks, rank, shardBytes, layout }
}

/** The keys of chunks in L1 that are still found, for one rank. */
export function keyBatchOfRefs(l1: L1Cache, spec: SpaceSpec, rank: number, refs: ChunkRefs): KeyBatch {
  const hashes = new Uint32Array(refs.count * HASH_WORDS)
  const parents = new Uint32Array(refs.count * HASH_WORDS)
  for (let at = 0; at < refs.count; at += 1) {
    l1.queries.copyHash(refs.id[at]!, hashes, at * HASH_WORDS)
    l1.queries.copyParentHash(refs.id[at]!, parents, at * HASH_WORDS)
  }
  const [hashBytes, parentBytes] = [new Uint8Array(hashes.buffer), new Uint8Array(parents.buffer)]
  return { space: keySpaceOf(spec, rank), count: refs.count, hashes: hashBytes, parents: parentBytes }
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
