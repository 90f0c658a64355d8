import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import type { SpaceId } from '../../../src/core/ids.ts'
import { KnownChains } from '../../../src/engine/known-chains.ts'
import { random } from '../../support/random.ts'

const hasher = await ChunkHasher.create()
const CHUNK = 16
const SPACE = 0 as SpaceId
const OTHER = 1 as SpaceId

function promptOf(seed: number, chunks: number): Uint32Array {
  const next = random(seed)
  return Uint32Array.from({ length: chunks * CHUNK + 3 }, () => next(150_000))
}

function chainOf(tokens: Uint32Array): HashChain {
  const chain = new HashChain(0)
  hasher.extend(chain, tokens, CHUNK)
  return chain
}

/** What is recalled of a prompt; that the hashes are right is checked. */
function recalled(known: KnownChains, tokens: Uint32Array, space = SPACE): number {
  const chain = new HashChain(0)
  const chunks = known.recall(space, tokens, chain, CHUNK)
  expect(chain.count).toBe(chunks)
  const oracle = chainOf(tokens)
  for (let index = 0; index < chunks; index += 1) expect(chain.hex(index)).toBe(oracle.hex(index))
  return chunks
}

function remember(known: KnownChains, tokens: Uint32Array, space = SPACE): HashChain {
  const chain = chainOf(tokens)
  known.remember(space, tokens, chain, CHUNK)
  return chain
}

it('knows the next turn of a conversation up to the end of the one before', () => {
  const known = new KnownChains(1 << 20)
  const conversation = promptOf(1, 40)
  remember(known, conversation.subarray(0, 21 * CHUNK))
  expect(recalled(known, conversation)).toBe(21)
  expect(recalled(known, conversation.subarray(0, 21 * CHUNK))).toBe(21)
  expect(recalled(known, promptOf(2, 40))).toBe(0)
})

it('finds what two prompts share, to the chunk, from the next smaller power of two on', () => {
  const known = new KnownChains(1 << 20)
  const first = promptOf(1, 40)
  remember(known, first)
  for (let shared = 0; shared <= 40; shared += 1) {
    const other = promptOf(99, 40)
    other.set(first.subarray(0, shared * CHUNK))
    expect(recalled(known, other)).toBe(shared)
  }
})

it('never takes a prompt of another space', () => {
  const known = new KnownChains(1 << 20)
  remember(known, promptOf(1, 20))
  expect(recalled(known, promptOf(1, 20), OTHER)).toBe(0)
})

it('finds what is shared with a prompt that differs in one token', () => {
  const known = new KnownChains(1 << 20)
  const tokens = promptOf(1, 20)
  remember(known, tokens)
  for (let chunk = 0; chunk < 20; chunk += 1) {
    const other = tokens.slice()
    other[chunk * CHUNK]! += 1
    const shared = recalled(known, other)
    expect(shared).toBeLessThanOrEqual(chunk)
    expect(shared).toBeGreaterThanOrEqual(chunk === 0 ? 0 : 2 ** Math.floor(Math.log2(chunk)))
    remember(known, other)
    expect(recalled(known, other)).toBe(20)
    expect(recalled(known, tokens)).toBe(20)
  }
})

it('forgets the oldest when there is too much, and replaces a chain that grew', () => {
  const known = new KnownChains(3 * (20 * CHUNK + 3) * 4)
  const prompts = [1, 2, 3, 4].map((seed) => promptOf(seed, 20))
  for (const tokens of prompts) remember(known, tokens)
  expect(known.count).toBe(3)
  expect(prompts.map((tokens) => recalled(known, tokens))).toEqual([0, 20, 20, 20])
  const chain = remember(known, promptOf(5, 10))
  const longer = promptOf(5, 20)
  longer.set(promptOf(5, 10))
  hasher.extend(chain, longer, CHUNK)
  known.remember(SPACE, longer, chain, CHUNK)
  expect(known.count).toBe(3)
  expect(recalled(known, longer)).toBe(20)
  known.remember(SPACE, new Uint32Array(1 << 20), new HashChain(0), CHUNK)
  expect(known.count).toBe(0)
  expect(known.bytes).toBe(0)
})

it.each([1, 2, 3])('recalls only what is equal, among prompts with many common beginnings (seed %i)', (seed) => {
  const next = random(seed)
  const known = new KnownChains(200_000)
  const roots = Array.from({ length: 3 }, (_, index) => promptOf(seed * 10 + index, 30))
  for (let step = 0; step < 300; step += 1) {
    const tokens = roots[next(3)]!.slice(0, (1 + next(30)) * CHUNK + next(CHUNK))
    if (next(2) === 0) tokens.fill(next(4), next(tokens.length))
    if (next(2) === 0) remember(known, tokens, next(5) === 0 ? OTHER : SPACE)
    else recalled(known, tokens)
    expect(known.bytes).toBeLessThanOrEqual(200_000)
  }
})
