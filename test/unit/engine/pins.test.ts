import { expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import type { SpaceId } from '../../../src/core/ids.ts'
import { type Pin, PinTable } from '../../../src/engine/pins.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

function setUp(pinRatioMax = 0.5) {
  const l1 = makeL1({ pinRatioMax })
  const pins = new PinTable(l1.cache, new ManualClock(0, 1234))
  const [one, other] = ['', 'salt'].map((salt) => openSpace(l1.cache, { salt, ranks: 2 })) as [SpaceId, SpaceId]
  const put = (space: SpaceId, path: number[]) => {
    for (const rank of [0, 1]) {
      l1.cache.commit(l1.cache.reserve(space, rank, chainOf(path), 0, path.length, 1, 1000, 'store', new SlotList()))
    }
  }
  return { ...l1, pins, one, other, put }
}

it('holds the leading resident run, and says what that is', () => {
  const { cache, pins, one, put } = setUp()
  put(one, [1, 2])
  const pin = pins.pin(one, chainOf([1, 2, 3]), 7) as Pin
  expect(pin).toMatchObject({ space: one, chunks: 2, bytes: 4, createdWallMs: 1234 })
  expect(cache.evictTo(0, 100)).toBe(0)
  expect([pins.unpin(pin.id), pins.unpin(pin.id), pins.list()]).toEqual([true, false, []])
  expect(cache.evictTo(0, 100)).toBe(2)
  expect(pins.pin(one, chainOf([1]), 7)).toBe('nothing_resident')
})

it('ends the pins of a space that is cleared, and no others', () => {
  const { cache, pins, one, other, put } = setUp()
  put(one, [1])
  put(other, [1])
  pins.pin(one, chainOf([1]), 7)
  const kept = pins.pin(other, chainOf([1]), 7) as Pin
  pins.removeSpace(one)
  expect(pins.list()).toEqual([kept])
  expect(cache.evictTo(0, 100)).toBe(1)
})

it('pins no more than the limit', () => {
  const { pins, one, put } = setUp(0.1)
  put(one, [1, 2, 3, 4])
  expect(pins.pin(one, chainOf([1, 2, 3, 4]), 7)).toBe('over_limit')
  expect(pins.pin(one, chainOf([1, 2]), 7)).toMatchObject({ chunks: 2 })
})
