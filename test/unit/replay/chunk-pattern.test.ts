import { expect, it } from 'vitest'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { fillPattern, matchesPattern } from '../../../src/replay/chunk-pattern.ts'
import { traceKeys } from '../../../src/replay/trace-keys.ts'

const chain = new HashChain(4)
traceKeys(Uint32Array.of(1, 2, 3), 0, 3, chain)

it.each([0, 1, 3, 31, 32, 33, 4095, 4096, 4100, 20_000])('recognises %i bytes of its own chunk', (length) => {
  const bytes = new Uint8Array(length)
  fillPattern(bytes, chain, 1)
  expect(matchesPattern(bytes, chain, 1, new Uint8Array(length))).toBe(true)
})

it.each([32, 8192, 20_000])('tells every other chunk apart (%i bytes)', (length) => {
  const bytes = new Uint8Array(length)
  fillPattern(bytes, chain, 1)
  expect(matchesPattern(bytes, chain, 0, new Uint8Array(length))).toBe(false)
  expect(matchesPattern(bytes, chain, 2, new Uint8Array(length))).toBe(false)
})

it('notices one altered byte, and pages in another order', () => {
  const bytes = new Uint8Array(16_384)
  fillPattern(bytes, chain, 0)
  const swapped = bytes.slice()
  swapped.set(bytes.subarray(4096, 8192), 0)
  swapped.set(bytes.subarray(0, 4096), 4096)
  expect(matchesPattern(swapped, chain, 0, new Uint8Array(16_384))).toBe(false)
  bytes[16_383]! ^= 1
  expect(matchesPattern(bytes, chain, 0, new Uint8Array(16_384))).toBe(false)
})
