import { expect, it } from 'vitest'
import { ADAPTER_LIMITS_DEFAULT } from '../../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../../support/engine.ts'
import { chainOf, holdsRightBytes, storeChain } from '../../support/engine-client.ts'
import { GatedAdapter } from '../../support/gated-adapter.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }

/** An engine whose adapters hold the chains given, and whose L1 holds nothing. */
async function withStored(adapters: GatedAdapter[], stored: string[], l1Bytes = 64 * KIB) {
  const setup = makeEngine({ seed: 1, l1: { capacityBytes: l1Bytes } })
  const { engine, clock, memory } = setup
  const space = engine.openSpace(SHARD)
  setup.start()
  for (const [at, adapter] of adapters.entries()) {
    const gated = [...adapter.gated]
    adapter.gated.clear()
    await engine.adapters.add(`l2-${at}`, adapter, ADAPTER_LIMITS_DEFAULT)
    storeChain(engine, memory!, space, chainOf(stored[at] ?? ''))
    clock.advance(20)
    await settle(clock)
    if (at < adapters.length - 1) engine.l1.remove({ space }, 'clear')
    for (const kind of gated) adapter.gated.add(kind)
    adapter.calls.length = 0
  }
  engine.l1.remove({ space }, 'clear')
  const cell = (row: number, field: Parameters<typeof setup.cells.l2Tenants.get>[1]) =>
    setup.cells.l2Tenants.get(row * setup.cells.tenants.rows + engine.l1.spaces.spec(space).tenant, field)
  const look = (letters: string) => engine.lookup(space, chainOf(letters), engine.sessions.nextOwner())
  return { ...setup, space, cell, look, memory: memory! }
}

it('loads what L2 holds behind L1, leases it, and gives the right bytes', async () => {
  const { look, clock, engine, memory, cell } = await withStored([new GatedAdapter()], ['abcdef'])
  const lookup = look('abcdxy')
  expect(lookup.state).toBe('pending')
  await settle(clock)
  expect(lookup).toMatchObject({ state: 'final', hitChunks: 4, hitL2: 4, hitL1: 0, loadedTo: 4 })
  expect(holdsRightBytes(engine, memory, lookup)).toBe(true)
  expect([cell(0, 'hitObjects'), cell(0, 'loadSubmittedObjects'), cell(0, 'loadCompletedObjects')]).toEqual([4, 4, 4])
})

it('asks adapters in order, each only for what the faster ones lack', async () => {
  const fast = new GatedAdapter()
  const slow = new GatedAdapter()
  const setup = await withStored([fast, slow], ['abc', 'abcde'])
  await slow.inner.clear({}, new AbortController().signal)
  storeChain(setup.engine, setup.memory, setup.space, chainOf('abcde'))
  setup.clock.advance(20)
  await settle(setup.clock)
  setup.engine.l1.remove({ space: setup.space }, 'clear')
  await fast.inner.clear({}, new AbortController().signal)
  for (const adapter of [fast, slow]) adapter.calls.length = 0
  const lookup = setup.look('abcde')
  await settle(setup.clock)
  expect(lookup).toMatchObject({ state: 'final', hitL2: 5 })
  expect(fast.calls).toEqual(['lookup 5'])
  expect(slow.calls).toEqual(['lookup 5', 'load 4', 'load 1'])
})

it('shares one load between lookups that miss the same chunk, and counts it once', async () => {
  const adapter = new GatedAdapter('load')
  const { look, clock, cell, cells } = await withStored([adapter], ['abcd'])
  const lookups = [look('abcd'), look('abcd'), look('abcx')]
  await settle(clock)
  expect(cells.engine.get(0, 'activePrefetchJobs')).toBe(1)
  adapter.openGate()
  await settle(clock)
  expect(lookups.map(({ state, hitChunks }) => [state, hitChunks])).toEqual([
    ['final', 4],
    ['final', 4],
    ['final', 3],
  ])
  expect(adapter.calls).toEqual(['lookup 4', 'load 4', 'lookup 1']) // the last chunk of the third is its own
  expect(cell(0, 'loadSubmittedObjects')).toBe(4)
  expect(cells.engine.get(0, 'activePrefetchJobs')).toBe(0)
})

it('goes on alone for what the shared load did not ask for', async () => {
  const adapter = new GatedAdapter('load')
  const { look, clock } = await withStored([adapter], ['abcdef'])
  const short = look('ab')
  const long = look('abcdef')
  await settle(clock)
  expect(adapter.calls).toEqual(['lookup 2', 'load 2'])
  adapter.openGate()
  await settle(clock)
  expect(short).toMatchObject({ state: 'final', hitChunks: 2 })
  expect(long.state).toBe('pending')
  adapter.openGate()
  await settle(clock)
  expect(long).toMatchObject({ state: 'final', hitChunks: 6 })
  expect(adapter.calls.slice(2)).toEqual(['lookup 4', 'load 4'])
})

it('cancels a load only when the last lookup leaves it', async () => {
  const adapter = new GatedAdapter('load')
  const { look, clock, engine, cells } = await withStored([adapter], ['abcd'])
  const first = look('abcd')
  const second = look('abcd')
  await settle(clock)
  engine.release(first)
  expect(first.state).toBe('closed')
  expect(adapter.waiting[0]!.signal.aborted).toBe(false)
  engine.release(second)
  expect(adapter.waiting[0]!.signal.aborted).toBe(true)
  adapter.openGate()
  await settle(clock)
  expect(cells.engine.get(0, 'activePrefetchJobs')).toBe(0)
  engine.l1.verify()
})

it('loads anew for a lookup that comes while the load that everybody left still ends', async () => {
  const adapter = new GatedAdapter('load')
  const { look, clock, engine, memory, cells } = await withStored([adapter], ['abcd'])
  const left = look('abcd')
  await settle(clock)
  engine.release(left)
  const late = [look('abcd'), look('abcx')] // their client tries again at once
  adapter.openGate()
  await settle(clock)
  expect(late.map(({ state }) => state)).toEqual(['pending', 'pending'])
  adapter.openGate()
  await settle(clock)
  expect(late.map(({ state, hitL2 }) => [state, hitL2])).toEqual([
    ['final', 4],
    ['final', 3],
  ])
  expect(holdsRightBytes(engine, memory, late[0]!)).toBe(true)
  expect(cells.engine.get(0, 'activePrefetchJobs')).toBe(0)
  engine.l1.verify()
})

it('keeps the slots of a load that was given up until the adapter lets go of them', async () => {
  const adapter = new GatedAdapter('load')
  const { look, clock, engine, cells } = await withStored([adapter], ['abcd'])
  const lookup = look('abcd')
  await settle(clock)
  clock.advance(ADAPTER_LIMITS_DEFAULT.loadDeadlineMs + ADAPTER_LIMITS_DEFAULT.abandonAfterMs)
  await settle(clock)
  expect(lookup).toMatchObject({ hitChunks: 0 })
  expect(cells.l1.get(0, 'quarantinedBytes')).toBe(4 * KIB)
  adapter.openGate()
  await settle(clock)
  expect(cells.l1.get(0, 'quarantinedBytes')).toBe(0)
  engine.l1.verify()
})

it('counts l1_oom only when demand eviction cannot make room, and promises what it has', async () => {
  const { look, clock, cell, engine, space } = await withStored([new GatedAdapter()], ['abcdefg'], 8 * KIB)
  storeChain(engine, new Uint8Array(64 * KIB), space, chainOf('zyxw'))
  const blocker = look('zyxw') // leased: cannot be evicted
  const lookup = look('abcdefg')
  await settle(clock)
  expect(lookup).toMatchObject({ state: 'final', hitChunks: 4, hitL2: 4 })
  expect(cell(0, 'failureL1Oom')).toBe(3)
  expect(cell(0, 'hitObjects')).toBe(7)
  engine.release(blocker)
  engine.release(lookup)
})

it('finalises an abandoned lookup when its time is up, with what L1 had', async () => {
  const adapter = new GatedAdapter('lookup')
  const { look, clock, engine, memory, space, cells } = await withStored([adapter], ['abcd'])
  storeChain(engine, memory, space, chainOf('ab'))
  const lookup = look('abcd')
  await settle(clock)
  expect(cells.engineTenants.sum('lookups')).toBe(0)
  clock.advance(engine.options.leaseTtlMs + engine.options.sweepIntervalMs)
  await settle(clock)
  expect(lookup.state).toBe('closed')
  expect(cells.engineTenants.sum('lookups')).toBe(1)
  expect(cells.engineTenants.sum('hitTokensL1')).toBe(2 * engine.options.chunkTokens)
  expect(engine.pendingLookups).toBe(0)
})
