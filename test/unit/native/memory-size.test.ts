import { expect, it } from 'vitest'
import { availableMemoryBytes, defaultL1Bytes, freeBytes, memoryLimitBytes } from '../../../src/native/memory-size.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3

it.each([
  ['4 GiB on a large machine', { availableBytes: 512 * GIB, sharedFreeBytes: 256 * GIB }, 4 * GIB],
  ['a quarter of the available memory', { availableBytes: 8 * GIB, sharedFreeBytes: 256 * GIB }, 2 * GIB],
  ['80 % of free shared memory', { availableBytes: 512 * GIB, sharedFreeBytes: 64 * MIB }, 51 * MIB],
  ['what memory allows when L1 is private', { availableBytes: 4 * GIB }, GIB],
  ['at least 1 MiB', { availableBytes: 1000, sharedFreeBytes: 0 }, MIB],
  [
    'at most the bound it is given',
    { availableBytes: 512 * GIB, sharedFreeBytes: GIB, maxBytes: 256 * MIB },
    256 * MIB,
  ],
])('the default L1 size is %s', (_name, readings, bytes) => {
  expect(defaultL1Bytes(readings)).toBe(bytes)
})

it('a directory that is not there has no room', () => {
  expect(freeBytes('/nonexistent')).toBe(0)
})

it('this process has some memory left, and no more than its limit', () => {
  expect(availableMemoryBytes()).toBeGreaterThan(0)
  expect(memoryLimitBytes()).toBeGreaterThanOrEqual(availableMemoryBytes())
})
