import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { HashHost, type HashPort, PromptHasher } from '../../../src/engine/prompt-hasher.ts'

const hasher = await ChunkHasher.create()
const tokens = Uint32Array.from({ length: 1_000 }, (_, index) => index * 7)

function counted(): { port: HashPort; calls: () => number } {
  const host = new HashHost(hasher)
  let calls = 0
  const hashTokens: HashPort['hashTokens'] = (...args) => {
    calls += 1
    return host.hashTokens(...args)
  }
  return { port: { hashTokens }, calls: () => calls }
}

it('hashes short prompts in place and long ones elsewhere, to the same chain', async () => {
  const { port, calls } = counted()
  const here = new HashChain(0)
  await new PromptHasher(hasher, port, 100).extend(here, tokens, 16)
  expect(calls()).toBe(0)
  const there = new HashChain(0)
  await new PromptHasher(hasher, port, 10).extend(there, tokens, 16)
  expect(calls()).toBe(1)
  expect(there.count).toBe(62)
  expect(there.bytes.subarray(0, 62 * 32)).toEqual(here.bytes.subarray(0, 62 * 32))
})

it('continues a chain elsewhere from where it ends', async () => {
  const { port, calls } = counted()
  const whole = new HashChain(0)
  hasher.extend(whole, tokens, 16)
  const chain = new HashChain(0)
  const prompts = new PromptHasher(hasher, port, 20)
  await prompts.extend(chain, tokens.subarray(0, 160), 16)
  expect(calls()).toBe(0)
  await prompts.extend(chain, tokens, 16)
  expect(calls()).toBe(1)
  expect(chain.count).toBe(62)
  expect(chain.hex(61)).toBe(whole.hex(61))
})
