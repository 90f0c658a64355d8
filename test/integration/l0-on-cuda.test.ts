import { describe, expect, it } from 'vitest'
import { CounterTable } from '../../src/core/counters.ts'
import { COPY_TENANT_FIELDS } from '../../src/events/counters.ts'
import { BlockTable } from '../../src/l0/block-table.ts'
import { CudaDevice } from '../../src/l0/cuda-device.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { probeCuda } from '../../src/native/cuda.ts'
import { CopyPlan } from '../../src/transfer/copy-plan.ts'
import { L0L1Copier } from '../../src/transfer/l0-l1-copier.ts'
import { byteSpace, chainOf, makeBlocks } from '../support/l0.ts'
import { slotsOf } from '../support/l0-l1.ts'
import { random } from '../support/random.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { openStandIn, standInDriver } from '../support/stand-in-driver.ts'
import { until } from '../support/until.ts'

const CHUNK_BYTES = 1024
/** A share of a chunk that ends inside a block. */
const RANK_BYTES = CHUNK_BYTES / 2
const SHORT_BYTES = 64
const CHUNKS = 24
const CAPACITY_BYTES = 12 * CHUNK_BYTES
const found = await standInDriver()

function setUp(ranks = 1) {
  if (typeof found === 'string') throw new Error(found)
  const standIn = openStandIn(found)
  standIn.control('revive')
  const driver = probeCuda(found.library)
  if (!driver.available) throw new Error(driver.reason)
  const made = makeBlocks({ capacityBytes: CAPACITY_BYTES })
  const device = new CudaDevice({ library: found.library, ordinal: 0 }, driver)
  const host = new Uint8Array(2 * CHUNKS * CHUNK_BYTES)
  device.open(CAPACITY_BYTES, host)
  made.blocks.registerSpace(0, byteSpace(CHUNK_BYTES, 1, ranks))
  const tenants = new CounterTable(COPY_TENANT_FIELDS, 4)
  const copier = new L0L1Copier({ copyInFlightBytes: 4 * CHUNK_BYTES }, { ...made, device, tenants })
  return { ...made, device, host, copier, tenants }
}

describe('blocks and the copier on a CUDA device', skipUnless(typeof found !== 'string', String(found)), () => {
  it.each([1, 2, 3])('bring chunks up and down byte for byte, evicting on the way (seed %i)', async (seed) => {
    const { blocks, device, host, copier, tenants } = setUp()
    try {
      const next = random(seed)
      for (let i = 0; i < CHUNKS * CHUNK_BYTES; i += 1) host[i] = next(256)
      const tables: BlockTable[] = []
      const settled = () => until('the copies', () => (device.pending === 0 ? true : undefined))
      for (let chunk = 0; chunk < CHUNKS; chunk += 1) {
        const table = new BlockTable(0)
        // When the pool is full, whoever came first goes; its blocks are given to others.
        while (!blocks.allocate(table, chainOf(chunk), 0, 1)) {
          await settled()
          blocks.release(tables.splice(next(tables.length), 1)[0]!)
        }
        tables.push(table)
        const errors: unknown[] = []
        copier.load(table, slotsOf(CHUNK_BYTES, [[0, chunk * CHUNK_BYTES]]), (error) => {
          errors.push(error)
          if (error === null) blocks.publish(table, 0, 1)
          const below = (CHUNKS + chunk) * CHUNK_BYTES
          copier.store(table, slotsOf(CHUNK_BYTES, [[0, below]]), (failure) => errors.push(failure))
        })
        if (next(3) === 0) await until('both ways', () => (errors.length === 2 ? true : undefined))
        blocks.verify()
        expect(errors.every((error) => error === null)).toBe(true)
      }
      await settled()
      const half = CHUNKS * CHUNK_BYTES
      expect(Buffer.compare(host.subarray(0, half), host.subarray(half))).toBe(0)
      expect(tenants.sum('storeBytes')).toBe(half)
      expect(tenants.sum('loadBytes')).toBe(half)
      expect(tenants.sum('storeBusySeconds')).toBeGreaterThan(0)
      for (const table of tables) blocks.release(table)
      blocks.verify()
    } finally {
      device.close()
    }
  })

  it.each([1, 2, 3])('follow lists of blocks to the bytes that the pieces one by one have (seed %i)', async (seed) => {
    const next = random(seed)
    const { blocks, device, host, copier } = setUp(2)
    try {
      for (let i = 0; i < host.length; i += 1) host[i] = next(256)
      const settled = () => until('the copies', () => (device.pending === 0 ? true : undefined))
      // Short chunks of another model came and went: the lists of those after them are scattered over the pool.
      blocks.registerSpace(1, byteSpace(SHORT_BYTES, 1, 1))
      const early = Array.from({ length: CAPACITY_BYTES / SHORT_BYTES }, () => new BlockTable(1))
      for (const [chunk, short] of early.entries()) expect(blocks.allocate(short, chainOf(chunk), 0, 1)).toBe(true)
      while (early.length > 0) blocks.release(early.splice(next(early.length), 1)[0]!)
      const table = new BlockTable(0)
      expect(blocks.allocate(table, chainOf(1, 2, 3), 0, 3)).toBe(true)
      const slots = new SlotList(1)
      for (const chunk of [2, 0, 1]) {
        for (const rank of [1, 0]) slots.push(chunk, rank, (chunk * 2 + rank) * RANK_BYTES, RANK_BYTES)
      }
      const errors: unknown[] = []
      copier.load(table, slots, (error) => errors.push(error))
      await settled()
      blocks.publish(table, 0, 3)
      // The oracle: the plan that a device gets which does not follow lists.
      const plan = new CopyPlan()
      plan.clear('store')
      const half = host.length / 2
      for (let row = 0; row < slots.count; row += 1) {
        const run = table.runOf(slots.chainIndex[row]!)
        plan.addRun(blocks, run, slots.rank[row]! * RANK_BYTES, half + slots.offset[row]!, RANK_BYTES)
      }
      expect(plan.count).toBeGreaterThan(4 * slots.count)
      device.submit(device.createStream(), plan, (_, error) => errors.push(error))
      await settled()
      expect(errors).toEqual([null, null])
      const moved = 3 * 2 * RANK_BYTES
      expect(Buffer.compare(host.subarray(0, moved), host.subarray(half, half + moved))).toBe(0)
    } finally {
      device.close()
    }
  })
})
