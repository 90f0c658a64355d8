import { expect, it } from 'vitest'
import { HashThread } from '../../../src/app/hash-thread.ts'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { PromptHasher } from '../../../src/engine/prompt-hasher.ts'

const hasher = await ChunkHasher.create()
const tokens = Uint32Array.from({ length: 200_000 }, (_, index) => index * 7)
const query = { tokens, chunkTokens: 256, space: null, asker: {} }

function oracle(): HashChain {
  const chain = new HashChain(0)
  hasher.extend(chain, tokens, 256)
  return chain
}

it('hashes on a thread of its own, many prompts at once', async () => {
  const thread = await HashThread.start()
  const prompts = new PromptHasher(hasher, [thread.lane], { inlineChunks: 0 })
  const chains = Array.from({ length: 5 }, () => new HashChain(0))
  const done = await Promise.all(chains.map((chain) => prompts.extend(chain, { ...query, asker: chain })))
  expect(done).toEqual([true, true, true, true, true])
  for (const chain of chains) expect(chain.hex(780)).toBe(oracle().hex(780))
  await thread.close()
})

it('leaves prompts to this thread when it ends while it hashes', async () => {
  const thread = await HashThread.start()
  const lost: unknown[] = []
  const prompts = new PromptHasher(hasher, [thread.lane], { inlineChunks: 0, onLost: (error) => lost.push(error) })
  const chain = new HashChain(0)
  const done = prompts.extend(chain, query)
  await thread.close()
  expect(await done).toBe(true)
  expect(chain.hex(780)).toBe(oracle().hex(780))
  expect(lost.length).toBeLessThanOrEqual(1)
  const again = new HashChain(0)
  expect(await prompts.extend(again, query)).toBe(true)
  expect(lost).toHaveLength(1)
})
