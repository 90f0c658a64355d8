import { expect, it } from 'vitest'
import { NO_LEASE } from '../../../src/core/ids.ts'
import { L1_SHARD_TOUCHED } from '../../../src/events/catalogue.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

function setUp(options = {}) {
  const l1 = makeL1(options)
  const space = openSpace(l1.cache)
  const chain = chainOf([1, 2, 3, 4])
  l1.cache.commit(l1.cache.reserve(space, 0, chain, 0, 3, 1, 1000, 'store', new SlotList()))
  return { ...l1, space, chain }
}

it('leases the leading run, says how long it is, and has told of the touch when it returns', () => {
  const { cache, clock, events, space, chain } = setUp()
  clock.advance(2000)
  const lease = cache.runs.lease(space, chain, 0, 4, 1, 1000)
  expect(cache.runs.chunks).toBe(3)
  expect(events.named(L1_SHARD_TOUCHED)).toMatchObject([{ values: [2, 3] }])
  const slots = new SlotList()
  expect(cache.slots(lease, 0, 0, 3, slots)).toBe(true)
  expect([slots.count, cache.slots(lease, 0, 0, 4, slots)]).toEqual([3, false])
  cache.verify()
})

it('leases nothing of an empty run, nor without room in the table of leases, and says how long the run is', () => {
  const { cache, space, chain } = setUp({ leaseCapacity: 1 })
  expect(cache.runs.lease(space, chainOf([9]), 0, 1, 1, 1000)).toBe(NO_LEASE)
  expect(cache.runs.chunks).toBe(0)
  const first = cache.runs.lease(space, chain, 1, 3, 1, 1000)
  expect(cache.runs.lease(space, chain, 0, 4, 1, 1000)).toBe(NO_LEASE)
  expect(cache.runs.chunks).toBe(3)
  cache.release(first)
  expect(cache.runs.lease(space, chain, 0, 4, 1, 1000)).not.toBe(NO_LEASE)
})
