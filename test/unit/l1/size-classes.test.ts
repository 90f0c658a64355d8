import { describe, expect, it } from 'vitest'
import {
  CLASS_LIMIT,
  CLASS_TABLE_FULL,
  CLASS_TOO_LONG,
  defaultExtentBytes,
  SizeClasses,
  spanShape,
} from '../../../src/l1/size-classes.ts'
import { random } from '../../support/random.ts'

const MIB = 1024 * 1024
const GIB = 1024 * MIB

describe('the default extent', () => {
  it.each([
    [4 * GIB, 4 * MIB],
    [64 * GIB, 32 * MIB],
    [16 * GIB, 16 * MIB],
    [64 * MIB, MIB],
    [1000, 1000],
    [4 * GIB + 6_000_000, 4_198_400],
  ])('of %i bytes has %i', (capacityBytes, extentBytes) => {
    expect(defaultExtentBytes(capacityBytes)).toBe(extentBytes)
  })
})

describe('the span of a class', () => {
  it.each([
    ['is one extent when slots fill it', 1024, { extents: 1, slots: 4 }],
    ['is one extent when less than 2 % is lost', 1360, { extents: 1, slots: 3 }],
    ['is the fewest extents that lose less', 1220, { extents: 3, slots: 10 }],
    ['is as long as a slot that is longer than an extent', 8192, { extents: 2, slots: 1 }],
  ])('%s', (_name, lengthBytes, shape) => {
    expect(spanShape(lengthBytes, 4096, 300)).toEqual(shape)
  })

  it('counts the extents behind the last whole span', () => {
    // 31 extents hold 10 slots without loss, but 8 of 256 extents would stay empty: 16 extents hold as many in all.
    const lengthBytes = Math.floor((31 * 4096) / 10)
    expect(spanShape(lengthBytes, 4096, 256)).toEqual({ extents: 16, slots: 5 })
    expect(spanShape(lengthBytes, 4096, 8192)).toEqual({ extents: 22, slots: 7 })
  })

  it('is a shorter one when a longer would leave more behind than it fills', () => {
    // 13 of 256 extents hold 16 slots without loss. They are 5 % of the arena, and a class has that much half empty.
    expect(spanShape(13 * MIB, 16 * MIB, 256)).toEqual({ extents: 5, slots: 6 })
  })

  it('is as long as those of another class rather than across them', () => {
    const lengthBytes = 2.5 * MIB
    expect(spanShape(lengthBytes, 4 * MIB, 1024)).toEqual({ extents: 5, slots: 8 })
    expect(spanShape(lengthBytes, 4 * MIB, 1024, new Set([12]))).toEqual({ extents: 12, slots: 19 })
    expect(spanShape(lengthBytes, 4 * MIB, 1024, new Set([10]))).toEqual({ extents: 5, slots: 8 })
  })

  it('is undefined when the arena is shorter than one slot', () => {
    expect(spanShape(4097, 1024, 4)).toBeUndefined()
    expect(spanShape(4096, 1024, 4)).toEqual({ extents: 4, slots: 1 })
  })

  it.each([1, 2, 3])('fills nearly all of 1024 extents with any length up to 3/8 extent (seed %i)', (seed) => {
    const next = random(seed)
    for (let step = 0; step < 2000; step += 1) {
      const lengthBytes = 1 + next((4 * MIB * 3) / 8)
      const { extents, slots } = spanShape(lengthBytes, 4 * MIB, 1024)!
      const filled = (Math.floor(1024 / extents) * slots * lengthBytes) / (1024 * 4 * MIB)
      expect(filled, `${lengthBytes} bytes in ${slots} slots of ${extents} extents`).toBeGreaterThan(0.97)
    }
  })
})

describe('SizeClasses', () => {
  it('gives the same length the same class, and others the next one', () => {
    const classes = new SizeClasses(4096, 16)
    expect([100, 200, 100, 300, 200].map((length) => classes.of(length))).toEqual([0, 1, 0, 2, 1])
    expect(classes.count).toBe(3)
  })

  it('refuses a length that does not fit, and knows as many as it may', () => {
    const classes = new SizeClasses(4096, 2)
    expect(classes.of(8193)).toBe(CLASS_TOO_LONG)
    for (let cls = 0; cls < CLASS_LIMIT; cls += 1) expect(classes.of(cls + 1)).toBe(cls)
    expect(classes.of(CLASS_LIMIT + 1)).toBe(CLASS_TABLE_FULL)
    expect(classes.of(8193)).toBe(CLASS_TOO_LONG)
    expect(classes.of(5)).toBe(4)
  })
})
