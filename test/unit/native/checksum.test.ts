import { crc32 as libraryCrc32 } from 'node:zlib'
import { expect, it } from 'vitest'
import { crc32, crc32Of } from '../../../src/native/checksum.ts'
import { addonOf } from '../../support/addon.ts'
import { random } from '../../support/random.ts'

// Oracle: the crc32 of zlib.
it.for([1, 2, 3])('native checksums are those of zlib, of any bytes at any place (seed %i)', async (seed, context) => {
  const addon = await addonOf(context)
  const next = random(seed)
  const memory = Uint8Array.from({ length: 70_000 }, () => next(256))
  for (let step = 0; step < 1_500; step += 1) {
    const from = next(4_096)
    const length = next(step % 10 === 0 ? 65_000 : 1_200)
    const bytes = memory.subarray(from, from + length)
    const before = next(2) === 0 ? 0 : next(2 ** 32)
    const expected = libraryCrc32(bytes, before)
    expect([addon.crc32(bytes, before), crc32(bytes, before)]).toEqual([expected, expected])
  }
})

it('sums pieces to what the whole sums to', async (context) => {
  const addon = await addonOf(context)
  const next = random(4)
  const memory = Uint8Array.from({ length: 10_000 }, () => next(256))
  for (let round = 0; round < 200; round += 1) {
    let sum = 0
    for (let from = 0; from < memory.length; ) {
      const to = Math.min(memory.length, from + next(3_000))
      sum = addon.crc32(memory.subarray(from, to), sum)
      from = to
    }
    expect(sum).toBe(libraryCrc32(memory))
  }
})

it('without the addon, or where it is not faster, zlib sums', () => {
  expect(crc32Of(null)).toBe(libraryCrc32)
})
