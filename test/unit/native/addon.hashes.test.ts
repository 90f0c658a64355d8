import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { addonOf } from '../../support/addon.ts'
import { random } from '../../support/random.ts'

const LEAF_TOKENS = 256

// Oracle: the hasher in WebAssembly.
it.for([1, 2, 3])('native chains are those of the other hasher (seed %i)', async (seed, context) => {
  const addon = await addonOf(context)
  const oracle = await ChunkHasher.create()
  const next = random(seed)
  for (let step = 0; step < 150; step += 1) {
    // Trees of one leaf, and of several: whole ones, and ones that end within a leaf.
    const chunkTokens = [1 + next(300), 1 + next(5_000), LEAF_TOKENS * (1 + next(9)) - 8 + next(16)][next(3)]!
    const chunks = next(5)
    const tokens = Uint32Array.from({ length: chunks * chunkTokens + next(chunkTokens) }, () => next(2 ** 32))
    const parent = Uint8Array.from({ length: 32 }, () => next(256))
    const [ours, expected] = [new Uint8Array(32 * chunks), new Uint8Array(32 * chunks)]
    addon.hashChunks(parent, tokens, chunkTokens, ours)
    oracle.hashRun(parent, tokens, chunkTokens, expected)
    expect(Buffer.from(ours).toString('hex'), `${chunks} chunks of ${chunkTokens}`).toBe(
      Buffer.from(expected).toString('hex'),
    )
  }
})

it('writes no further than the hashes, also in shared memory and at odd places', async (context) => {
  const addon = await addonOf(context)
  const oracle = await ChunkHasher.create()
  const shared = new SharedArrayBuffer(4_096)
  const tokens = new Uint32Array(shared, 4, 70).fill(7)
  const hashes = new Uint8Array(shared, 1_001, 100)
  addon.hashChunks(oracle.root, tokens, 30, hashes)
  const expected = new Uint8Array(64)
  oracle.hashRun(oracle.root, tokens, 30, expected)
  expect([...hashes.subarray(0, 64)]).toEqual([...expected])
  expect(Math.max(...hashes.subarray(64))).toBe(0)
})

it('a hasher that is given native code extends chains with it', async (context) => {
  const addon = await addonOf(context)
  const chains = [new HashChain(1), new HashChain(1)]
  const hashers = [await ChunkHasher.create(), await ChunkHasher.create(addon.hashChunks)]
  const tokens = Uint32Array.from({ length: 1_000 }, (_, index) => index)
  for (const [at, hasher] of hashers.entries()) {
    hasher.extend(chains[at]!, tokens.subarray(0, 300), 16)
    hasher.extend(chains[at]!, tokens, 16)
  }
  expect(chains[1]!.count).toBe(62)
  expect(chains[1]!.bytes.subarray(0, 62 * 32)).toEqual(chains[0]!.bytes.subarray(0, 62 * 32))
})
