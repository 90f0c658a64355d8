import { expect, it } from 'vitest'
import { notReadyReasons } from '../../../src/engine/status.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../../support/engine.ts'
import { chainOf, holdsRightBytes, storeChain } from '../../support/engine-client.ts'
import { GatedAdapter } from '../../support/gated-adapter.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }

function started(options: Partial<Parameters<typeof makeEngine>[0]> = {}) {
  const setup = makeEngine({ seed: 1, ...options })
  const space = setup.engine.openSpace(SHARD)
  setup.start()
  const look = (letters: string) => setup.engine.lookup(space, chainOf(letters), setup.engine.sessions.nextOwner())
  const store = (letters: string) => storeChain(setup.engine, setup.memory!, space, chainOf(letters))
  return { ...setup, space, look, store }
}

it('counts a lookup when its answer is final: whole chunks asked, leading run hit, by tier', () => {
  const { store, look, cells, engine } = started()
  store('abc')
  const lookup = look('abxyz')
  expect(lookup).toMatchObject({ state: 'final', requestedChunks: 5, hitChunks: 2, hitL1: 2 })
  const { chunkTokens } = engine.options
  expect(cells.engineTenants.sum('requestedTokens')).toBe(5 * chunkTokens)
  expect(cells.engineTenants.sum('hitTokens')).toBe(2 * chunkTokens)
  expect(cells.engineTenants.sum('hitTokensL1')).toBe(2 * chunkTokens)
})

it('keeps what a lookup promised while it is leased, whatever else is stored', () => {
  const { store, look, engine, memory } = started({ l1: { capacityBytes: 8 * KIB } })
  store('abcd')
  const lookup = look('abcd')
  for (const letters of ['efgh', 'ijkl', 'mnop', 'qrst']) store(letters)
  expect(holdsRightBytes(engine, memory!, lookup)).toBe(true)
  engine.release(lookup)
  store('uvwx')
  store('yzAB')
  expect(look('abcd').hitChunks).toBe(0)
})

it('counts served shards as read from L1 and as loaded into service', () => {
  const { store, look, engine, cells } = started()
  store('abcd')
  const lookup = look('abcd')
  expect(engine.served(lookup, 0, 3)).toBe(3)
  expect(cells.l1Tenants.sum('readShards')).toBe(3)
  expect(cells.engineTenants.sum('loadedShards')).toBe(3)
  engine.release(lookup)
  expect(engine.served(lookup, 0, 3)).toBe(0)
})

it('lets a lease expire, and says so to who comes late', () => {
  const { store, look, engine, clock, cells } = started()
  store('ab')
  const lookup = look('ab')
  clock.advance(engine.options.leaseTtlMs - 1)
  expect(engine.renew(lookup)).toBe(true)
  expect(lookup.expiresMs).toBe(clock.nowMs() + engine.options.leaseTtlMs)
  clock.advance(engine.options.leaseTtlMs + 1)
  expect(engine.slots(lookup, 0, 0, 2, new SlotList())).toBe(false)
  expect(cells.l1Tenants.sum('readFailureExpired')).toBe(2)
  expect(engine.served(lookup, 0, 2)).toBe(0)
  expect(cells.l1Tenants.sum('readFailureExpired')).toBe(4)
  expect(engine.renew(lookup)).toBe(false)
})

it('gives up a lookup that waits for L2 when its time has come, not before', async () => {
  const { store, look, engine, clock } = started()
  store('ab')
  await engine.adapters.add('hangs', new GatedAdapter('lookup'), ADAPTER_LIMITS_DEFAULT)
  const lookup = look('abc')
  clock.advance(engine.options.leaseTtlMs - 1)
  expect([lookup.state, engine.pendingLookups]).toEqual(['pending', 1])
  clock.advance(1)
  expect([lookup.state, lookup.hitChunks, engine.pendingLookups]).toEqual(['closed', 2, 0])
})

it('keeps two salts and two models apart', () => {
  const { store, engine, memory } = started()
  store('abc')
  const salted = engine.openSpace({ ...SHARD, salt: 'other' })
  const other = engine.openSpace({ ...SHARD, model: 'n' })
  for (const space of [salted, other]) {
    expect(engine.lookup(space, chainOf('abc'), 1).hitChunks).toBe(0)
    storeChain(engine, memory!, space, chainOf('abc'))
    expect(engine.lookup(space, chainOf('abc'), 1).hitChunks).toBe(3)
  }
})

it('clears one tenant in all tiers and leaves the others', async () => {
  const { store, engine, memory, clock, look } = started()
  const adapter = new MemoryAdapter({ type: 'memory', capacityBytes: 0, keepBytes: true })
  await engine.adapters.add('mem', adapter, ADAPTER_LIMITS_DEFAULT)
  const salted = engine.openSpace({ ...SHARD, salt: 'other' })
  store('abc')
  storeChain(engine, memory!, salted, chainOf('xyz'))
  clock.advance(20)
  await settle(clock)
  const cleared = await engine.clear({ model: 'm', salt: '' }, { l0: true, l1: true, l2: true })
  expect(cleared).toEqual({ l0Blocks: 0, l1Shards: 3, l2Objects: 3 })
  const miss = look('abc')
  await settle(clock)
  expect(miss.hitChunks).toBe(0)
  expect(engine.lookup(salted, chainOf('xyz'), 1).hitChunks).toBe(3)
  await expect(engine.clear({ salt: 'other' }, { l0: true, l1: true, l2: true })).rejects.toMatchObject({
    code: 'BAD_REQUEST',
    detail: { field: 'model' },
  })
})

it('keeps pinned chunks until they are unpinned, within the pin limit', () => {
  const { store, look, engine, space } = started({ l1: { capacityBytes: 16 * KIB } })
  store('abcd')
  const pin = engine.pins.pin(space, chainOf('abcdxx'), 1)
  expect(pin).toMatchObject({ chunks: 4, bytes: 4 * KIB })
  for (const letters of ['efgh', 'ijkl', 'mnop', 'qrst', 'uvwx']) store(letters)
  expect(look('abcd').hitChunks).toBe(4)
  expect(engine.pins.pin(space, chainOf('uvwx'), 1)).toBe('over_limit')
  expect(engine.pins.pin(space, chainOf('nope'), 1)).toBe('nothing_resident')
  expect(engine.pins.unpin((pin as { id: string }).id)).toBe(true)
  expect(engine.pins.unpin((pin as { id: string }).id)).toBe(false)
})

it('closes the session used longest ago for a new one, and ends what it holds', () => {
  const { store, engine, space, look } = started()
  store('ab')
  const first = engine.sessions.open(space, 'request-0')
  first.lookup = engine.lookup(space, chainOf('ab'), first.owner)
  for (let serial = 1; serial <= 64; serial += 1) engine.sessions.open(space, `request-${serial}`)
  expect(first.lookup.state).toBe('closed')
  expect(engine.l1.openLeases).toBe(0)
  expect(look('ab').hitChunks).toBe(2)
})

it('serves L0, then L1: a hit counts under the fastest tier that has it', async () => {
  const { look, engine, clock, store, cells } = started({ l0Bytes: 16 * KIB })
  const path = engine.device!
  const first = path.begin(look('abcd'))
  expect(path.extend(first)).toBe(true)
  path.computed(first)
  const stored = Promise.withResolvers<number>()
  path.store(engine, first, stored.resolve)
  clock.advance(1_000)
  expect(await stored.promise).toBe(4)
  path.end(first)
  engine.release(first.lookup)
  store('abcdef')
  expect(look('abcdefg')).toMatchObject({ hitL0: 4, hitL1: 2, hitChunks: 6 })
  expect(cells.copyTenants.sum('storeBytes')).toBe(4 * KIB)
})

it('lets nobody find chunks on the device whose lease ended while they were copied up', () => {
  const { look, engine, clock, store } = started({ l0Bytes: 16 * KIB, l1: { capacityBytes: 8 * KIB } })
  const path = engine.device!
  store('abcd')
  const request = path.begin(look('abcd'))
  let fetched = -1
  path.fetch(engine, request, (chunks) => {
    fetched = chunks
  })
  engine.l1.renew(request.lookup.residentLease, 0) // its time is up before the copy ends
  engine.sweep()
  for (const letters of ['efgh', 'ijkl', 'mnop']) expect(store(letters)).toBe(4)
  clock.advance(1_000)
  expect(fetched).toBe(0)
  path.end(request)
  expect(look('abcd')).toMatchObject({ hitL0: 0, hitL1: 0 })
  path.blocks.verify()
})

it('promises nothing from a device that is lost, and goes on with L1', () => {
  const { look, engine, clock, store, device } = started({ l0Bytes: 16 * KIB })
  const path = engine.device!
  store('abcd')
  const request = path.begin(look('abcd'))
  let fetched = -1
  device!.inject({ atSubmit: 1, kind: 'lost' })
  path.fetch(engine, request, (chunks) => {
    fetched = chunks
  })
  clock.advance(1_000)
  expect(fetched).toBe(0)
  path.end(request)
  expect(look('abcd')).toMatchObject({ hitL0: 0, hitL1: 4 })
  expect(notReadyReasons(engine, clock.nowMs())).toEqual([expect.stringContaining('device is lost')])
})

it('is not ready while a loop stands still', () => {
  const { engine, clock, stop } = started()
  clock.advance(1_000)
  expect(notReadyReasons(engine, clock.nowMs())).toEqual([])
  stop()
  clock.advance(20_000)
  expect(notReadyReasons(engine, clock.nowMs()).length).toBeGreaterThan(0)
})
