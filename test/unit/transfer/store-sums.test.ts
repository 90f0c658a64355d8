import { expect, it } from 'vitest'
import { NO_LEASE } from '../../../src/core/ids.ts'
import { ChunkRefs } from '../../../src/l1/chunk-refs.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_OK } from '../../../src/l2/adapter.ts'
import { StoreSums } from '../../../src/transfer/store-sums.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

/** A chain of four chunks, under the lease of a store. */
function setUp() {
  const l1 = makeL1({ capacityBytes: 64, extentBytes: 64, indexCapacityChunks: 16, indexCapacityShards: 16 })
  const { cache } = l1
  const space = openSpace(cache, { shardBytes: 4 })
  const chain = chainOf([1, 2, 3, 4])
  cache.commit(cache.reserve(space, 0, chain, 0, 4, 1, 1000, 'store', new SlotList()))
  const refs = new ChunkRefs()
  for (let index = 0; index < 4; index += 1) expect(cache.order.complete(space, chain, index, refs)).toBe(true)
  const lease = cache.leaseRefs(refs, 0, 4, 0, Number.POSITIVE_INFINITY, new Uint8Array(4))
  expect(lease).not.toBe(NO_LEASE)
  const known = () => Array.from({ length: 4 }, (_, at) => cache.sums.get(refs.id[at]!, 0))
  const settle = (sums: number[], outcomes: number[]) => {
    new StoreSums(cache).settle(refs, 0, Uint32Array.from(sums), Uint8Array.from(outcomes))
    cache.verify()
  }
  const run = () => cache.residentRun(space, chain, 0, 4)
  return { ...l1, space, chain, refs, lease, known, settle, run }
}

const OK = [OUTCOME_OK, OUTCOME_OK, OUTCOME_OK, OUTCOME_OK]
const THIRD_CORRUPT = [OUTCOME_OK, OUTCOME_OK, OUTCOME_CORRUPT, OUTCOME_OK]

it('keeps the sums that an adapter took, where there was none', () => {
  const { cache, refs, settle, known } = setUp()
  cache.sums.set(refs.id[1]!, 0, 11)
  settle([10, 99, 0, 13], OK)
  expect(known()).toEqual([10, 11, -1, 13])
})

it('takes no sum of what was not stored', () => {
  const { settle, known } = setUp()
  settle([10, 11, 12, 13], [OUTCOME_FAILED, OUTCOME_OK, OUTCOME_FAILED, OUTCOME_FAILED])
  expect(known()).toEqual([-1, 11, -1, -1])
})

it('drops what is altered with what follows it, and counts it once for all adapters', () => {
  const { cache, totals, tenants, lease, settle, run } = setUp()
  settle([10, 11, 12, 13], OK)
  settle([10, 11, 12, 13], THIRD_CORRUPT)
  settle([10, 11, 12, 13], THIRD_CORRUPT)
  expect(run()).toBe(2)
  expect(totals.get(0, 'checksumFailures')).toBe(1)
  expect(tenants.get(0, 'removedCorrupt')).toBe(2)
  cache.release(lease)
  cache.verify()
})

it('drops nothing that has another sum by now', () => {
  const { cache, refs, totals, settle, run } = setUp()
  cache.sums.set(refs.id[2]!, 0, 77)
  settle([10, 11, 12, 13], THIRD_CORRUPT)
  expect(run()).toBe(4)
  expect(totals.get(0, 'checksumFailures')).toBe(0)
})

it('drops nothing that was removed meanwhile and stored again', () => {
  const { cache, space, chain, totals, settle, run } = setUp()
  settle([10, 11, 12, 13], OK)
  cache.remove({ space }, 'clear')
  cache.commit(cache.reserve(space, 0, chain, 0, 4, 1, 1000, 'store', new SlotList()))
  settle([10, 11, 12, 13], THIRD_CORRUPT)
  expect(run()).toBe(4)
  expect(totals.get(0, 'checksumFailures')).toBe(0)
})
