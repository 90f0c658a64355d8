import { expect, it } from 'vitest'
import { type LeaseId, NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import { L1_POLICIES } from '../../src/l1/options.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../support/l1.ts'
import { random } from '../support/random.ts'

const STEPS = 1500
const TTL = 40
const SALTS = ['alice', 'bob', '']
const CASES = L1_POLICIES.flatMap((policy) => [1, 2, 3, 4].map((seed) => ({ policy, seed })))

it.each(CASES)('keeps each salt under its quota, at its own cost alone: $policy, seed $seed', ({ policy, seed }) => {
  const { cache, clock, tenants } = makeL1({ capacityBytes: 60, extentBytes: 6, policy })
  const { salts } = cache.spaces
  const next = random(seed)
  // Two models of each salt: a quota is of the salt, over all models.
  const spaces = SALTS.flatMap((salt, at) => [
    { salt, space: openSpace(cache, { model: 'one', salt, tenant: at }) },
    { salt, space: openSpace(cache, { model: 'two', salt, ranks: 2, shardBytes: 2, tenant: at }) },
  ])
  const limits = new Map<string, number>()
  let defaultBytes = Number.POSITIVE_INFINITY
  const limitOf = (salt: string) => limits.get(salt) ?? defaultBytes
  const held: LeaseId[] = []
  const grants = new SlotList()

  const store = ({ salt, space }: { salt: string; space: SpaceId }): void => {
    const path = Array.from({ length: 1 + next(5) }, () => next(4))
    const rank = next(cache.spaces.spec(space).ranks)
    const others = SALTS.filter((other) => other !== salt)
    const before = others.map((other) => salts.usageOf(other))
    const wasFull = cache.usageBytes > 40
    const usage = salts.usageOf(salt)
    const lease = cache.reserve(space, rank, chainOf(path), 0, path.length, 1, TTL, 'store', grants)
    if (lease !== NO_LEASE) expect(salts.usageOf(salt)).toBeLessThanOrEqual(Math.max(usage, limitOf(salt)))
    if (!wasFull) expect(others.map((other) => salts.usageOf(other))).toEqual(before)
    if (lease !== NO_LEASE && next(4) > 0) cache.commit(lease)
    else if (lease !== NO_LEASE) held.push(lease)
  }
  const read = ({ space }: { space: SpaceId }): void => {
    const chain = chainOf(Array.from({ length: 1 + next(5) }, () => next(4)))
    const run = cache.residentRun(space, chain, 0, chain.count)
    const lease = run === 0 ? NO_LEASE : cache.lease(space, chain, 0, run, next(3) === 0 ? 'internal' : 'read', 1, TTL)
    if (lease !== NO_LEASE) held.push(lease)
  }
  const anySpace = () => spaces[next(spaces.length)]!

  for (let step = 0; step < STEPS; step += 1) {
    const kind = next(12)
    if (kind < 6) store(anySpace())
    else if (kind < 8) read(anySpace())
    else if (kind < 9) {
      const lease = held.splice(next(Math.max(1, held.length)), 1)[0]
      if (lease !== undefined && !cache.release(lease)) cache.commit(lease)
    } else if (kind < 10) {
      clock.advance(next(TTL / 2))
      cache.sweepLeases()
      if (next(3) === 0) cache.releaseOwner(1)
    } else if (kind < 11) {
      const salt = SALTS[next(SALTS.length)]!
      const bytes = next(4) === 0 ? undefined : 3 + next(30)
      if (next(6) === 0) {
        defaultBytes = next(2) === 0 ? Number.POSITIVE_INFINITY : 10 + next(30)
        salts.setDefault(defaultBytes)
      } else {
        if (bytes === undefined) limits.delete(salt)
        else limits.set(salt, bytes)
        salts.setLimit(salt, bytes)
      }
    } else {
      cache.trimQuotas(1 + next(5))
    }
    cache.verify()
    for (const [at, salt] of SALTS.entries()) expect(salts.usageOf(salt)).toBe(tenants.get(at, 'usageBytes'))
  }
  expect(tenants.sum('removedQuota')).toBeGreaterThan(0)
  expect(tenants.sum('quotaRefusals')).toBeGreaterThan(0)

  // With every lease ended, trimming brings everybody under.
  cache.releaseOwner(1)
  clock.advance(10 * TTL)
  cache.sweepLeases()
  while (cache.trimQuotas(100) > 0) cache.verify()
  for (const salt of SALTS) expect(salts.usageOf(salt)).toBeLessThanOrEqual(limitOf(salt))
})

it('evicts the least recent leaf of the salt first, and refuses what no eviction makes room for', () => {
  const { cache, tenants } = makeL1({ capacityBytes: 60, extentBytes: 6 })
  const space = openSpace(cache, { salt: 'alice' })
  const other = openSpace(cache, { salt: 'bob', tenant: 1 })
  const grants = new SlotList()
  const put = (where: SpaceId, path: number[]) => {
    const lease = cache.reserve(where, 0, chainOf(path), 0, path.length, 0, TTL, 'store', grants)
    if (lease !== NO_LEASE) cache.commit(lease)
    return grants.count
  }
  const run = (path: number[]) => cache.residentRun(space, chainOf(path), 0, path.length)
  put(other, [9, 9]) // older than anything of alice, and not touched
  put(space, [1, 1])
  put(space, [2, 2])
  cache.spaces.salts.setLimit('alice', 4)
  expect(put(space, [3])).toBe(1)
  expect([run([1, 1]), run([2, 2]), run([3])]).toEqual([1, 2, 1]) // the leaf of the oldest chain went
  const lease = cache.lease(space, chainOf([2, 2]), 0, 2, 'read', 0, TTL)
  expect(put(space, [4, 4])).toBe(2)
  expect([run([1, 1]), run([2, 2]), run([3]), run([4, 4])]).toEqual([0, 2, 0, 2])
  const second = cache.lease(space, chainOf([4, 4]), 0, 2, 'read', 0, TTL)
  expect(put(space, [5])).toBe(0) // all is leased
  expect(tenants.get(0, 'quotaRefusals')).toBe(1)
  expect(tenants.get(0, 'removedQuota')).toBe(3)
  expect(tenants.get(0, 'evictedShards')).toBe(0)
  expect(tenants.get(1, 'usageBytes')).toBe(2)
  for (const one of [lease, second]) cache.release(one)
  cache.verify()
})
