import { afterEach, expect, it } from 'vitest'
import type { MpClient } from '../../src/client/mp-client.ts'
import { notReadyReasons } from '../../src/engine/status.ts'
import type { WireKey } from '../../src/protocol/mp/messages.ts'
import { KIB } from '../support/engine.ts'
import {
  CHUNK,
  closeSound,
  contextOf,
  fill,
  found,
  holds,
  keyOf,
  type Mp,
  promptOf,
  SHARD_BYTES,
  startMp,
  storePrompt,
} from '../support/mp.ts'

let mp: Mp
afterEach(() => closeSound(mp))

const WORKER = 2n ** 62n + 7n
const OTHER = 5n

async function served(setup: Parameters<typeof startMp>[0] = {}) {
  mp = await startMp(setup)
  const [scheduler, worker] = [mp.connect(), mp.connect()]
  await worker.register(contextOf(WORKER))
  return { scheduler, worker, ttlMs: mp.engine.options.leaseTtlMs }
}

/** A worker that was told where to read, and has not said that it is done. */
async function reading(scheduler: MpClient, worker: MpClient, key: WireKey) {
  await storePrompt(mp, worker, key, WORKER, 1)
  const read = { ...key, requestId: `${key.requestId} again` }
  expect(await found(scheduler, read)).toBe(key.end / CHUNK)
  return { read, slots: (await worker.prepareRetrieve(read, WORKER))! }
}

const quarantinedBytes = () => ({
  written: mp.cells.l1.get(0, 'quarantinedBytes'),
  read: mp.cells.l1.get(0, 'quarantinedReadBytes'),
})

/** Stores until everything that may be evicted was. */
async function flood(worker: MpClient, from: number): Promise<void> {
  for (let name = from; name < from + 16; name += 1) {
    await storePrompt(mp, worker, keyOf(promptOf(name, 2), { requestId: `flood ${name}` }), WORKER, name)
  }
}

it('keeps the slots of a late reader as they are, until its commit, which gets a no', async () => {
  const { scheduler, worker, ttlMs } = await served({ l1: { capacityBytes: 16 * KIB } })
  const { read, slots } = await reading(scheduler, worker, keyOf(promptOf(1, 4)))
  mp.clock.advance(2 * ttlMs)
  expect(quarantinedBytes()).toEqual({ written: 0, read: 4 * SHARD_BYTES })
  await scheduler.endSession(read.requestId)
  await flood(worker, 10)
  expect(holds(mp.memory, slots, 0, 1)).toBe(true)
  expect(await worker.commitRetrieve(read, WORKER)).toBe(false)
  expect(quarantinedBytes()).toEqual({ written: 0, read: 0 })
  expect(mp.cells.l1Tenants.sum('readFailureExpired')).toBe(4)
  expect(mp.cells.engineTenants.sum('loadedShards')).toBe(0)
  await flood(worker, 40)
  expect(holds(mp.memory, slots, 0, 1)).toBe(false)
})

it('never takes silence of a reader for its end: only it, or an order, frees the slots', async () => {
  const { scheduler, worker, ttlMs } = await served({ l1: { capacityBytes: 16 * KIB } })
  const { read, slots } = await reading(scheduler, worker, keyOf(promptOf(1, 4)))
  await worker.ping(WORKER)
  mp.clock.advance(200_000)
  expect(mp.server.status()).toMatchObject({ instances: 0, reapedInstances: 1 })
  await mp.connect().register(contextOf(OTHER))
  mp.clock.advance(10 * ttlMs)
  expect(holds(mp.memory, slots, 0, 1)).toBe(true)
  expect(quarantinedBytes().read).toBe(4 * SHARD_BYTES)
  expect(await worker.commitRetrieve(read, WORKER)).toBe(false)
  expect(quarantinedBytes().read).toBe(0)
  expect(mp.server.quarantine.list()).toEqual([])
})

it.each([
  ['registers again', (worker: MpClient) => worker.register(contextOf(WORKER))],
  ['unregisters', (worker: MpClient) => worker.unregister(WORKER)],
])('frees what a late worker may touch when it %s', async (_what, act) => {
  const { scheduler, worker } = await served()
  await reading(scheduler, worker, keyOf(promptOf(1, 4)))
  await worker.prepareStore(keyOf(promptOf(2, 2)), WORKER)
  await worker.ping(WORKER)
  mp.clock.advance(200_000)
  expect(quarantinedBytes()).toEqual({ written: 2 * SHARD_BYTES, read: 4 * SHARD_BYTES })
  await act(worker)
  expect(quarantinedBytes()).toEqual({ written: 0, read: 0 })
  expect(mp.server.status().heldBytes).toBe(0)
  expect(mp.engine.l1.openLeases).toBe(0)
})

it('shows the operator who holds what, and frees it by order', async () => {
  const { scheduler, worker, ttlMs } = await served()
  const { read } = await reading(scheduler, worker, keyOf(promptOf(1, 3)))
  const store = keyOf(promptOf(2, 2), { requestId: 'late' })
  const { slots } = await worker.prepareStore(store, WORKER)
  expect(mp.server.quarantine.list()).toEqual([])
  mp.clock.advance(ttlMs)
  const [row] = mp.server.quarantine.list()
  expect(row).toMatchObject({ worker: String(WORKER), model: 'm', isSilent: false, transfers: 2 })
  expect(row).toMatchObject({ writeBytes: 2 * SHARD_BYTES, readBytes: 3 * SHARD_BYTES })
  expect(mp.server.quarantine.release('4711')).toEqual([])
  expect(mp.server.quarantine.release(String(WORKER))).toHaveLength(1)
  expect(mp.server.quarantine.list()).toEqual([])
  expect(quarantinedBytes()).toEqual({ written: 0, read: 0 })
  fill(mp.memory, slots, [0, 1], 2)
  expect(await worker.commitStore(store, WORKER)).toBe(false)
  expect(await worker.commitRetrieve(read, WORKER)).toBe(false)
  expect(await found(scheduler, { ...store, requestId: 'b' })).toBe(0)
})

it('is not ready while more than a tenth of L1 is quarantined, by writers and readers together', async () => {
  const { scheduler, worker, ttlMs } = await served({ l1: { capacityBytes: 64 * KIB } })
  const reasons = () => notReadyReasons(mp.engine, mp.clock.nowMs()).filter((reason) => reason.includes('quarantine'))
  await reading(scheduler, worker, keyOf(promptOf(1, 4)))
  await worker.prepareStore(keyOf(promptOf(2, 2), { requestId: 'w' }), WORKER)
  mp.clock.advance(ttlMs)
  expect(reasons()).toEqual([])
  await worker.prepareStore(keyOf(promptOf(3, 1), { requestId: 'x' }), WORKER)
  mp.clock.advance(ttlMs)
  expect(reasons()).toEqual([expect.stringContaining('11 % of L1')])
  mp.server.quarantine.release(null)
  expect(reasons()).toEqual([])
})

it('gives workers that never commit no more than their share of L1, and serves the rest on', async () => {
  const { scheduler, worker, ttlMs } = await served({ l1: { capacityBytes: 16 * KIB }, mp: { heldRatioMax: 0.5 } })
  await storePrompt(mp, worker, keyOf(promptOf(1, 2)), WORKER, 1)
  const greedy = mp.connect()
  const storeGreedily = async (id: bigint) => {
    await greedy.register(contextOf(id))
    const granted: number[] = []
    for (let name = 20; name < 24; name += 1) {
      const key = keyOf(promptOf(name, 3), { requestId: `${id} ${name}` })
      granted.push((await greedy.prepareStore(key, id)).slots.length)
      mp.clock.advance(ttlMs / 2)
    }
    return granted
  }
  expect(await storeGreedily(OTHER)).toEqual([3, 1, 0, 0]) // 4 of 16 chunks
  await storePrompt(mp, worker, keyOf(promptOf(3, 3), { requestId: 'meanwhile' }), WORKER, 3)
  expect(await storeGreedily(OTHER + 1n)).toEqual([3, 1, 0, 0])
  expect(mp.server.status()).toMatchObject({ heldBytes: 8 * SHARD_BYTES, heldBack: 2 * (2 + 3 + 3) })
  mp.clock.advance(2 * ttlMs)
  expect(quarantinedBytes().written).toBe(8 * SHARD_BYTES)
  expect(await worker.prepareStore(keyOf(promptOf(2, 1), { requestId: 'b' }), WORKER)).toMatchObject({ slots: [] })
  const read = keyOf(promptOf(1, 2), { requestId: 'c' })
  expect(await found(scheduler, read)).toBe(2)
  expect(await worker.prepareRetrieve(read, WORKER)).toBeNull()
  await greedy.unregister(OTHER)
  expect(await worker.prepareRetrieve(read, WORKER)).toHaveLength(2)
  await storePrompt(mp, worker, keyOf(promptOf(2, 1), { requestId: 'd' }), WORKER, 2)
})

it('gives a range that a request is writing already no second slots', async () => {
  const { scheduler, worker, ttlMs } = await served()
  const key = keyOf(promptOf(1, 2))
  const first = await worker.prepareStore(key, WORKER)
  mp.clock.advance(2 * ttlMs)
  expect(await worker.prepareStore(key, WORKER)).toEqual({ slots: [], chunkIndices: [] })
  fill(mp.memory, first.slots, [0, 1], 1)
  expect(await worker.commitStore(key, WORKER)).toBe(false)
  expect(await found(scheduler, { ...key, requestId: 'b' })).toBe(0)
  expect(await storePrompt(mp, worker, key, WORKER, 1)).toEqual([0, 1])
})
