import { MessageChannel } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import type { SpaceId } from '../../../src/core/ids.ts'
import { SharedHashLane, serveSlices, sliceMemory } from '../../../src/engine/hash-lane.ts'
import { PromptHasher } from '../../../src/engine/prompt-hasher.ts'
import { GatedLane } from '../../support/gated-lane.ts'

const hasher = await ChunkHasher.create()
const tokens = Uint32Array.from({ length: 1_000 }, (_, index) => index * 7)
const ASKER = {}
const query = (length = tokens.length, space: SpaceId | null = null) => ({
  tokens: tokens.subarray(0, length),
  chunkTokens: 16,
  space,
  asker: ASKER,
})

function hashesOf(chain: HashChain): string {
  return Array.from({ length: chain.count }, (_, index) => chain.hex(index)).join(' ')
}

function oracle(prompt = tokens, chunkTokens = 16): string {
  const chain = new HashChain(0)
  hasher.extend(chain, prompt, chunkTokens)
  return hashesOf(chain)
}

it('hashes short prompts in place and long ones elsewhere, to the same chain', async () => {
  const lane = new GatedLane()
  const here = new HashChain(0)
  expect(new PromptHasher(hasher, [lane], { inlineChunks: 100 }).extend(here, query())).toBe(true)
  expect(lane.slices).toHaveLength(0)
  const there = new HashChain(0)
  const done = new PromptHasher(hasher, [lane], { inlineChunks: 10 }).extend(there, query())
  await lane.pass()
  expect(await done).toBe(true)
  expect(there.count).toBe(62)
  expect(hashesOf(there)).toBe(hashesOf(here))
})

it('continues a chain elsewhere from where it ends', async () => {
  const lane = new GatedLane()
  const chain = new HashChain(0)
  const prompts = new PromptHasher(hasher, [lane], { inlineChunks: 20 })
  expect(prompts.extend(chain, query(160))).toBe(true)
  const done = prompts.extend(chain, query())
  await lane.pass()
  expect(await done).toBe(true)
  expect(lane.slices).toEqual([tokens[160]])
  expect(hashesOf(chain)).toBe(oracle())
})

it('hashes of the next turn of a conversation only what is new', async () => {
  const lane = new GatedLane()
  const prompts = new PromptHasher(hasher, [lane], { inlineChunks: 10 })
  const space = 3 as SpaceId
  const done = prompts.extend(new HashChain(0), query(52 * 16, space))
  await lane.pass()
  await done
  const next = new HashChain(0)
  expect(prompts.extend(next, query(1_000, space))).toBe(true)
  expect(hashesOf(next)).toBe(oracle())
  expect(prompts.extend(new HashChain(0), query(1_000, 4 as SpaceId))).not.toBe(true)
  expect(prompts.extend(new HashChain(0), query(1_000, null))).not.toBe(true)
})

it('goes on in place when the thread that hashes is lost', async () => {
  const lane = new GatedLane()
  const lost: unknown[] = []
  const prompts = new PromptHasher(hasher, [lane], { inlineChunks: 0, onLost: (error) => lost.push(error) })
  const chain = new HashChain(0)
  const done = prompts.extend(chain, query())
  await lane.lose()
  expect(await done).toBe(true)
  expect(hashesOf(chain)).toBe(oracle())
  expect(lost).toHaveLength(1)
})

it.each([1, 16, 256, 65_536])('hashes through shared memory, in chunks of %i tokens', async (chunkTokens) => {
  const { port1, port2 } = new MessageChannel()
  const memory = sliceMemory()
  serveSlices(port2, memory, hasher)
  const prompts = new PromptHasher(hasher, [new SharedHashLane(port1, memory)], { inlineChunks: 0 })
  const long = Uint32Array.from({ length: 150_000 }, (_, index) => index * 31)
  const prompt = long.subarray(0, Math.min(long.length, 2_000 * chunkTokens))
  const chain = new HashChain(0)
  expect(await prompts.extend(chain, { tokens: prompt, chunkTokens, space: null, asker: ASKER })).toBe(true)
  expect(hashesOf(chain)).toBe(oracle(prompt, chunkTokens))
  port1.close()
})

it('is told that the other thread has ended', async () => {
  const { port1, port2 } = new MessageChannel()
  const lane = new SharedHashLane(port1, sliceMemory())
  const waiting = lane.hash(hasher.root, tokens, 16)
  port2.close()
  await expect(waiting).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
  await expect(lane.hash(hasher.root, tokens, 16)).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
})
