import { expect, it } from 'vitest'
import { HASH_WORDS, HashChain } from '../../../src/core/hash-chain.ts'
import { traceKeys } from '../../../src/replay/trace-keys.ts'

function keys(...ids: number[]): string[] {
  const chain = new HashChain(0)
  traceKeys(Uint32Array.from(ids), 0, ids.length, chain)
  return Array.from({ length: chain.count }, (_, index) => chain.hex(index))
}

it('gives equal prefixes equal hashes, and nothing else', () => {
  expect(keys(1, 2, 3).slice(0, 2)).toEqual(keys(1, 2))
  expect(keys(1, 2)[1]).not.toBe(keys(3, 2)[1])
  expect(new Set(keys(5, 5, 5, 5)).size).toBe(4)
})

it('takes a part of a longer list', () => {
  const chain = new HashChain(1)
  traceKeys(Uint32Array.of(9, 9, 1, 2, 9), 2, 4, chain)
  expect([chain.hex(0), chain.hex(1)]).toEqual(keys(1, 2))
})

it('spreads every word over a table of a million keys without a clash of the whole hash', () => {
  const chain = new HashChain(0)
  const seen = new Set<bigint>()
  const buckets = new Uint32Array(1024)
  for (let id = 0; id < 200_000; id += 1) {
    traceKeys(Uint32Array.of(id), 0, 1, chain)
    seen.add((BigInt(chain.words[0]!) << 32n) | BigInt(chain.words[1]!))
    for (let word = 0; word < 2; word += 1) buckets[chain.words[word]! & 1023]! += 1
  }
  expect(seen.size).toBe(200_000)
  expect(Math.max(...buckets)).toBeLessThan(((2 * 200_000) / 1024) * 1.3)
  expect(HASH_WORDS).toBe(8)
})

it('uses the memory of the chain again', () => {
  const chain = new HashChain(16)
  const words = chain.words
  traceKeys(Uint32Array.of(1, 2, 3), 0, 3, chain)
  expect(chain.words).toBe(words)
})
