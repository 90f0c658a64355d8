import { crc32 } from 'node:zlib'
import { expect, it } from 'vitest'
import { NO_LEASE, type SpaceId } from '../../../src/core/ids.ts'
import { SumList } from '../../../src/l1/shard-sums.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { Checksums } from '../../../src/transfer/checksums.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

const SHARD_BYTES = 4

function setUp(chunks: number, batchBytes?: number) {
  const memory = new Uint8Array(chunks * SHARD_BYTES)
  const errors: unknown[] = []
  const calls: number[] = []
  let isLost = false
  let goOn = Promise.resolve()
  const l1 = makeL1(
    {
      capacityBytes: memory.length,
      extentBytes: 64,
      indexCapacityChunks: chunks,
      indexCapacityShards: chunks,
      leaseEntryCapacity: chunks,
    },
    { onReadable: (id, generation, rank) => checksums.note(id, generation, rank) },
  )
  const checksums = new Checksums({
    l1: l1.cache,
    clock: l1.clock,
    port: {
      sums: async (offsets, lengths) => {
        if (isLost) throw new Error('nobody is left')
        calls.push(offsets.length)
        await goOn
        return Uint32Array.from(offsets, (offset, row) => crc32(memory.subarray(offset, offset + lengths[row]!)))
      },
    },
    ...(batchBytes === undefined ? {} : { batchBytes }),
    onError: (_where, error) => errors.push(error),
  })
  const store = (space: SpaceId, root: number, count: number) => {
    const chain = chainOf([root, ...Array.from({ length: count - 1 }, (_, at) => at)])
    const grants = new SlotList()
    const lease = l1.cache.reserve(space, 0, chain, 0, count, 1, 1000, 'store', grants)
    expect(lease).not.toBe(NO_LEASE)
    for (let row = 0; row < grants.count; row += 1) {
      for (let at = 0; at < SHARD_BYTES; at += 1) memory[grants.offset[row]! + at] = root * 31 + row * 7 + at
    }
    expect(l1.cache.commit(lease)).toBe(count)
    return chain
  }
  const settle = async () => {
    for (let round = 0; round < 400; round += 1) {
      l1.clock.advance(5)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const summed = () => {
    const list = new SumList(chunks)
    expect(l1.cache.sums.list(0, list)).toBe(-1)
    for (let row = 0; row < list.count; row += 1) {
      const offset = list.offset[row]!
      expect(list.sum[row]).toBe(crc32(memory.subarray(offset, offset + SHARD_BYTES)))
    }
    return list.count
  }
  const lose = () => {
    isLost = true
  }
  /** No sum is answered until what is returned is called. */
  const stall = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    goOn = promise
    return resolve
  }
  return { ...l1, memory, checksums, errors, calls, store, settle, summed, lose, stall }
}

it('sums what became readable, in batches, and holds nothing afterwards', async () => {
  const scene = setUp(256)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  scene.store(space, 1, 100)
  expect(scene.summed()).toBe(0)
  await scene.settle()
  expect(scene.summed()).toBe(100)
  expect(scene.calls).toEqual([64, 36])
  expect(scene.cache.openLeases).toBe(0)
  scene.cache.verify()
})

it('leaves stores room to evict while it sums: it leases few bytes at a time', async () => {
  const scene = setUp(64, 2 * SHARD_BYTES)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  const goOn = scene.stall()
  for (let root = 0; root < 16; root += 1) scene.store(space, root, 4)
  await scene.settle()
  expect(scene.calls).toEqual([2, 2])
  scene.store(space, 100, 60)
  goOn()
  await scene.settle()
  expect(scene.summed()).toBe(64)
  expect(scene.cache.openLeases).toBe(0)
  scene.cache.verify()
})

it('sums a shard that is longer than what it leases at a time', async () => {
  const scene = setUp(64, 1)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  scene.store(space, 1, 3)
  await scene.settle()
  expect(scene.calls).toEqual([1, 1, 1])
  expect(scene.summed()).toBe(3)
})

it('finds by a scan what its queue had no room for, and what an earlier engine left without a checksum', async () => {
  const chunks = 20_000
  const scene = setUp(chunks)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  for (let root = 0; root < 20; root += 1) scene.store(space, root, 1000)
  expect(scene.checksums.waiting).toBeLessThan(chunks)
  await scene.settle()
  expect(scene.summed()).toBe(chunks)
})

it('waits while there is no lease to be had, and sums afterwards', async () => {
  const scene = setUp(64)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  const chain = scene.store(space, 1, 2)
  const owner = 7
  while (scene.cache.lease(space, chain, 0, 1, 'read', owner, 1_000_000) !== NO_LEASE) {
    // until the table is full
  }
  await scene.settle()
  expect([scene.checksums.waiting, scene.summed()]).toEqual([2, 0])
  scene.cache.releaseOwner(owner)
  await scene.settle()
  expect([scene.checksums.waiting, scene.summed()]).toEqual([0, 2])
})

it('leaves out what was evicted meanwhile', async () => {
  const scene = setUp(64)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  scene.store(space, 1, 10)
  scene.cache.evictTo(0, 4)
  await scene.settle()
  expect(scene.summed()).toBe(6)
})

it('removes what differs from its checksum, with what follows it, and counts it', async () => {
  const scene = setUp(256)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  const good = scene.store(space, 1, 5)
  const bad = scene.store(space, 2, 8)
  await scene.settle()
  const slots = new SlotList()
  const lease = scene.cache.lease(space, bad, 0, 8, 'internal', 0, 1000)
  scene.cache.slots(lease, 0, 3, 4, slots)
  scene.cache.release(lease)
  scene.memory[slots.offset[0]! + 2]! ^= 1
  expect(await scene.checksums.verifyAll()).toMatchObject({ corrupt: 1 })
  expect(scene.cache.residentRun(space, good, 0, 5)).toBe(5)
  expect(scene.cache.residentRun(space, bad, 0, 8)).toBe(3)
  expect(scene.totals.get(0, 'checksumFailures')).toBe(1)
  expect(scene.tenants.get(0, 'removedCorrupt')).toBe(5)
  scene.cache.verify()
})

it('gives up once nobody computes checksums any more, and says so once', async () => {
  const scene = setUp(64)
  const space = openSpace(scene.cache, { shardBytes: SHARD_BYTES })
  scene.lose()
  scene.store(space, 1, 10)
  await scene.settle()
  scene.store(space, 2, 10)
  await scene.settle()
  expect(scene.errors).toHaveLength(1)
  expect(scene.summed()).toBe(0)
  expect(scene.cache.openLeases).toBe(0)
})
