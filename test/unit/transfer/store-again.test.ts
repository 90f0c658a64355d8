import { expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import type { Attached } from '../../../src/l2/adapter-set.ts'
import { ADAPTER_LIMITS_DEFAULT, type AdapterLimits } from '../../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../../support/engine.ts'
import { chainOf, storeChain } from '../../support/engine-client.ts'
import { GatedAdapter } from '../../support/gated-adapter.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz'

/** An engine with chunks in L1 that were stored before the adapter was attached. */
async function withLateAdapter(letters: readonly string[], limits: Partial<AdapterLimits> = {}, ranks = 1) {
  const setup = makeEngine({ seed: 1, l1: { capacityBytes: 1024 * KIB } })
  const { engine, clock, memory } = setup
  setup.start()
  const space = engine.openSpace({ ...SHARD, ranks })
  const store = (chain: string) => {
    for (let rank = 0; rank < ranks; rank += 1) storeChain(engine, memory!, space, chainOf(chain), rank)
  }
  for (const chain of letters) store(chain)
  const adapter = new GatedAdapter()
  const attached = await engine.adapters.add('late', adapter, { ...ADAPTER_LIMITS_DEFAULT, ...limits })
  const run = async (turns = 1) => {
    for (let turn = 0; turn < turns; turn += 1) {
      clock.advance(20)
      await settle(clock)
    }
  }
  return { ...setup, adapter, attached, store, run }
}

const objectsOf = ({ adapter }: Attached) => adapter.usage().objects

it.each([1, 2])('stores what the adapter lacks of all that is in L1, and nothing else, of %i ranks', async (ranks) => {
  const { engine, adapter, attached, store, run, cells } = await withLateAdapter([ALPHABET, 'xyz'], {}, ranks)
  store('abcdefgh12') // two new ones, which go down at once
  await run(3)
  const stored = cells.l2Tenants.sum('storeCompletedObjects')
  expect(stored).toBe(2 * ranks)
  engine.stores.offerAgain(attached)
  await run(20)
  expect(objectsOf(attached)).toBe((26 + 3 + 2) * ranks)
  expect(cells.l2Tenants.sum('storeCompletedObjects')).toBe((26 + 3 + 2) * ranks)
  expect(cells.l2Tenants.sum('lookupRequests')).toBe(0) // clients asked nothing
  const calls = adapter.calls.length
  engine.stores.offerAgain(attached)
  await run(20)
  expect(adapter.calls.slice(calls).filter((call) => call.startsWith('store'))).toEqual([])
})

it('asks one question at a time, and none while something waits for the adapter', async () => {
  const { engine, adapter, attached, store, run } = await withLateAdapter([ALPHABET])
  adapter.gated.add('lookup').add('store')
  engine.stores.offerAgain(attached)
  await run(3)
  expect(adapter.calls).toEqual(['lookup 26'])
  store('new')
  await run(3)
  expect(adapter.calls.slice(1)).toEqual(['store 3']) // clients do not wait for it
  adapter.openGate()
  await run(3)
  expect(adapter.calls.filter((call) => call.startsWith('lookup'))).toEqual(['lookup 26'])
  expect(engine.stores.inflightBatches).toBeGreaterThan(0)
})

it('makes up for an outage, once the adapter serves again', async () => {
  const { adapter, attached, store, run, clock, cells } = await withLateAdapter([], { retries: 0, circuitOpenMs: 200 })
  const down = async () => {
    throw new CacheError('L2_UNAVAILABLE', 'down')
  }
  Object.assign(adapter, { store: down, lookup: down })
  for (const letter of ALPHABET) {
    store(letter)
    await run() // each one fails, until the circuit refuses them
  }
  expect(objectsOf(attached)).toBe(0)
  expect(cells.l2Tenants.sum('storeSkippedCircuitOpen')).toBeGreaterThan(0)
  await run(600) // twelve seconds later it is still down
  expect(objectsOf(attached)).toBe(0)
  Object.assign(adapter, { store: GatedAdapter.prototype.store, lookup: GatedAdapter.prototype.lookup })
  await run(100)
  expect(objectsOf(attached)).toBe(26)
  const calls = adapter.calls.length
  clock.advance(600_000)
  await run(20)
  expect(adapter.calls.length).toBe(calls) // nothing was missed since
})

it('waits for an adapter that cannot answer, and goes on from where it was', async () => {
  const { engine, adapter, attached, run, clock } = await withLateAdapter([ALPHABET], { retries: 0 })
  adapter.gated.add('lookup')
  engine.stores.offerAgain(attached)
  await run()
  clock.advance(attached.limits.lookupDeadlineMs)
  await settle(clock)
  adapter.gated.clear()
  adapter.openGate()
  await run(200)
  expect(objectsOf(attached)).toBe(26)
})

it('forgets what left L1 meanwhile', async () => {
  const { engine, adapter, attached, run } = await withLateAdapter([ALPHABET])
  adapter.gated.add('lookup')
  engine.stores.offerAgain(attached)
  await run()
  engine.l1.evictTo(0, 1000)
  adapter.openGate()
  await run(5)
  expect([objectsOf(attached), engine.stores.queuedShards]).toEqual([0, 0])
})

it.each([{ writePolicy: 'back' }, { admitTouches: 2 }] as const)(
  'leaves alone adapters that choose: %j',
  async (limits) => {
    const { engine, adapter, attached, run } = await withLateAdapter([ALPHABET], limits)
    engine.stores.offerAgain(attached)
    await run(5)
    expect(adapter.calls).toEqual([])
  },
)

it('ends with the adapter', async () => {
  const { engine, adapter, attached, run } = await withLateAdapter([ALPHABET])
  adapter.gated.add('lookup')
  engine.stores.offerAgain(attached)
  await run()
  const removed = engine.adapters.remove('late', { force: true })
  adapter.openGate()
  await run(5)
  await removed
  expect([attached.state, engine.stores.queuedShards, engine.stores.inflightBatches]).toEqual(['removed', 0, 0])
})
