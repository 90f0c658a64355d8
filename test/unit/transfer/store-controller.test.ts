import { expect, it } from 'vitest'
import type { L1Options } from '../../../src/l1/options.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../../support/engine.ts'
import { chainOf, storeChain } from '../../support/engine-client.ts'
import { GatedAdapter } from '../../support/gated-adapter.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }

function withAdapters(...adapters: GatedAdapter[]) {
  return withL1({}, ...adapters)
}

async function withL1(l1: Partial<L1Options>, ...adapters: GatedAdapter[]) {
  const setup = makeEngine({ seed: 1, l1 })
  for (const [at, adapter] of adapters.entries()) {
    await setup.engine.adapters.add(`l2-${at}`, adapter, ADAPTER_LIMITS_DEFAULT)
  }
  setup.start()
  const space = setup.engine.openSpace(SHARD)
  const store = (letters: string, at = space) => storeChain(setup.engine, setup.memory!, at, chainOf(letters))
  const run = async () => {
    setup.clock.advance(20)
    await settle(setup.clock)
  }
  const total = (field: Parameters<typeof setup.cells.l2Tenants.sum>[0]) => setup.cells.l2Tenants.sum(field)
  return { ...setup, space, store, run, total }
}

it('sends what was committed to every active adapter', async () => {
  const adapters = [new GatedAdapter(), new GatedAdapter()]
  const { store, run, total, engine } = await withAdapters(...adapters)
  store('abcdef')
  expect(engine.stores.queuedShards).toBe(12)
  await run()
  expect(adapters.map(({ inner }) => inner.usage().objects)).toEqual([6, 6])
  expect(total('storeCompletedObjects')).toBe(12)
  expect(engine.stores.queuedShards + engine.stores.inflightBatches).toBe(0)
})

it('never mixes two spaces in one batch', async () => {
  const adapter = new GatedAdapter('store')
  const { store, run, engine } = await withAdapters(adapter)
  const other = engine.openSpace({ ...SHARD, salt: 'tenant' })
  store('ab')
  store('ab', other)
  store('xy')
  await run()
  expect(adapter.calls).toEqual(['store 2', 'store 2', 'store 2'])
})

it('keeps bytes in flight within the budget, and goes on as batches end', async () => {
  const adapter = new GatedAdapter('store')
  const { store, run, cells, engine } = await withAdapters(adapter)
  store('abcdefghijklmnopqrstuvwxyzABCDEF') // 32 KiB against a budget of 16 KiB in batches of 4
  await run()
  expect(cells.l2.get(0, 'inflightStoreObjects')).toBe(16)
  for (let turn = 0; turn < 4; turn += 1) {
    adapter.openGate()
    await run()
  }
  expect(adapter.inner.usage().objects).toBe(32)
  expect(engine.stores.inflightBatches).toBe(0)
})

it('stores a shard that is longer than the whole budget, alone', async () => {
  const adapter = new GatedAdapter('store')
  const { store, run, engine } = await withL1({ capacityBytes: 128 * KIB }, adapter)
  store('ab', engine.openSpace({ ...SHARD, model: 'long', shardBytes: 24 * KIB })) // against a budget of 16 KiB
  await run()
  expect(adapter.calls).toEqual(['store 1'])
  adapter.openGate()
  await run()
  adapter.openGate()
  await run()
  expect(adapter.inner.usage().objects).toBe(2)
})

it('sends what waits in larger batches once enough are in flight', async () => {
  const adapter = new GatedAdapter('store')
  const { store, run, engine } = await withAdapters(adapter)
  for (const letter of 'abcdefghijklmno') {
    store(letter)
    await run()
  }
  expect(adapter.calls).toEqual(Array(8).fill('store 1'))
  adapter.openGate()
  await run()
  expect(adapter.calls.slice(8)).toEqual(['store 4', 'store 3'])
  adapter.openGate()
  await run()
  expect(engine.stores.inflightBatches + engine.stores.queuedShards).toBe(0)
})

it('lets a stuck adapter delay only itself', async () => {
  const stuck = new GatedAdapter('store')
  const free = new GatedAdapter()
  const { store, run } = await withAdapters(stuck, free)
  for (const letters of ['abcd', 'efgh', 'ijkl', 'mnop', 'qrst', 'uvwx']) store(letters)
  await run()
  expect(free.inner.usage().objects).toBe(24)
  expect(stuck.inner.usage().objects).toBe(0)
})

it('skips and counts what left L1 before its turn, and what finds the queue full', async () => {
  const adapter = new GatedAdapter()
  const { store, run, total, engine, space } = await withAdapters(adapter)
  store('abc')
  engine.l1.remove({ space }, 'clear')
  await run()
  expect(total('storeSkippedEvicted')).toBe(3)
  for (let serial = 0; serial < 70; serial += 1) {
    store(String.fromCharCode(1_000 + serial))
  }
  expect(total('storeSkippedQueueFull')).toBe(6) // the queue has 64 places
})

it('keeps what waits while there is no lease to be had, and stores it afterwards', async () => {
  const adapter = new GatedAdapter()
  const { store, run, total, engine, space } = await withL1({ leaseCapacity: 4 }, adapter)
  store('ab')
  const lookups = Array.from({ length: 4 }, () => engine.lookup(space, chainOf('ab'), 1))
  await run()
  expect([total('storeSkippedEvicted'), engine.stores.queuedShards]).toEqual([0, 2])
  for (const lookup of lookups) engine.release(lookup)
  await run()
  expect([total('storeCompletedObjects'), adapter.inner.usage().objects]).toEqual([2, 2])
})

it('drops what waits for an adapter that drains, and ends idle', async () => {
  const adapter = new GatedAdapter('store')
  const { store, run, total, engine, clock } = await withAdapters(adapter)
  store('abcdefghijklmnopqrstuvwx')
  await run()
  const drained = engine.adapters.drain('l2-0', 1_000)
  await run()
  adapter.openGate()
  await run()
  expect(await drained).toMatchObject({ isDrained: true })
  expect(total('storeSkippedDraining')).toBe(8)
  await engine.stores.idle()
  clock.advance(0)
  expect(engine.stores.queuedShards).toBe(0)
})

it('holds the lease of a store that was given up until the adapter has let go of the bytes', async () => {
  const adapter = new GatedAdapter('store')
  const { store, run, engine, clock } = await withAdapters(adapter)
  store('ab')
  await run()
  clock.advance(ADAPTER_LIMITS_DEFAULT.storeDeadlineMs + ADAPTER_LIMITS_DEFAULT.abandonAfterMs)
  await settle(clock)
  expect(engine.l1.openLeases).toBe(1)
  adapter.openGate()
  await settle(clock)
  expect(engine.l1.openLeases).toBe(0)
})
