import { afterEach, expect, it } from 'vitest'
import { GENERATIONS, idOf } from '../../src/protocol/mp/generations.ts'
import { KIB } from '../support/engine.ts'
import { GatedLane } from '../support/gated-lane.ts'
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

const WORKER = 2n ** 62n + 1n

/** An engine with one worker and its scheduler. */
async function served(setup: Parameters<typeof startMp>[0] = {}) {
  mp = await startMp(setup)
  const scheduler = mp.connect()
  const worker = mp.connect()
  await scheduler.chunkTokens()
  await worker.chunkTokens()
  expect(await worker.register(contextOf(WORKER))).toEqual({ name: 'kvtier-test', bytes: mp.memory.length })
  return { scheduler, worker }
}

it('takes a prompt through store, lookup and retrieve, with the right bytes at the right places', async () => {
  const { scheduler, worker } = await served()
  const prompt = promptOf(1, 4)
  expect(await found(scheduler, keyOf(prompt))).toBe(0)
  expect(await storePrompt(mp, worker, keyOf(prompt), WORKER, 1)).toEqual([0, 1, 2, 3])
  expect(await found(scheduler, keyOf(prompt, { requestId: 'again' }))).toBe(4)
  const key = keyOf(prompt, { requestId: 'again' })
  const slots = await worker.prepareRetrieve(key, WORKER)
  expect(slots).toHaveLength(4)
  expect(slots![0]).toMatchObject({ length: SHARD_BYTES, shape: [2, 1, CHUNK, 16], dtype: 'float16' })
  expect(holds(mp.memory, slots!, 0, 1)).toBe(true)
  expect(await worker.commitRetrieve(key, WORKER)).toBe(true)
  expect(mp.engine.cells.engineTenants.sum('hitTokens')).toBe(4 * CHUNK)
  expect(mp.engine.cells.engineTenants.sum('loadedShards')).toBe(4)
  expect(mp.engine.cells.l1Tenants.sum('readShards')).toBe(4)
  expect(mp.engine.cells.copyTenants.sum('storeBytes')).toBe(4 * SHARD_BYTES)
  expect(mp.engine.cells.copyTenants.sum('loadBytes')).toBe(4 * SHARD_BYTES)
})

it('gives a worker no slots of another length than it copies', async () => {
  const { worker } = await served()
  const { model, ranks } = { model: 'm', ranks: 1 }
  mp.engine.l1.spaces.retire(model, ranks)
  mp.engine.openSpace({ model, salt: '', ranks, shardBytes: SHARD_BYTES / 2, layout: 'of an earlier engine' })
  expect((await worker.prepareStore(keyOf(promptOf(1, 4)), WORKER)).slots).toEqual([])
})

it('lets go of the leases of a lookup once everything was retrieved', async () => {
  const { scheduler, worker } = await served()
  const key = keyOf(promptOf(1, 4))
  await storePrompt(mp, worker, key, WORKER, 1)
  await found(scheduler, key)
  expect(mp.engine.l1.openLeases).toBe(1)
  for (const [start, end] of [
    [0, 1],
    [1, 4],
  ] as const) {
    const part = { ...key, start: start * CHUNK, end: end * CHUNK }
    expect(mp.engine.l1.openLeases).toBe(1)
    const slots = await worker.prepareRetrieve(part, WORKER)
    expect(holds(mp.memory, slots!, start, 1)).toBe(true)
    expect(await worker.commitRetrieve(part, WORKER)).toBe(true)
  }
  expect(mp.engine.l1.openLeases).toBe(0)
})

it('frees what a lookup holds chunk by chunk, and all of it at the end of the session', async () => {
  const { scheduler, worker } = await served()
  const key = keyOf(promptOf(1, 4))
  await storePrompt(mp, worker, key, WORKER, 1)
  await found(scheduler, key)
  await scheduler.freeLookupLocks({ ...key, workerId: null, end: 2 * CHUNK })
  expect(mp.engine.l1.openLeases).toBe(1)
  await scheduler.freeLookupLocks({ ...key, workerId: null, start: 2 * CHUNK })
  expect(mp.engine.l1.openLeases).toBe(0)
  await found(scheduler, { ...key, requestId: 'b' })
  expect(mp.engine.l1.openLeases).toBe(1)
  await scheduler.endSession('b')
  expect(mp.engine.l1.openLeases).toBe(0)
  expect(await worker.prepareRetrieve({ ...key, requestId: 'b' }, WORKER)).toBeNull()
})

it('keeps the slots of a retrieval under way, whatever the session does', async () => {
  const { scheduler, worker } = await served({ l1: { capacityBytes: 16 * KIB } })
  const key = keyOf(promptOf(1, 4))
  await storePrompt(mp, worker, key, WORKER, 1)
  await found(scheduler, key)
  const slots = await worker.prepareRetrieve(key, WORKER)
  await scheduler.endSession(key.requestId)
  for (let name = 2; name < 8; name += 1) {
    await storePrompt(mp, worker, keyOf(promptOf(name, 4), { requestId: `${name}` }), WORKER, name)
  }
  expect(holds(mp.memory, slots!, 0, 1)).toBe(true)
  expect(await worker.commitRetrieve(key, WORKER)).toBe(true)
  expect(mp.engine.l1.openLeases).toBe(0)
})

it('gives the answer of a lookup out once, and 0 for what is unknown', async () => {
  const { scheduler, worker } = await served()
  const key = keyOf(promptOf(1, 2))
  await storePrompt(mp, worker, key, WORKER, 1)
  expect(await scheduler.answer('never asked')).toBe(0)
  expect(await found(scheduler, key)).toBe(2)
  expect(await scheduler.answer(key.requestId)).toBe(0)
  expect(await worker.answer(key.requestId)).toBe(0)
})

it('stores only what L1 lacks, and says where it belongs', async () => {
  const { worker } = await served()
  const short = keyOf(promptOf(1, 2))
  const long = keyOf(promptOf(1, 5), { requestId: 'long' })
  await storePrompt(mp, worker, short, WORKER, 1)
  expect(await worker.prepareStore(short, WORKER)).toEqual({ slots: [], chunkIndices: [] })
  const { slots, chunkIndices } = await worker.prepareStore(long, WORKER)
  expect(chunkIndices).toEqual([2, 3, 4])
  fill(mp.memory, slots, [2, 3, 4], 1)
  expect(await worker.commitStore(long, WORKER)).toBe(true)
  expect(await worker.commitStore(long, WORKER)).toBe(false)
})

it('counts chunk indices from the start of the range that is asked for', async () => {
  const { scheduler, worker } = await served()
  const prompt = promptOf(1, 5)
  const first = keyOf(prompt.subarray(0, 2 * CHUNK))
  await storePrompt(mp, worker, first, WORKER, 1)
  expect(await storePrompt(mp, worker, keyOf(prompt, { start: 2 * CHUNK }), WORKER, 1)).toEqual([0, 1, 2])
  expect(await found(scheduler, keyOf(prompt, { requestId: 'b' }))).toBe(5)
})

it('finds nothing while a store is not committed', async () => {
  const { scheduler, worker } = await served()
  const key = keyOf(promptOf(1, 2))
  await worker.prepareStore(key, WORKER)
  expect(await found(scheduler, key)).toBe(0)
  expect(await worker.commitStore(key, WORKER)).toBe(true)
  expect(await found(scheduler, { ...key, requestId: 'b' })).toBe(2)
})

it('never trusts tokens: another prompt under the same request id is another prompt', async () => {
  const { scheduler, worker } = await served()
  const stored = keyOf(promptOf(1, 3))
  await storePrompt(mp, worker, stored, WORKER, 1)
  expect(await found(scheduler, stored)).toBe(3)
  expect(await worker.prepareRetrieve({ ...stored, tokens: promptOf(2, 3) }, WORKER)).toBeNull()
  expect(await found(scheduler, { ...stored, tokens: promptOf(2, 3) })).toBe(0)
  expect(await storePrompt(mp, worker, { ...stored, tokens: promptOf(2, 3) }, WORKER, 2)).toEqual([0, 1, 2])
  const later = { ...stored, tokens: promptOf(2, 3), requestId: 'b' }
  expect(await found(scheduler, later)).toBe(3)
  expect(holds(mp.memory, (await worker.prepareRetrieve(later, WORKER))!, 0, 2)).toBe(true)
})

it('never shows one salt the chunks of another, under one request id', async () => {
  const { scheduler, worker } = await served()
  const prompt = promptOf(1, 3)
  for (const [name, salt] of ['', 'a', 'b'].entries()) {
    expect(await found(scheduler, keyOf(prompt, { salt }))).toBe(0)
    expect(await storePrompt(mp, worker, keyOf(prompt, { salt }), WORKER, name)).toEqual([0, 1, 2])
  }
  for (const [name, salt] of ['', 'a', 'b'].entries()) {
    const key = keyOf(prompt, { salt, requestId: 'same' })
    expect(await found(scheduler, key)).toBe(3)
    expect(holds(mp.memory, (await worker.prepareRetrieve(key, WORKER))!, 0, name)).toBe(true)
  }
})

it('hits with two ranks only once the objects of both are there', async () => {
  mp = await startMp()
  const scheduler = mp.connect()
  const ranks = [0, 1].map((workerId) => ({ workerId, id: BigInt(workerId) + WORKER, client: mp.connect() }))
  for (const { id, client } of ranks) await client.register(contextOf(id, { worldSize: 2 }))
  const prompt = promptOf(1, 3)
  const expected = [0, 3]
  for (const { workerId, id, client } of ranks) {
    const key = keyOf(prompt, { worldSize: 2, workerId })
    await storePrompt(mp, client, key, id, 10 + workerId)
    expect(await found(scheduler, { ...key, requestId: `after ${workerId}` })).toBe(expected[workerId])
  }
  for (const { workerId, id, client } of ranks) {
    const key = keyOf(prompt, { worldSize: 2, workerId, requestId: 'after 1' })
    expect(mp.engine.l1.openLeases).toBe(1)
    const slots = await client.prepareRetrieve(key, id)
    expect(holds(mp.memory, slots!, 0, 10 + workerId)).toBe(true)
    expect(await client.commitRetrieve(key, id)).toBe(true)
  }
  expect(mp.engine.l1.openLeases).toBe(0)
  expect(mp.engine.cells.engineTenants.sum('hitTokens')).toBe(3 * CHUNK)
  expect(mp.engine.cells.engineTenants.sum('loadedShards')).toBe(6)
})

it.each([
  ['who say how many they are', 3, 3],
  ['of an older client', 0, 3],
])('holds a chunk of MLA for all its readers, %s', async (_who, readers, tensorParallel) => {
  mp = await startMp()
  const scheduler = mp.connect()
  const workers = [1n, 2n, 3n].map((id) => ({ id, client: mp.connect() }))
  for (const { id, client } of workers) await client.register(contextOf(id, { isMla: true }))
  const key = keyOf(promptOf(1, 2), { readers })
  await storePrompt(mp, workers[0]!.client, key, 1n, 1)
  expect(await storePrompt(mp, workers[1]!.client, key, 2n, 9)).toEqual([])
  expect(await found(scheduler, key, tensorParallel)).toBe(2)
  for (const { id, client } of workers) {
    expect(mp.engine.l1.openLeases).toBe(1)
    const slots = await client.prepareRetrieve(key, id)
    expect(slots![0]!.shape).toEqual([1, CHUNK, 16])
    expect(holds(mp.memory, slots!, 0, 1)).toBe(true)
    expect(await client.commitRetrieve(key, id)).toBe(true)
  }
  expect(mp.engine.l1.openLeases).toBe(0)
})

it('refuses a commit that comes after the lease, and counts a late retrieval', async () => {
  const { scheduler, worker } = await served()
  const { leaseTtlMs } = mp.engine.options
  const key = keyOf(promptOf(1, 2))
  await worker.prepareStore(key, WORKER)
  mp.clock.advance(2 * leaseTtlMs)
  expect(mp.cells.l1.get(0, 'quarantinedBytes')).toBe(2 * SHARD_BYTES)
  expect(await worker.commitStore(key, WORKER)).toBe(false)
  expect(mp.cells.l1.get(0, 'quarantinedBytes')).toBe(0)
  await storePrompt(mp, worker, key, WORKER, 1)
  await found(scheduler, { ...key, requestId: 'b' })
  expect(await worker.prepareRetrieve({ ...key, requestId: 'b' }, WORKER)).toHaveLength(2)
  mp.clock.advance(2 * leaseTtlMs)
  expect(await worker.commitRetrieve({ ...key, requestId: 'b' }, WORKER)).toBe(false)
  expect(mp.cells.l1Tenants.sum('readFailureExpired')).toBe(2)
  expect(mp.cells.engineTenants.sum('loadedShards')).toBe(0)
})

it('quarantines what a silent worker may still write, until it speaks', async () => {
  const { worker } = await served()
  const key = keyOf(promptOf(1, 2))
  await worker.ping(WORKER)
  await worker.prepareStore(key, WORKER)
  mp.clock.advance(121_000)
  expect(mp.server.status()).toMatchObject({ instances: 0, reapedInstances: 1 })
  expect(mp.cells.l1.get(0, 'quarantinedBytes')).toBe(2 * SHARD_BYTES)
  expect(await worker.prepareStore(key, WORKER)).toEqual({ slots: [], chunkIndices: [] })
  expect(await worker.ping(WORKER)).toBe(false)
  expect(await worker.ping(WORKER)).toBe(true)
  await worker.register(contextOf(WORKER))
  expect(mp.cells.l1.get(0, 'quarantinedBytes')).toBe(0)
  expect(await storePrompt(mp, worker, key, WORKER, 1)).toEqual([0, 1])
})

it('waits longer for a worker that never sent a heartbeat', async () => {
  const { worker } = await served()
  mp.clock.advance(3_000_000)
  expect(mp.server.status()).toMatchObject({ instances: 1 })
  mp.clock.advance(700_000)
  expect(mp.server.status()).toMatchObject({ instances: 0, clients: 0 })
  expect(await worker.ping(null)).toBe(true)
})

it('frees what a worker was writing when it unregisters', async () => {
  const { worker } = await served()
  await worker.prepareStore(keyOf(promptOf(1, 2)), WORKER)
  expect(mp.cells.l1.get(0, 'usageBytes')).toBe(2 * SHARD_BYTES)
  await worker.unregister(WORKER)
  expect(mp.cells.l1.get(0, 'usageBytes')).toBe(0)
  expect(await worker.prepareStore(keyOf(promptOf(1, 2)), WORKER)).toEqual({ slots: [], chunkIndices: [] })
})

it('answers a worker it does not know with a no that the worker understands', async () => {
  mp = await startMp()
  const worker = mp.connect()
  const key = keyOf(promptOf(1, 2))
  expect(await worker.prepareStore(key, 5n)).toEqual({ slots: [], chunkIndices: [] })
  expect(await worker.commitStore(key, 5n)).toBe(false)
  expect(await worker.prepareRetrieve(key, 5n)).toBeNull()
  expect(await worker.commitRetrieve(key, 5n)).toBe(false)
  expect(await found(worker, key)).toBe(0)
})

it('acknowledges a lookup that makes no sense, and finds nothing', async () => {
  mp = await startMp()
  const scheduler = mp.connect()
  expect(await scheduler.request('lookup', Uint8Array.of(0x81, 0xa1))).toBeNull()
  expect(await scheduler.answer('r')).toBe(0)
  expect(mp.server.status()).toMatchObject({ requests: 2, badPayloads: 1 })
})

it.each([
  ['another layout of a known model', contextOf(2n, { hidden: 32 })],
  ['a type of numbers that is unknown', contextOf(2n, { model: 'n', dtype: 'toString' })],
  ['blocks that do not fill a chunk', contextOf(2n, { model: 'n', blockTokens: 5 })],
  ['a shard larger than L1', contextOf(2n, { model: 'n', layers: 2 ** 20 })],
])('refuses %s at once, and says so', async (_what, context) => {
  await served()
  const other = mp.connect()
  await other.chunkTokens()
  await other.experimental()
  await expect(other.register(context)).rejects.toMatchObject({ code: 'FORBIDDEN' })
  expect(mp.lines).toHaveLength(1)
  expect(mp.server.status()).toMatchObject({ instances: 1, refused: 1 })
})

it('tells a client of the other path which setting to change', async () => {
  mp = await startMp()
  const worker = mp.connect()
  await worker.chunkTokens()
  await worker.experimental()
  for (const op of [1, 'register_kv_cache']) {
    await expect(worker.request(op)).rejects.toThrow('set lmcache.mp.mp_transfer_mode to engine_driven')
  }
  expect(mp.lines).toEqual([expect.stringContaining('lmcache.mp.mp_transfer_mode')])
})

it('speaks every generation, by number and by name', async () => {
  mp = await startMp()
  for (const generation of GENERATIONS) {
    const client = mp.connect({ generation })
    expect(await client.chunkTokens()).toBe(CHUNK)
    expect(await client.ping(null)).toBe(true)
    expect(await client.experimental()).toEqual([])
    if (idOf(generation, 'prepare_store') === undefined) continue
    await client.register(contextOf(WORKER))
    const key = keyOf(promptOf(idOf(generation, 'ping')!, 2))
    await storePrompt(mp, client, key, WORKER, 1)
    expect(await found(client, { ...key, requestId: 'b' })).toBe(2)
  }
})

it('keeps a question for an answer while the prompt is hashed, and for a moment only', async () => {
  const lane = new GatedLane()
  const { scheduler } = await served({ lane, inlineChunks: 1, queryHoldMs: 5 })
  const key = keyOf(promptOf(1, 4))
  await scheduler.lookup({ ...key, workerId: null })
  const early = scheduler.answer(key.requestId)
  let isAnswered = false
  void early.then(() => {
    isAnswered = true
  })
  expect(await scheduler.ping(null)).toBe(true)
  expect(isAnswered).toBe(false)
  mp.clock.advance(5)
  expect(await early).toBeNull()
  const late = scheduler.answer(key.requestId)
  expect(await scheduler.ping(null)).toBe(true)
  lane.openForGood()
  expect(await late).toBe(0)
})

it('hashes long prompts elsewhere, and keeps the order of a worker meanwhile', async () => {
  const lane = new GatedLane()
  const { scheduler, worker } = await served({ lane, inlineChunks: 1 })
  const key = keyOf(promptOf(1, 4))
  await scheduler.lookup({ ...key, workerId: null })
  expect(await scheduler.answer(key.requestId)).toBeNull()
  const prepared = worker.prepareStore(key, WORKER)
  const short = worker.prepareStore(keyOf(promptOf(2, 1), { requestId: 'short' }), WORKER)
  expect(await scheduler.ping(null)).toBe(true)
  expect(await worker.ping(WORKER)).toBe(true)
  const order: string[] = []
  void prepared.then(() => order.push('long'))
  void short.then(() => order.push('short'))
  lane.openForGood()
  expect((await prepared).chunkIndices).toEqual([0, 1, 2, 3])
  expect((await short).chunkIndices).toEqual([0])
  expect(order).toEqual(['long', 'short'])
  expect(await scheduler.waitAnswer(key.requestId, 1)).toBe(0)
})

it('ends a lookup whose request ended while its prompt was hashed', async () => {
  const lane = new GatedLane()
  const { scheduler } = await served({ lane, inlineChunks: 0 })
  await scheduler.lookup(keyOf(promptOf(1, 4), { workerId: null }))
  await scheduler.endSession('r')
  lane.openForGood()
  expect(await scheduler.answer('r')).toBe(0)
  expect(mp.engine.l1.openLeases).toBe(0)
  expect(mp.server.status().sessions).toBe(0)
})

it('clears only where that is allowed', async () => {
  const { scheduler, worker } = await served()
  await storePrompt(mp, worker, keyOf(promptOf(1, 2)), WORKER, 1)
  await scheduler.clear()
  expect(await found(scheduler, keyOf(promptOf(1, 2)))).toBe(2)
  mp.close()
  const allowed = await served({ mp: { allowClear: true } })
  await storePrompt(mp, allowed.worker, keyOf(promptOf(1, 2)), WORKER, 1)
  await allowed.scheduler.clear()
  expect(await found(allowed.scheduler, keyOf(promptOf(1, 2)))).toBe(0)
})
