import { expect, it } from 'vitest'
import type { SpaceId } from '../../../src/core/ids.ts'
import { EvictionLoop } from '../../../src/l1/eviction-loop.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

function setUp(options = {}) {
  const l1 = makeL1({ capacityBytes: 100, extentBytes: 100, indexCapacityChunks: 1000, ...options })
  const errors: unknown[] = []
  const loop = new EvictionLoop({
    cache: l1.cache,
    totals: l1.totals,
    clock: l1.clock,
    onError: (_loop, error) => errors.push(error),
    onBeat: () => {},
  })
  const space = openSpace(l1.cache)
  let next = 0
  const fill = (chunks: number) => {
    for (let made = 0; made < chunks; made += 1) {
      const lease = l1.cache.reserve(space, 0, chainOf([next++]), 0, 1, 1, 1000, 'store', new SlotList())
      l1.cache.commit(lease)
    }
  }
  return { ...l1, loop, fill, errors }
}

it('counts each cycle, and trims from the high to the low watermark to the byte', () => {
  const { loop, fill, cache, clock, totals } = setUp()
  loop.start()
  fill(89)
  clock.advance(300)
  expect(totals.get(0, 'loopTicks')).toBe(3)
  expect(totals.get(0, 'loopTriggered')).toBe(0)
  fill(1)
  clock.advance(100)
  expect(totals.get(0, 'loopTriggered')).toBe(1)
  expect(cache.usageBytes).toBe(80)
  cache.verify()
})

it('is woken by pressure before its interval', () => {
  const { loop, fill, cache, clock } = setUp()
  loop.start()
  fill(50)
  loop.wake()
  clock.advance(0)
  expect(cache.usageBytes).toBe(50)
  fill(45)
  loop.wake()
  clock.advance(0)
  expect(cache.usageBytes).toBe(80)
})

it('trims from a lower level when a reservation had to evict there', () => {
  const { loop, fill, cache, clock, totals } = setUp({ extentBytes: 50 })
  loop.start()
  fill(1)
  cache.lease(0 as SpaceId, chainOf([0]), 0, 1, 'read', 1, 1000) // keeps its extent
  const large = openSpace(cache, { model: 'large', shardBytes: 50 })
  const store = (name: number) => {
    cache.commit(cache.reserve(large, 0, chainOf([name]), 0, 1, 1, 1000, 'store', new SlotList()))
  }
  store(1)
  clock.advance(100)
  expect(totals.get(0, 'loopTriggered')).toBe(0)
  store(2)
  expect(cache.usageBytes).toBe(51)
  clock.advance(100)
  expect(totals.get(0, 'loopTriggered')).toBe(1)
  expect(cache.usageBytes).toBe(1)
  clock.advance(100)
  expect(totals.get(0, 'loopTriggered')).toBe(1)
})

it('yields the thread between small batches', () => {
  const { loop, fill, cache, clock } = setUp({ indexCapacityChunks: 300, evictionLowRatio: 0.5 })
  loop.start()
  fill(100)
  const batches: number[] = []
  const evictTo = cache.evictTo.bind(cache)
  cache.evictTo = (targetBytes, maxChunks) => {
    batches.push(evictTo(targetBytes, maxChunks))
    return batches.at(-1)!
  }
  let turns = 0
  const schedule = clock.schedule.bind(clock)
  clock.schedule = (delayMs, callback) => {
    turns += 1
    return schedule(delayMs, callback)
  }
  loop.wake()
  clock.advance(0)
  expect(cache.usageBytes).toBe(50)
  expect(batches).toEqual([...Array(16).fill(3), 2])
  expect(turns).toBeGreaterThanOrEqual(batches.length)
})

it('survives its own exceptions', () => {
  const { loop, fill, cache, clock, errors, totals } = setUp()
  loop.start()
  fill(95)
  const evictTo = cache.evictTo.bind(cache)
  cache.evictTo = () => {
    throw new Error('injected')
  }
  clock.advance(100)
  expect(errors).toHaveLength(1)
  cache.evictTo = evictTo
  clock.advance(100)
  expect(totals.get(0, 'loopTicks')).toBe(2)
  expect(cache.usageBytes).toBe(80)
})

it('stops', () => {
  const { loop, fill, cache, clock, totals } = setUp()
  loop.start()
  loop.stop()
  fill(100)
  loop.wake()
  clock.advance(1000)
  expect(totals.get(0, 'loopTicks')).toBe(0)
  expect(cache.usageBytes).toBe(100)
})
