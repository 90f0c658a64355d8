import { expect, it } from 'vitest'
import type { L1PolicyName } from '../../../src/l1/options.ts'
import { ADAPTER_LIMITS_DEFAULT, type AdapterLimits } from '../../../src/l2/options.ts'
import type { TransferOptions } from '../../../src/transfer/options.ts'
import { KIB, makeEngine, settle } from '../../support/engine.ts'
import { chainOf, storeChain } from '../../support/engine-client.ts'
import { GatedAdapter } from '../../support/gated-adapter.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }

interface Setup {
  readonly limits?: Partial<AdapterLimits>[]
  readonly transfer?: Partial<TransferOptions>
  readonly l1Bytes?: number
  readonly policy?: L1PolicyName
}

/** An engine on adapters l2-0, l2-1..., each with limits of its own. */
async function withAdapters(adapters: GatedAdapter[], given: Setup = {}) {
  const { limits = [], transfer = {}, l1Bytes = 64 * KIB, policy = 'lru' } = given
  const setup = makeEngine({ seed: 1, transfer, l1: { capacityBytes: l1Bytes, policy } })
  const { engine, clock, cells, memory } = setup
  for (const [at, adapter] of adapters.entries()) {
    await engine.adapters.add(`l2-${at}`, adapter, { ...ADAPTER_LIMITS_DEFAULT, ...limits[at] })
  }
  setup.start()
  const space = engine.openSpace(SHARD)
  const run = async (ms = 20) => {
    clock.advance(ms)
    await settle(clock)
  }
  const store = (letters: string) => storeChain(engine, memory!, space, chainOf(letters))
  const look = (letters: string) => engine.lookup(space, chainOf(letters), engine.sessions.nextOwner())
  const ask = async (letters: string) => {
    const lookup = look(letters)
    await run()
    engine.release(lookup)
    return lookup.hitChunks
  }
  const row = (at: number) => at * cells.tenants.rows + engine.l1.spaces.spec(space).tenant
  const cell = (at: number, field: Parameters<typeof cells.l2Tenants.get>[1]) => cells.l2Tenants.get(row(at), field)
  const clear = () => engine.l1.remove({ space }, 'clear')
  return { ...setup, space, run, store, look, ask, cell, clear }
}

it('bounds the stores in flight to each adapter by its own budget', async () => {
  const adapters = [new GatedAdapter('store'), new GatedAdapter('store')]
  const { store, run, cells } = await withAdapters(adapters, { limits: [{ storeBudgetBytes: 2 * KIB }] })
  store('abcdefghijkl')
  await run()
  expect([cells.l2.get(0, 'inflightStoreObjects'), cells.l2.get(1, 'inflightStoreObjects')]).toEqual([2, 12])
})

it('bounds the bytes that wait for each adapter, and counts what finds no place', async () => {
  const adapters = [new GatedAdapter('store'), new GatedAdapter('store')]
  const { store, run, cell, engine } = await withAdapters(adapters, {
    limits: [{ storeBudgetBytes: KIB, storePendingBytes: 3 * KIB }],
    transfer: { storeBudgetBytes: KIB },
  })
  store('abcdef')
  expect(engine.stores.queuedShards).toBe(3 + 6)
  expect([cell(0, 'storeSkippedQueueFull'), cell(1, 'storeSkippedQueueFull')]).toEqual([3, 0])
  await run()
  store('ABCDEF') // two of the three still wait
  expect(cell(0, 'storeSkippedQueueFull')).toBe(3 + 5)
})

it('bounds the loads in flight from each adapter, and those that wait', async () => {
  const adapters = [new GatedAdapter()]
  const { store, run, look, cell, cells, clear } = await withAdapters(adapters, {
    limits: [{ loadBudgetBytes: 2 * KIB, loadPendingBytes: 3 * KIB }],
  })
  for (const letters of ['ab', 'cd', 'efg', 'hi']) store(letters)
  await run()
  clear()
  adapters[0]!.gated.add('load')
  const lookups = ['ab', 'cd', 'hi', 'efg'].map(look)
  await run(0)
  expect(cells.l2.get(0, 'inflightLoadBytes')).toBe(2 * KIB)
  // cd waits; hi would make it 4 KiB of 3, so nothing of it is loaded, and efg neither.
  expect(lookups.map(({ state }) => state)).toEqual(['pending', 'pending', 'final', 'final'])
  expect(cell(0, 'loadSkippedQueueFull')).toBe(5)
  for (let turn = 0; turn < 3; turn += 1) {
    adapters[0]!.openGate()
    await run(0)
  }
  expect(lookups.map(({ hitL2 }) => hitL2)).toEqual([2, 2, 0, 0])
  expect(cells.l2.get(0, 'inflightLoadBytes')).toBe(0)
})

it('skips loads that take longer than computing, and looks again now and then', async () => {
  const adapter = new GatedAdapter()
  // 16 tokens a chunk: computing one takes 10 ms.
  const { store, run, look, cell, clear, engine } = await withAdapters([adapter], {
    transfer: { skipSlowerTokensPerSecond: 1_600 },
  })
  store('abcd')
  await run()
  adapter.gated.add('load')
  const load = async (ms: number) => {
    clear()
    const lookup = look('abcd')
    await run(0)
    if (lookup.state === 'pending') {
      await run(ms)
      adapter.openGate()
      await run(0)
    }
    engine.release(lookup)
    return lookup.hitL2
  }
  expect(await load(500)).toBe(4) // nothing is known of the adapter yet
  expect(await load(100)).toBe(0) // 500 ms against 40 ms
  expect([cell(0, 'loadSkippedSlower'), cell(0, 'loadSubmittedObjects')]).toEqual([4, 4])
  await run(10_000)
  expect(await load(5)).toBe(4) // one is let through
  expect(await load(5)).toBe(0)
  for (let turn = 0; turn < 60; turn += 1) {
    await run(10_000)
    await load(5)
  }
  expect(await load(5)).toBe(4) // it has become fast
})

it('learns from a load that was given up that it takes at least so long', async () => {
  const adapter = new GatedAdapter()
  const { store, run, look, cell, clear, engine } = await withAdapters([adapter], {
    transfer: { skipSlowerTokensPerSecond: 1_600 },
  })
  store('abcd')
  await run()
  clear()
  adapter.gated.add('load')
  const first = look('abcd')
  await run(0)
  await run(500)
  engine.release(first)
  adapter.openGate()
  adapter.gated.clear()
  await run(0)
  clear()
  const second = look('abcd')
  await run(0)
  expect(second).toMatchObject({ state: 'final', hitL2: 0 })
  expect(cell(0, 'loadSkippedSlower')).toBe(4)
})

it('loads however slowly when nothing is asked for', async () => {
  const adapter = new GatedAdapter()
  const { store, run, look, clear } = await withAdapters([adapter])
  store('abcd')
  await run()
  adapter.gated.add('load')
  for (let turn = 0; turn < 3; turn += 1) {
    clear()
    const lookup = look('abcd')
    await run(0)
    await run(900)
    adapter.openGate()
    await run(0)
    expect(lookup.hitL2).toBe(4)
  }
})

it('keeps the part of a run that fast adapters hold when a slow one is skipped', async () => {
  const fast = new GatedAdapter()
  const slow = new GatedAdapter()
  const { store, run, look, cell, clear, space, engine, memory } = await withAdapters([fast, slow], {
    transfer: { skipSlowerTokensPerSecond: 1_600 },
  })
  storeChain(engine, memory!, space, chainOf('abcd'))
  await run()
  const signal = new AbortController().signal
  slow.gated.add('load')
  await fast.inner.clear({}, signal)
  clear()
  const first = look('abcd')
  await run(0)
  await run(800)
  slow.openGate()
  await run(0)
  expect(first.hitL2).toBe(4)
  engine.release(first)
  clear()
  await fast.inner.clear({}, signal)
  const slowOnly = slow.inner
  store('ab') // both have these two, only the slow one has the rest
  await run()
  expect(slowOnly.usage().objects).toBe(4)
  clear()
  const second = look('abcd')
  await run(0)
  expect(second).toMatchObject({ state: 'final', hitL2: 2 })
  expect(cell(1, 'loadSkippedSlower')).toBe(2)
})

it('stores a chunk once it was asked for often enough, by adapter', async () => {
  const adapters = [new GatedAdapter(), new GatedAdapter()]
  const { store, run, ask, cell, clear } = await withAdapters(adapters, { limits: [{ admitTouches: 3 }] })
  const held = () => adapters.map(({ inner }) => inner.usage().objects)
  await ask('ab')
  store('ab')
  await run()
  expect(held()).toEqual([0, 2])
  expect([cell(0, 'storeSkippedNotAdmitted'), cell(1, 'storeSkippedNotAdmitted')]).toEqual([2, 0])
  await ask('a')
  expect(held()).toEqual([0, 2])
  await ask('ab') // the third time for a: it is resident, and goes down now
  await run()
  expect(held()).toEqual([1, 2])
  await ask('a')
  await run()
  expect(adapters[0]!.calls.filter((call) => call.startsWith('store'))).toEqual(['store 1']) // once
  clear()
  await adapters[1]!.inner.clear({}, new AbortController().signal)
  await ask('ab') // b is not resident: remembered all the same
  store('ab')
  await run()
  expect(held()).toEqual([2, 1])
})

it.each(['lru', 'adaptive'] as const)(
  '%s: writes back nothing before L1 fills, and then the oldest before they leave',
  async (policy) => {
    const adapter = new GatedAdapter()
    const { store, run, engine, cell, cells } = await withAdapters([adapter], {
      limits: [{ writePolicy: 'back' }],
      transfer: { writeBackRatio: 0.5 },
      l1Bytes: 32 * KIB,
      policy,
    })
    for (const letter of 'abcdefgh') store(letter)
    await run()
    expect(adapter.calls).toEqual([])
    for (const letter of 'ijklmnop') store(letter)
    await run()
    expect(adapter.inner.usage().objects).toBeGreaterThan(0)
    await run()
    for (let serial = 0; serial < 100; serial += 1) {
      store(String.fromCharCode(1_000 + serial))
      await run()
    }
    expect(cells.l1Tenants.sum('evictedShards')).toBeGreaterThan(80)
    expect(cell(0, 'storeSkippedDirty')).toBe(0)
    expect(adapter.inner.usage().objects).toBe(116)
    engine.l1.verify()
  },
)

it.each(['lru', 'adaptive'] as const)(
  '%s: evicts clean chunks first, drops dirty ones with a count, and never waits for L2',
  async (policy) => {
    const adapter = new GatedAdapter()
    const { store, run, cell, cells, space, engine } = await withAdapters([adapter], {
      limits: [{ writePolicy: 'back' }],
      transfer: { writeBackRatio: 0.5 },
      l1Bytes: 32 * KIB,
      policy,
    })
    const isResident = (letter: string) => engine.l1.residentRun(space, chainOf(letter), 0, 1) === 1
    for (const letter of 'abcdefghijklmnop') store(letter)
    await run()
    await run()
    const clean = adapter.inner.usage().objects
    expect(clean).toBe(16)
    await engine.release(engine.lookup(space, chainOf('a'), 1)) // a is the newest now, and clean
    adapter.gated.add('store')
    for (let serial = 0; serial < 16; serial += 1) store(String.fromCharCode(1_000 + serial))
    expect(engine.l1.usageBytes).toBe(32 * KIB)
    for (let serial = 16; serial < 32; serial += 1) expect(store(String.fromCharCode(1_000 + serial))).toBe(1)
    // The clean ones went, and no dirty one, although a was newer than all of b to p.
    expect(cells.l1Tenants.sum('evictedShards')).toBe(16)
    expect([...'abcdefghijklmnop'].filter(isResident)).toEqual([])
    expect(cell(0, 'storeSkippedDirty')).toBe(0)
    // Nothing clean is left and the adapter hangs: room is made all the same, and the loss is counted.
    for (let serial = 32; serial < 40; serial += 1) expect(store(String.fromCharCode(1_000 + serial))).toBe(1)
    expect(cell(0, 'storeSkippedDirty')).toBe(8)
    engine.l1.verify()
  },
)

it('takes what came from the adapter for clean, and hands over again what failed', async () => {
  const adapter = new GatedAdapter()
  const { store, run, ask, cell, clear, cells, engine, space } = await withAdapters([adapter], {
    limits: [{ writePolicy: 'back', retries: 0 }],
    transfer: { writeBackRatio: 0.1 },
    l1Bytes: 16 * KIB,
  })
  const failing = adapter.inner.store.bind(adapter.inner)
  adapter.inner.store = () => Promise.reject(new Error('no'))
  for (const letter of 'abcd') store(letter)
  await run()
  expect(cell(0, 'storeFailedError')).toBeGreaterThan(0)
  const tries = adapter.calls.length
  await run(500)
  expect(adapter.calls).toHaveLength(tries) // an adapter that refuses is not asked again at once
  adapter.inner.store = failing
  await run(600)
  await run()
  expect(adapter.inner.usage().objects).toBe(4)
  clear()
  for (const letter of 'abcd') expect(await ask(letter)).toBe(1)
  const calls = adapter.calls.filter((call) => call.startsWith('store')).length
  await run(250)
  expect(adapter.calls.filter((call) => call.startsWith('store'))).toHaveLength(calls)
  engine.l1.evictTo(0, 100)
  expect(cell(0, 'storeSkippedDirty')).toBe(0)
  expect(cells.l1Tenants.sum('evictedShards')).toBe(4)
  expect(engine.l1.residentRun(space, chainOf('a'), 0, 1)).toBe(0)
})
