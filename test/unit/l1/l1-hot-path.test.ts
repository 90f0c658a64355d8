import { expect, it } from 'vitest'
import { SystemClock } from '../../../src/core/clock.ts'
import { NO_LEASE } from '../../../src/core/ids.ts'
import { ChunkRefs } from '../../../src/l1/chunk-refs.ts'
import { L1_POLICIES } from '../../../src/l1/options.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { heapGrowthBytes } from '../../support/heap.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

const CHUNKS = 64
const ROUNDS = 200

it.each(L1_POLICIES)('a chunk costs L1 no heap: lookups, leases, stores and evictions (%s)', (policy) => {
  const { cache, tenants } = makeL1(
    {
      capacityBytes: 1024,
      extentBytes: 64,
      indexCapacityChunks: 2048,
      indexCapacityShards: 2048,
      ghostCapacityChunks: 512,
      leaseEntryCapacity: 4096,
      policy,
    },
    { clock: new SystemClock(), events: { publish() {}, enqueue() {}, flush() {} } },
  )
  const space = openSpace(cache)
  const chains = Array.from({ length: 64 }, (_, root) =>
    chainOf(Array.from({ length: CHUNKS }, (_, index) => (index === 0 ? root : 0))),
  )
  const grants = new SlotList(CHUNKS)
  const places = new SlotList(CHUNKS)
  const refs = new ChunkRefs(CHUNKS)
  const present = new Uint8Array(CHUNKS)
  const request = (at: number) => {
    const chain = chains[at % chains.length]!
    refs.clear()
    places.clear()
    const run = cache.residentRun(space, chain, 0, CHUNKS)
    const lease = run === 0 ? NO_LEASE : cache.lease(space, chain, 0, run, 'read', 1, 1000)
    cache.noteAsked(space, chain, run, CHUNKS)
    const write = cache.reserve(space, 0, chain, run, CHUNKS, 1, 1000, 'store', grants)
    cache.commit(write, null, refs)
    if (lease !== NO_LEASE) {
      cache.slots(lease, 0, 0, run, places)
      cache.served(lease, 0, run)
      cache.release(lease)
    }
    if (refs.count > 0) cache.release(cache.leaseRefs(refs, 0, refs.count, 0, 1000, present))
    cache.evictTo(1000, 8)
    cache.sweepLeases()
  }
  const rounds = (count: number) => {
    for (let round = 0; round < count; round += 1) request(round * 7)
  }
  rounds(20 * ROUNDS)
  const evicted = tenants.get(0, 'evictedShards')
  // The least of several: a collection makes V8 drop some compiled code, and code that is not compiled boxes numbers.
  const grown = Math.min(...Array.from({ length: 8 }, () => heapGrowthBytes(() => rounds(ROUNDS))))
  expect(tenants.get(0, 'evictedShards') - evicted).toBeGreaterThan(ROUNDS)
  expect(grown / (ROUNDS * CHUNKS)).toBeLessThan(15) // some numbers a batch; the smallest object is 16 bytes
  cache.verify()
})
