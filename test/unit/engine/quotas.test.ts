import { expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import { NO_LEASE } from '../../../src/core/ids.ts'
import { QUOTAS_MAX, type QuotaKeeper, type SaltQuota } from '../../../src/engine/quotas.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT as LIMITS } from '../../../src/l2/options.ts'
import { makeEngine, settle } from '../../support/engine.ts'
import { chainOf } from '../../support/l1.ts'

const SHARD = 64

class Kept implements QuotaKeeper {
  quotas: readonly SaltQuota[] = []
  failure: CacheError | undefined

  read(): SaltQuota[] {
    return [...this.quotas]
  }

  async write(quotas: readonly SaltQuota[]): Promise<void> {
    if (this.failure !== undefined) throw this.failure
    this.quotas = quotas
  }
}

async function setUp(options: { l1DefaultBytes?: number; l2DefaultBytes?: number; kept?: Kept } = {}) {
  const { l1DefaultBytes = 0, l2DefaultBytes = 0, kept = new Kept() } = options
  const quota = { l1DefaultBytes, l2DefaultBytes }
  const runtime = makeEngine({ seed: 1, quota })
  const { engine, quotas, clock, cells } = runtime
  quotas.keepIn(kept)
  const memory = new MemoryAdapter({ type: 'memory', capacityBytes: 0, keepBytes: true })
  await engine.adapters.add('near', memory, LIMITS)
  runtime.start()
  const grants = new SlotList()
  const put = async (salt: string, path: number[], model = 'm') => {
    const space = engine.openSpace({ model, salt, ranks: 1, shardBytes: SHARD, layout: 'x' })
    const chain = chainOf(path)
    const lease = engine.reserve(space, 0, chain, 0, chain.count, 7, grants)
    if (lease !== NO_LEASE) engine.commit(space, 0, lease)
    await settle(clock)
    return { granted: grants.count, run: () => engine.l1.residentRun(space, chain, 0, chain.count) }
  }
  return { ...runtime, engine, quotas, clock, cells, kept, memory, put }
}

it('gives unknown salts the default, and known ones their own quota, in both tiers', async () => {
  const { quotas, put, stop } = await setUp({ l1DefaultBytes: 2 * SHARD, l2DefaultBytes: 3 * SHARD })
  await quotas.set('big', { l1Bytes: 4 * SHARD, l2Bytes: 0 })
  expect((await put('small', [1, 1, 1])).granted).toBe(2)
  expect((await put('big', [1, 1, 1, 1, 1])).granted).toBe(4)
  await put('small', [2])
  await put('small', [3], 'another model')
  await put('big', [4, 4])
  expect(await quotas.report('small')).toMatchObject({ isOwn: false, l1Bytes: 128, l1UsageBytes: 128 })
  expect((await quotas.report('small')).l2Usage).toEqual([{ adapter: 'near', bytes: 3 * SHARD }])
  expect(await quotas.report('big')).toMatchObject({ isOwn: true, l1Bytes: 256, l1UsageBytes: 256, l2Bytes: 0 })
  expect((await quotas.report('big')).l2Usage).toEqual([{ adapter: 'near', bytes: 6 * SHARD }])
  expect(await quotas.report('nobody')).toMatchObject({ isOwn: false, l1Bytes: 128, l2Bytes: 192, l2Usage: [] })
  const { salts, leftOut } = await quotas.list(1)
  expect([salts.map(({ salt }) => salt), leftOut]).toEqual([['big'], 1])
  stop()
})

it('brings a salt under a lower quota at once in L2, and by the eviction loop in L1', async () => {
  const { engine, quotas, clock, cells, memory, put, stop } = await setUp()
  const first = await put('a', [1, 1, 1, 1])
  await put('b', [2, 2, 2])
  await quotas.set('a', { l1Bytes: 2 * SHARD, l2Bytes: SHARD })
  expect(memory.usage()).toMatchObject({ objects: 4, quotaEvictedObjects: 3, evictedObjects: 0 })
  expect(cells.l2.sum('quotaEvictedObjects')).toBe(3)
  clock.advance(200)
  await settle(clock)
  expect(first.run()).toBe(2)
  expect(cells.l1Tenants.sum('removedQuota')).toBe(2)
  expect(cells.l1Tenants.sum('evictedShards')).toBe(0)
  engine.l1.verify()
  const tenant = cells.tenants.tenantOf('m', 'a')
  expect(cells.engineTenants.get(tenant, 'l1QuotaBytes')).toBe(2 * SHARD)
  expect(cells.engineTenants.get(tenant, 'l2QuotaBytes')).toBe(SHARD)
  await quotas.refresh()
  const rows = cells.tenants.rows
  expect(cells.l2Tenants.get(tenant, 'usageBytes')).toBe(SHARD)
  expect(cells.l2Tenants.get((cells.tenants.tenantOf('m', 'b') % rows) + 0, 'usageBytes')).toBe(3 * SHARD)
  await quotas.set('a', undefined)
  expect(cells.engineTenants.get(tenant, 'l1QuotaBytes')).toBe(0)
  expect((await put('a', [1, 1, 1, 1])).granted).toBe(2)
  stop()
})

it('keeps quotas for the next start, where they hold before anything is stored', async () => {
  const first = await setUp()
  await first.quotas.set('a', { l1Bytes: SHARD, l2Bytes: SHARD })
  await first.quotas.set('b', { l1Bytes: SHARD, l2Bytes: undefined })
  await first.quotas.set('b', undefined)
  expect(await first.quotas.set('b', undefined)).toBe(false)
  expect(first.kept.quotas).toEqual([{ salt: 'a', l1Bytes: SHARD, l2Bytes: SHARD }])
  first.stop()
  const second = await setUp({ kept: first.kept })
  expect((await second.put('a', [1, 1, 1])).granted).toBe(1)
  expect((await second.put('b', [1, 1, 1])).granted).toBe(3)
  second.stop()
})

it('changes nothing when a quota cannot be kept', async () => {
  const { quotas, kept, put, stop } = await setUp()
  kept.failure = new CacheError('DATA_DIR_UNWRITABLE', 'full')
  await expect(quotas.set('a', { l1Bytes: SHARD, l2Bytes: undefined })).rejects.toThrow('full')
  expect((await quotas.report('a')).isOwn).toBe(false)
  expect((await put('a', [1, 1, 1])).granted).toBe(3)
  kept.failure = undefined
  expect(await quotas.set('a', { l1Bytes: SHARD, l2Bytes: undefined })).toBe(true)
  stop()
})

it('tells an adapter again what it did not take, also that a quota has ended', async () => {
  const { quotas, memory, put, clock, stop, errors } = await setUp()
  await put('a', [1, 1, 1])
  const take = memory.setQuotas.bind(memory)
  memory.setQuotas = () => Promise.reject(new CacheError('L2_UNAVAILABLE', 'down'))
  await quotas.set('a', { l1Bytes: undefined, l2Bytes: SHARD })
  expect([memory.usage().objects, errors.length]).toEqual([3, 1])
  memory.setQuotas = take
  clock.advance(1_000)
  quotas.sweep()
  await settle(clock)
  expect(memory.usage().objects).toBe(1)
  memory.setQuotas = () => Promise.reject(new CacheError('L2_UNAVAILABLE', 'down'))
  await quotas.set('a', undefined)
  memory.setQuotas = take
  clock.advance(1_000)
  quotas.sweep()
  await settle(clock)
  await put('a', [2, 2])
  expect(memory.usage().objects).toBe(3)
  stop()
})

it('has a bound of salts with a quota: one that has it may still change, and end', async () => {
  const kept = new Kept()
  kept.quotas = Array.from({ length: QUOTAS_MAX }, (_, at) => ({ salt: `s${at}`, l1Bytes: SHARD, l2Bytes: undefined }))
  const { quotas, stop } = await setUp({ kept })
  await expect(quotas.set('new', { l1Bytes: SHARD, l2Bytes: undefined })).rejects.toMatchObject({ code: 'NO_ROOM' })
  expect(await quotas.set('s7', { l1Bytes: 2 * SHARD, l2Bytes: undefined })).toBe(true)
  expect(await quotas.report('s7')).toMatchObject({ l1Bytes: 2 * SHARD })
  await quotas.set('s8', undefined)
  expect(await quotas.set('new', { l1Bytes: SHARD, l2Bytes: undefined })).toBe(true)
  stop()
})

it('lists the largest in L1 first, and salts of one size by name', async () => {
  const { quotas, put, stop } = await setUp()
  await put('b', [1])
  await put('large', [1, 1])
  await quotas.set('c', { l1Bytes: SHARD, l2Bytes: undefined })
  await put('a', [1])
  expect((await quotas.list(9)).salts.map(({ salt }) => salt)).toEqual(['large', 'a', 'b', 'c'])
  stop()
})

it('shows nothing in L2 of a tenant whose objects are gone', async () => {
  const { engine, quotas, cells, put, stop } = await setUp()
  await put('a', [1, 1])
  await put('b', [2])
  const usage = (salt: string) => {
    const row = engine.adapters.find('near')!.row * cells.tenants.rows + cells.tenants.find('m', salt)!
    return cells.l2Tenants.get(row, 'usageBytes')
  }
  await quotas.refresh()
  expect([usage('a'), usage('b')]).toEqual([2 * SHARD, SHARD])
  await engine.clear({ model: 'm', salt: 'a' }, { l0: false, l1: false, l2: true })
  await quotas.refresh()
  expect([usage('a'), usage('b')]).toEqual([0, SHARD])
  stop()
})
