import { afterEach, expect, it } from 'vitest'
import type { MpClient } from '../../src/client/mp-client.ts'
import { SLICE_CHUNKS_MAX } from '../../src/engine/hash-queue.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../src/l2/options.ts'
import { LONG_BYTES } from '../../src/server/mp/long-messages.ts'
import { checkLaws } from '../support/conservation-laws.ts'
import { KIB } from '../support/engine.ts'
import { GatedAdapter } from '../support/gated-adapter.ts'
import { GatedLane } from '../support/gated-lane.ts'
import { CHUNK, contextOf, found, holds, keyOf, type Mp, promptOf, startMp, storePrompt } from '../support/mp.ts'

// Nothing here waits for time: what must not wait for something comes to its end while that something hangs for good.
let mp: Mp
afterEach(() => {
  checkLaws(mp.engine)
  expect(mp.bugs).toEqual([])
  mp.close()
})

const INSTANCES = { alice: 2n ** 62n + 1n, bob: 2n ** 62n + 2n }
const INLINE_CHUNKS = 8
const HUGE = promptOf(9, 20 * SLICE_CHUNKS_MAX)

/** Two inference servers, each a scheduler and a worker, on one engine whose L2 and hashing wait for the test. */
async function neighbours() {
  const lane = new GatedLane()
  const l2 = new GatedAdapter('lookup', 'load', 'store')
  mp = await startMp({ lane, inlineChunks: INLINE_CHUNKS, l1: { capacityBytes: 256 * KIB } })
  await mp.engine.adapters.add('hangs', l2, ADAPTER_LIMITS_DEFAULT)
  const clients = Array.from({ length: 4 }, () => mp.connect()) as [MpClient, MpClient, MpClient, MpClient]
  for (const client of clients) await client.chunkTokens()
  const [scheduler, worker, otherScheduler, otherWorker] = clients
  await worker.register(contextOf(INSTANCES.alice))
  await otherWorker.register(contextOf(INSTANCES.bob))
  return { lane, l2, alice: { scheduler, worker }, bob: { scheduler: otherScheduler, worker: otherWorker } }
}

/** Everything a server asks for a prompt of so many chunks that L1 has, and for one that is new. */
async function wholeCycle({ scheduler, worker }: { scheduler: MpClient; worker: MpClient }, name: number, chunks = 4) {
  const prompt = promptOf(name, chunks)
  const indices = Array.from({ length: chunks }, (_, index) => index)
  const store = keyOf(prompt, { requestId: `store ${name}` })
  expect(await storePrompt(mp, worker, store, INSTANCES.bob, name)).toEqual(indices)
  const key = keyOf(prompt, { requestId: `hit ${name}` })
  expect(await scheduler.ping(null)).toBe(true)
  expect(await worker.ping(INSTANCES.bob)).toBe(true)
  expect(await found(scheduler, key)).toBe(chunks)
  const slots = await worker.prepareRetrieve(key, INSTANCES.bob)
  expect(holds(mp.memory, slots!, 0, name)).toBe(true)
  expect(await worker.commitRetrieve(key, INSTANCES.bob)).toBe(true)
  await scheduler.endSession(key.requestId)
  await scheduler.endSession(store.requestId)
}

it('serves one client while L2 hangs and the huge prompt of another is never hashed', async () => {
  const { lane, l2, alice, bob } = await neighbours()
  await alice.scheduler.lookup(keyOf(HUGE, { workerId: null }))
  const stored = alice.worker.prepareStore(keyOf(HUGE.subarray(0, 64 * CHUNK), { requestId: 'store' }), INSTANCES.alice)
  await alice.scheduler.lookup(keyOf(promptOf(8, 2), { workerId: null, requestId: 'in L2?' }))
  expect(await alice.scheduler.answer('in L2?')).toBeNull()
  expect(l2.calls).toContain('lookup 2')
  for (const name of [1, 2, 3]) {
    await wholeCycle(bob, name)
    mp.clock.advance(100)
  }
  expect(lane.slices).toHaveLength(1)
  expect(l2.waiting.map(({ kind }) => kind)).toContain('store')
  expect(await alice.scheduler.answer('r')).toBeNull()
  expect(await alice.scheduler.answer('in L2?')).toBeNull()
  const given = expect(stored).rejects.toThrow('closed')
  alice.worker.close()
  await given
})

it('hashes a long prompt of one client after one slice of the huge prompt of another', async () => {
  const { lane, alice, bob } = await neighbours()
  await alice.scheduler.lookup(keyOf(HUGE, { workerId: null }))
  await alice.scheduler.ping(null)
  const key = keyOf(promptOf(1, 2 * INLINE_CHUNKS), { requestId: 'bob' })
  const prepared = bob.worker.prepareStore(key, INSTANCES.bob)
  while (mp.prompts.waiting < 2) await bob.scheduler.ping(null)
  await lane.pass() // of the huge prompt
  await lane.pass()
  expect((await prepared).chunkIndices).toHaveLength(2 * INLINE_CHUNKS)
  expect(lane.slices).toEqual([HUGE[0], key.tokens[0], HUGE[SLICE_CHUNKS_MAX * CHUNK]])
  expect(await alice.scheduler.answer('r')).toBeNull()
})

it('hashes again neither what a lookup hashed, nor what the next turn of the conversation repeats', async () => {
  const { lane, bob } = await neighbours()
  const conversation = promptOf(1, 60)
  const turn = (chunks: number) => keyOf(conversation.subarray(0, chunks * CHUNK), { requestId: `turn ${chunks}` })
  await bob.scheduler.lookup({ ...turn(40), workerId: null })
  while (!lane.isBusy) await bob.scheduler.ping(null)
  await lane.pass()
  const stored = await storePrompt(mp, bob.worker, turn(40), INSTANCES.bob, 1)
  expect(stored).toHaveLength(40)
  expect(lane.slices).toHaveLength(1)
  expect(await storePrompt(mp, bob.worker, turn(40 + INLINE_CHUNKS), INSTANCES.bob, 1)).toHaveLength(INLINE_CHUNKS)
  expect(lane.slices).toHaveLength(1)
})

it('forgets the prompts of a client that is gone, and of requests that ended', async () => {
  const { lane, alice, bob } = await neighbours()
  await alice.scheduler.lookup(keyOf(HUGE, { workerId: null }))
  await alice.scheduler.lookup(keyOf(promptOf(7, 100), { workerId: null, requestId: 'other' }))
  await bob.scheduler.lookup(keyOf(promptOf(6, 100), { workerId: null, requestId: 'bob' }))
  while (mp.prompts.waiting < 3) await bob.scheduler.ping(null)
  await bob.scheduler.endSession('bob')
  expect(mp.prompts.waiting).toBe(2)
  mp.clock.advance(3_599_000)
  await bob.scheduler.ping(null)
  mp.clock.advance(2_000)
  expect(mp.prompts.waiting).toBe(0)
  expect(lane.slices).toHaveLength(1)
  lane.openForGood()
})

it('answers what comes behind a list of very many tokens in order, and for that list', async () => {
  mp = await startMp({ l1: { capacityBytes: 256 * KIB } })
  const [client, other] = [mp.connect(), mp.connect()]
  for (const one of [client, other]) await one.chunkTokens()
  await client.register(contextOf(INSTANCES.alice))
  const start = promptOf(3, 4)
  await storePrompt(mp, client, keyOf(start, { requestId: 'start' }), INSTANCES.alice, 3)
  const long = new Uint32Array(LONG_BYTES / 4 + CHUNK)
  long.set(start)
  const key = keyOf(long, { requestId: 'long', workerId: null })
  const asked = [client.lookup(key), client.answer('long'), client.ping(null)]
  expect(await other.ping(null)).toBe(true)
  await Promise.all(asked)
  expect(await found(client, { ...key, requestId: 'again' })).toBe(4)
  await client.endSession('again')
  expect(await client.answer('again')).toBe(0)
})
