import { expect, it } from 'vitest'
import { NO_LEASE } from '../../src/core/ids.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../support/l1.ts'
import { random } from '../support/random.ts'

const CAPACITY = 1024 * 1024
const EXTENT = 1024

it.each([
  { small: 64, large: 128 },
  { small: 60, large: 700 },
  { small: 128, large: 1500 },
])('L1 is full again after the traffic shifts from $small to $large bytes and back', ({ small, large }) => {
  const moved: number[] = []
  const l1 = makeL1(
    {
      capacityBytes: CAPACITY,
      extentBytes: EXTENT,
      indexCapacityChunks: 65_536,
      indexCapacityShards: 65_536,
      ghostCapacityChunks: 512,
      leaseEntryCapacity: 1024,
    },
    { move: (_from, _to, bytes) => moved.push(bytes) },
  )
  const { cache } = l1
  const spaces = [
    openSpace(cache, { model: 'small', shardBytes: small }),
    openSpace(cache, { model: 'large', shardBytes: large, tenant: 1 }),
  ]
  const next = random(1)
  const grants = new SlotList()
  let name = 0
  const store = (which: number) => {
    const shardBytes = which === 0 ? small : large
    const path = Array.from({ length: 1 + next(6) }, () => name++)
    const before = cache.usageBytes
    const lease = cache.reserve(spaces[which]!, 0, chainOf(path), 0, path.length, 1, 1000, 'store', grants)
    const evicted = before + grants.count * shardBytes - cache.usageBytes
    expect(evicted).toBeLessThanOrEqual(2 * grants.totalBytes() + Math.max(EXTENT, large))
    if (lease !== NO_LEASE) cache.commit(lease)
  }
  const fillAfter = (bytes: number, largeShare: number) => {
    for (let stored = 0; stored < bytes; ) {
      const which = next(100) < largeShare ? 1 : 0
      store(which)
      stored += grants.totalBytes()
    }
    cache.verify()
    return cache.usageBytes / CAPACITY
  }
  expect(fillAfter(2 * CAPACITY, 10)).toBeGreaterThan(0.95)
  expect(fillAfter(2 * CAPACITY, 90)).toBeGreaterThan(0.95)
  expect(fillAfter(2 * CAPACITY, 10)).toBeGreaterThan(0.95)
  expect(moved.length).toBeGreaterThan(0)
})
