import { expect, it } from 'vitest'
import { type LeaseId, NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import { L1_GHOST_SEEN, L1_SHARD_LEFT } from '../../src/events/catalogue.ts'
import type { EventType } from '../../src/events/define.ts'
import { ChunkRefs } from '../../src/l1/chunk-refs.ts'
import { L1_POLICIES } from '../../src/l1/options.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { chainOf, makeL1 } from '../support/l1.ts'
import { anyPath, type L1Shape, openSpaces, PARTED } from '../support/l1-shapes.ts'
import { random } from '../support/random.ts'

const STEPS = 1500
const TTL = 50

const SHAPES: readonly L1Shape[] = [
  {
    name: 'one rank, three salts',
    options: { capacityBytes: 40, extentBytes: 8 },
    spaces: [0, 1, 2].map((tenant) => ({ salt: `salt${tenant}`, ranks: 1, shardBytes: 1, tenant })),
  },
  {
    name: 'two ranks beside one, in two lengths',
    options: { capacityBytes: 96, extentBytes: 12, ghostCapacityChunks: 5 },
    spaces: [
      { salt: 'a', ranks: 2, shardBytes: 3, tenant: 0 },
      { salt: 'b', ranks: 1, shardBytes: 2, tenant: 1 },
      { salt: 'c', ranks: 2, shardBytes: 3, tenant: 2 },
    ],
  },
  {
    name: 'an index and lease tables that are too small',
    options: {
      capacityBytes: 40,
      extentBytes: 8,
      indexCapacityChunks: 24,
      indexCapacityShards: 20,
      ghostCapacityChunks: 8,
      leaseCapacity: 4,
      leaseEntryCapacity: 14,
    },
    spaces: [
      { salt: 'a', ranks: 2, shardBytes: 1, tenant: 0 },
      { salt: 'b', ranks: 1, shardBytes: 1, tenant: 1 },
    ],
  },
  {
    name: 'no ghosts, slots longer than an extent',
    options: { capacityBytes: 90, extentBytes: 3, ghostCapacityChunks: 0 },
    spaces: [
      { salt: 'a', ranks: 1, shardBytes: 5, tenant: 0 },
      { salt: 'b', ranks: 1, shardBytes: 2, tenant: 1 },
    ],
  },
  PARTED,
]

const CASES = SHAPES.flatMap((shape) =>
  (shape === PARTED ? (['lru'] as const) : L1_POLICIES).flatMap((policy) =>
    [1, 2, 3].map((seed) => ({ shape, policy, seed })),
  ),
)

it.each(CASES)('keeps every law and invariant: $shape.name, $policy, seed $seed', ({ shape, policy, seed }) => {
  const moved: [number, number, number][] = []
  const l1 = makeL1({ ...shape.options, policy }, { move: (from, to, bytes) => moved.push([from, to, bytes]) })
  const { cache, clock, tenants, totals, events } = l1
  const next = random(seed)
  const spaces = openSpaces(cache, shape)
  const readers: { lease: LeaseId; from: number; to: number }[] = []
  const writers: { lease: LeaseId; count: number }[] = []
  const copies: { lease: LeaseId }[] = []
  let lateReads = 0
  const refs = new ChunkRefs()
  const grants = new SlotList()
  const present = new Uint8Array(64)

  const anySpace = () => spaces[next(spaces.length)]!
  const takeAny = <T>(list: T[]): T | undefined => list.splice(next(Math.max(1, list.length)), 1)[0]

  const leftOf = (tenant: number): number =>
    tenants.get(tenant, 'evictedShards') +
    tenants.get(tenant, 'removedClear') +
    tenants.get(tenant, 'removedDelete') +
    tenants.get(tenant, 'removedQuota') +
    tenants.get(tenant, 'removedCorrupt')

  const reserve = (space: SpaceId, path: number[], from: number): void => {
    const rank = next(cache.spaces.spec(space).ranks)
    const before = tenants.sum('evictedShards')
    const during = next(2) === 0 ? 'store' : 'load'
    const shardBytes = cache.spaces.spec(space).shardBytes
    const usage = cache.usageBytes
    const lease = cache.reserve(space, rank, chainOf(path), from, path.length, next(3), TTL + next(TTL), during, grants)
    expect(lease === NO_LEASE).toBe(grants.count === 0)
    const evictedBytes = usage + grants.count * shardBytes - cache.usageBytes
    const extent = Math.max(shape.options.extentBytes!, ...shape.spaces.map((spec) => spec.ranks * spec.shardBytes))
    expect(evictedBytes).toBeLessThanOrEqual(2 * grants.totalBytes() + extent)
    expect(evictedBytes === 0).toBe(tenants.sum('evictedShards') === before)
    if (lease !== NO_LEASE) writers.push({ lease, count: grants.count })
  }

  const steps: (() => void)[] = [
    () => reserve(anySpace(), anyPath(next), 0),
    () => reserve(anySpace(), anyPath(next), 0),
    () => {
      const path = anyPath(next)
      reserve(anySpace(), path, next(path.length)) // an incremental store: the head is there, or it is not
    },
    () => {
      const writer = takeAny(writers)
      if (writer === undefined) return
      const outcomes = Uint8Array.from({ length: writer.count }, () => (next(8) === 0 ? 1 + next(4) : 0))
      const written = cache.commit(writer.lease, next(2) === 0 ? outcomes : null, refs)
      if (written >= 0) expect(cache.commit(writer.lease)).toBe(-1)
    },
    () => {
      const writer = takeAny(writers)
      if (writer !== undefined) cache.commit(writer.lease, null, refs)
    },
    () => {
      const writer = takeAny(writers)
      if (writer !== undefined && next(3) === 0) cache.abort(writer.lease)
      else if (writer !== undefined) writers.push(writer)
    },
    () => {
      const space = anySpace()
      const chain = chainOf(anyPath(next))
      const run = cache.residentRun(space, chain, 0, chain.count)
      cache.noteAsked(space, chain, run, chain.count)
      if (run === 0) return
      const from = next(run)
      const kind = (['read', 'read', 'internal', 'pin'] as const)[next(4)]!
      const lease = cache.lease(space, chain, from, run, kind, next(3), TTL + next(TTL))
      if (lease !== NO_LEASE) readers.push({ lease, from, to: run })
    },
    () => {
      const from = Math.max(0, refs.count - 1 - next(20))
      const to = Math.min(refs.count, from + 1 + next(5))
      const lease = cache.leaseRefs(refs, from, to, next(2), TTL, present)
      if (lease !== NO_LEASE) readers.push({ lease, from, to })
    },
    () => {
      const reader = takeAny(readers)
      if (reader === undefined) return
      const slots = new SlotList()
      const isOpen = cache.slots(reader.lease, -1, reader.from, reader.to, slots)
      expect(slots.count > 0).toBe(isOpen)
      const middle = reader.from + next(reader.to - reader.from + 1)
      cache.served(reader.lease, reader.from, middle) // a partial retrieve
      expect(cache.release(reader.lease)).toBe(isOpen)
      expect(cache.release(reader.lease)).toBe(false)
    },
    () => {
      const reader = readers[next(Math.max(1, readers.length))]
      if (reader !== undefined) cache.renew(reader.lease, next(2 * TTL))
    },
    () => {
      const space = anySpace()
      const chain = chainOf(anyPath(next))
      const run = cache.residentRun(space, chain, 0, chain.count)
      const lease = run === 0 ? NO_LEASE : cache.lease(space, chain, 0, run, 'read', next(3), TTL)
      for (let copy = next(3); lease !== NO_LEASE && copy >= 0; copy -= 1) {
        cache.beginCopy(lease)
        copies.push({ lease })
      }
    },
    () => {
      const copy = next(3) === 0 ? takeAny(copies) : undefined
      if (copy !== undefined && next(8) === 0) cache.fence(copy.lease)
      else if (copy !== undefined) cache.endCopy(copy.lease)
    },
    () => {
      clock.advance(next(TTL / 4))
      cache.sweepLeases()
    },
    () => clock.advance(next(TTL / 4)),
    () => {
      if (next(4) !== 0) return
      cache.releaseOwner(next(3))
    },
    () => {
      cache.evictTo(next(Math.ceil(cache.usageBytes) + 1), 1 + next(4))
    },
    () => {
      if (next(6) !== 0) return
      const path = anyPath(next)
      const from = next(path.length)
      const reason = (['delete', 'quota', 'corrupt'] as const)[next(3)]!
      const space = anySpace()
      cache.remove({ space, chain: chainOf(path), from, to: path.length }, reason)
      expect(cache.residentRun(space, chainOf(path), 0, path.length)).toBeLessThanOrEqual(from)
      expect(cache.queries.isReadable(space, 0, chainOf(path), from)).toBe(false)
    },
    () => {
      if (next(20) !== 0) return
      const at = next(spaces.length)
      cache.remove({ space: spaces[at]! }, 'clear')
      const { tenant, ranks, shardBytes } = shape.spaces[at]!
      expect(tenants.get(tenant, 'writeShards')).toBe(leftOf(tenant)) // nothing is resident any more
      expect(tenants.get(tenant, 'usageBytes') % shardBytes).toBe(0)
      for (let root = 0; root < 3; root += 1) {
        for (let rank = 0; rank < ranks; rank += 1) {
          expect(cache.queries.absent(spaces[at]!, rank, chainOf([root]), 0, 1)).toBe(1)
        }
      }
    },
  ]

  for (let step = 0; step < STEPS; step += 1) {
    steps[next(steps.length)]!()
    cache.verify()
    lateReads = Math.max(lateReads, totals.get(0, 'quarantinedReadBytes'))
  }
  for (const [from, to, bytes] of moved) expect(Math.abs(from - to)).toBeGreaterThanOrEqual(bytes)

  clock.advance(10 * TTL)
  cache.sweepLeases()
  for (const owner of [0, 1, 2]) cache.releaseOwner(owner)
  cache.verify()
  expect(totals.get(0, 'quarantinedBytes')).toBe(0)
  expect(totals.get(0, 'quarantinedReadBytes')).toBe(0)
  expect(lateReads).toBeGreaterThan(0)
  cache.evictTo(0, 1000)
  cache.verify()
  expect(cache.usageBytes).toBe(0)
  expect(tenants.sum('writeShards')).toBeGreaterThan(0)
  expect(tenants.sum('evictedShards')).toBeGreaterThan(0)
  const left = shape.spaces.reduce((sum, spec) => sum + leftOf(spec.tenant), 0)
  const told = (type: EventType) => events.named(type).reduce((sum, { values }) => sum + values.at(-1)!, 0)
  expect(told(L1_SHARD_LEFT)).toBe(left)
  expect(told(L1_GHOST_SEEN)).toBeLessThanOrEqual(tenants.sum('evictedShards'))
})
