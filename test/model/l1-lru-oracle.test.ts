import { LRUCache } from 'lru-cache'
import { expect, it } from 'vitest'
import { type LeaseId, NO_LEASE } from '../../src/core/ids.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../support/l1.ts'
import { random } from '../support/random.ts'

const TTL = 1e9

interface Held {
  readonly lease: LeaseId
  /** Paths, as text, of the chunks that the lease names. */
  readonly keys: readonly string[]
}

/**
 * Leaf-first LRU in plain objects. A chunk is named by its path ("1/2/0"). Held = named by a lease, or an ancestor of
 * such a chunk. `order` holds the others, oldest first.
 */
class Oracle {
  readonly resident = new Set<string>()
  readonly leases = new Set<Held>()
  order: string[] = []

  isHeld(key: string): boolean {
    for (const lease of this.leases) {
      if (lease.keys.some((named) => named === key || named.startsWith(`${key}/`))) return true
    }
    return false
  }

  open(held: Held): void {
    this.leases.add(held)
    this.order = this.order.filter((key) => !this.isHeld(key))
  }

  /** Deeper chunks are let go first. A chunk that is not resident (an aborted write) is not listed. */
  close(held: Held): void {
    this.leases.delete(held)
    const freed = [...this.resident].filter((key) => !this.order.includes(key) && !this.isHeld(key))
    this.order.push(...freed.sort((a, b) => b.length - a.length))
  }

  /** An access without a lease: what is free on the path becomes newest, tail first. */
  touch(key: string): void {
    for (let at = key; at !== '' && !this.isHeld(at); at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) {
      this.order = [...this.order.filter((other) => other !== at), at]
    }
  }

  evict(): string | undefined {
    const key = this.order.shift()
    if (key !== undefined) this.resident.delete(key)
    return key
  }

  hasChild(key: string): boolean {
    return [...this.resident].some((other) => other.startsWith(`${key}/`))
  }
}

it.each([1, 2, 3, 4, 5, 6])('L1 evicts what a plain leaf-first LRU evicts (seed %i)', (seed) => {
  const capacity = 40
  const { cache, tenants } = makeL1({
    capacityBytes: capacity,
    extentBytes: capacity,
    ghostCapacityChunks: 10,
    leaseCapacity: 4096,
    leaseEntryCapacity: 32_768,
  })
  const space = openSpace(cache)
  const next = random(seed)
  const oracle = new Oracle()
  const readers: Held[] = []
  const writers: Held[] = []

  const keysOf = (path: number[]) => path.map((_, index) => path.slice(0, index + 1).join('/'))
  const takeAny = (list: Held[]): Held | undefined => list.splice(next(Math.max(1, list.length)), 1)[0]
  let unlisted = 0 // slots of chunks that are being written

  const reserve = () => {
    const path = Array.from({ length: 1 + next(7) }, () => next(3))
    const chain = chainOf(path)
    const keys = keysOf(path)
    const grants = new SlotList()
    const from = next(3) === 0 ? next(path.length) : 0
    const lease = cache.reserve(space, 0, chain, from, path.length, 1, TTL, 'store', grants)
    const granted = [...grants.chainIndex.subarray(0, grants.count)].map((index) => keys[index]!)
    expect(granted).toEqual(expectedGrants(keys, from))
    if (lease === NO_LEASE) return
    const held = { lease, keys: granted }
    unlisted += granted.length
    oracle.open(held)
    writers.push(held)
  }

  const isWritten = (key: string) => writers.some((writer) => writer.keys.includes(key))

  // The reservation as the oracle plays it: one chunk at a time, evicting the oldest free chunk when L1 is full.
  const expectedGrants = (keys: string[], from: number): string[] => {
    if (from > 0 && !oracle.resident.has(keys[from - 1]!) && !isWritten(keys[from - 1]!)) return []
    const granted: string[] = []
    const held = { lease: NO_LEASE, keys: granted }
    let last = from > 0 ? keys[from - 1]! : ''
    oracle.leases.add(held)
    for (const key of keys.slice(from)) {
      if (!oracle.resident.has(key) && !isWritten(key)) {
        granted.push(key)
        oracle.order = oracle.order.filter((other) => !oracle.isHeld(other))
        const isFull = oracle.resident.size + unlisted + granted.length > capacity
        if (isFull && oracle.evict() === undefined) {
          granted.pop()
          break
        }
      }
      last = key
    }
    oracle.leases.delete(held)
    const freed = [...oracle.resident].filter((key) => !oracle.order.includes(key) && !oracle.isHeld(key))
    if (granted.length === 0) {
      oracle.order.push(...freed.sort((a, b) => b.length - a.length))
      if (last !== '') oracle.touch(last)
    }
    return granted
  }

  const finishWrite = () => {
    const writer = takeAny(writers)
    if (writer === undefined) return
    unlisted -= writer.keys.length
    if (next(5) === 0) {
      expect(cache.abort(writer.lease)).toBe(true)
      oracle.close(writer)
      return
    }
    const readable = writer.keys.filter((key) => {
      const parent = key.slice(0, Math.max(0, key.lastIndexOf('/')))
      if (parent !== '' && !oracle.resident.has(parent)) return false
      oracle.resident.add(key)
      return true
    })
    expect(cache.commit(writer.lease)).toBe(readable.length)
    oracle.close(writer)
  }

  const read = () => {
    const path = Array.from({ length: 1 + next(7) }, () => next(3))
    const chain = chainOf(path)
    const run = cache.residentRun(space, chain, 0, path.length)
    const keys = keysOf(path)
    const expected = keys.findIndex((key) => !oracle.resident.has(key))
    expect(run).toBe(expected < 0 ? keys.length : expected)
    if (run === 0) return
    const from = next(2) === 0 ? 0 : next(run)
    const held = { lease: cache.lease(space, chain, from, run, 'read', 1, TTL), keys: keys.slice(from, run) }
    if (held.lease === NO_LEASE) return
    oracle.open(held)
    readers.push(held)
  }

  const release = () => {
    const reader = takeAny(readers)
    if (reader === undefined) return
    expect(cache.release(reader.lease)).toBe(true)
    oracle.close(reader)
  }

  const evict = () => {
    const key = oracle.evict()
    expect(cache.evictTo(0, 1)).toBe(key === undefined ? 0 : 1)
    if (key !== undefined) expect(oracle.hasChild(key)).toBe(false)
  }

  const steps = [reserve, reserve, finishWrite, finishWrite, read, read, release, release, evict]
  for (let step = 0; step < 4000; step += 1) {
    steps[next(steps.length)]!()
    cache.verify()
    const probe = [...oracle.resident][next(Math.max(1, oracle.resident.size))]
    if (probe !== undefined) {
      const path = probe.split('/').map(Number)
      expect(cache.residentRun(space, chainOf(path), 0, path.length)).toBe(path.length)
    }
    expect(cache.usageBytes).toBe(oracle.resident.size + unlisted)
  }
  expect(tenants.sum('evictedShards')).toBeGreaterThan(400)
})

it.each([1, 2, 3])('L1 holds what lru-cache holds on flat traffic (seed %i)', (seed) => {
  const capacity = 64
  const { cache } = makeL1({ capacityBytes: capacity, extentBytes: capacity, indexCapacityChunks: 512 })
  const space = openSpace(cache)
  const oracle = new LRUCache<number, true>({ max: capacity })
  const next = random(seed)
  const grants = new SlotList()
  for (let step = 0; step < 20_000; step += 1) {
    const name = Math.min(next(200), next(200))
    const chain = chainOf([name])
    expect(cache.residentRun(space, chain, 0, 1)).toBe(oracle.get(name) === undefined ? 0 : 1)
    const lease = cache.lease(space, chain, 0, 1, 'read', 1, TTL)
    if (lease !== NO_LEASE) cache.release(lease)
    else {
      cache.commit(cache.reserve(space, 0, chain, 0, 1, 1, TTL, 'store', grants))
      oracle.set(name, true)
    }
    if (step % 1000 === 0) cache.verify()
  }
})
