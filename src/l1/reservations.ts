import { assert } from '../core/assert.ts'
import type { CounterTable } from '../core/counters.ts'
import type { HashChain } from '../core/hash-chain.ts'
import { HASH_WORDS } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import type { ChunkRefs } from './chunk-refs.ts'
import {
  CHILDREN,
  CHUNK_WORDS,
  FIRST_SHARD,
  GENERATION,
  GENERATION_MASK,
  GHOST,
  LIVE,
  META,
  NO_CHUNK,
  PARENT,
  READY_ONE,
  STATE_MASK,
  TOUCH_MS,
  USE_KNOWN,
  USE_MS,
} from './chunk-table.ts'
import type { OpenSpace } from './key-spaces.ts'
import type { L1Recorder, L1TenantField } from './l1-recorder.ts'
import { EXPIRED_WRITE, type Leases, NO_LEASE_ROW, WRITE } from './leases.ts'
import type { Residency } from './residency.ts'
import { CHUNK, NO_SHARD, QUARANTINED, READABLE, SHARD_WORDS, SLOT } from './shard-table.ts'
import type { SlotList } from './slot-list.ts'
import { ANY_PART } from './victims.ts'

/** What a reservation is for: bytes from a client, or bytes from L2. */
export type ReservePurpose = 'store' | 'load'
const FOR_STORE = 1
const FOR_LOAD = 2

/**
 * The writing side of L1: slots are reserved under a write lease, written by somebody else, and committed.
 *
 * A reservation grants a leading run. Where no slot is free it evicts on demand, one victim after the other, of
 * whatever size class is oldest; `Arena.reclaim` then moves extents between classes. Bytes evicted by one call stay
 * within twice the bytes it granted plus one extent (or one chunk, if that is longer: a chunk leaves as a whole).
 * Not reached in one call is reached by the next, for what was freed stays free.
 */
export class Reservations {
  readonly #residency: Residency
  readonly #recorder: L1Recorder
  readonly #leases: Leases
  readonly #scratch: Uint32Array
  readonly #classOf: number[] = [] // by space, once asked
  readonly #writeShards: number
  readonly #failureStore: number
  readonly #failureLoad: number
  readonly #quotaRefusals: number
  readonly #quarantined: number
  readonly #onReadable: ((id: number, generation: number, rank: number) => void) | undefined
  // The reservation at hand.
  #evictedBytes = 0
  #allowedBytes = 0
  #hasEvicted = false

  /** @param scratch room for the entries of one lease; shared with the other parts of the cache. */
  constructor(
    residency: Residency,
    leases: Leases,
    scratch: Uint32Array,
    tenants: CounterTable<L1TenantField>,
    quarantinedColumn: number,
    onReadable?: (id: number, generation: number, rank: number) => void,
  ) {
    this.#residency = residency
    this.#onReadable = onReadable
    this.#recorder = residency.recorder
    this.#leases = leases
    this.#scratch = scratch
    this.#writeShards = tenants.column('writeShards')
    this.#failureStore = tenants.column('allocationFailureStore')
    this.#failureLoad = tenants.column('allocationFailureLoad')
    this.#quotaRefusals = tenants.column('quotaRefusals')
    this.#quarantined = quarantinedColumn
  }

  /** Bytes that the last `reserve` evicted. */
  get evictedBytes(): number {
    return this.#evictedBytes
  }

  /** See `L1Cache.takeDemand`. */
  takeDemand(): boolean {
    const hasEvicted = this.#hasEvicted
    this.#hasEvicted = false
    return hasEvicted
  }

  /** See `L1Cache.reserve`. */
  reserve(
    space: SpaceId,
    rank: number,
    chain: HashChain,
    from: number,
    to: number,
    owner: number,
    expiryMs: number,
    purpose: ReservePurpose,
    grants: SlotList,
  ): LeaseId {
    const residency = this.#residency
    const spec = residency.spaces.spec(space)
    assert(rank >= 0 && rank < spec.ranks && from >= 0 && to <= chain.count, 'reservation out of range')
    grants.clear()
    this.#evictedBytes = 0
    this.#allowedBytes = Math.max(residency.arena.extentBytes, spec.shardBytes)
    let parent = from === 0 ? NO_CHUNK : residency.findLive(space, chain.words, (from - 1) * HASH_WORDS)
    if (from > 0 && (parent === NO_CHUNK || this.#shardOf(parent, rank) === NO_SHARD)) return NO_LEASE
    const cls = this.#sizeClass(space, spec)
    let row = NO_LEASE_ROW
    let index = from
    for (; index < to; index += 1) {
      const id = residency.table.find(space, chain.words, index * HASH_WORDS)
      const isGhost = id !== NO_CHUNK && residency.stateOf(id) === GHOST
      if (id !== NO_CHUNK && !isGhost && this.#shardOf(id, rank) !== NO_SHARD) {
        parent = id
        continue
      }
      if (row === NO_LEASE_ROW) {
        if (cls < 0 || !this.#leases.hasFreeRow) break
        row = this.#leases.open(WRITE, space, rank, from, owner, expiryMs)
      }
      const chunk = this.#grant(id, isGhost, parent, space, spec, rank, chain, index, cls, row)
      if (chunk === NO_CHUNK) break
      const slot = residency.shards.words[this.#shardOf(chunk, rank) * SHARD_WORDS + SLOT]!
      grants.push(index, rank, residency.arena.offsetOf(slot), spec.shardBytes)
      this.#allowedBytes += 2 * spec.shardBytes
      parent = chunk
    }
    if (index < to) {
      this.#recorder.addTenant(spec.tenant, purpose === 'store' ? this.#failureStore : this.#failureLoad, to - index)
    }
    if (grants.count > 0) {
      this.#leases.tag[row] = purpose === 'store' ? FOR_STORE : FOR_LOAD // last: nobody was told of it before
      return this.#leases.idOf(row)
    }
    if (row !== NO_LEASE_ROW) this.#leases.close(row)
    if (parent !== NO_CHUNK) residency.holds.touch(parent)
    return NO_LEASE
  }

  /** See `L1Cache.commit`. `row` is that of an open write lease. */
  commit(row: number, outcomes: Uint8Array | null, committed: ChunkRefs | null): number {
    const words = this.#residency.table.words
    const spec = this.#residency.spaces.spec(this.#leases.space[row] as SpaceId)
    const rank = this.#leases.rank[row]!
    const isStore = this.#leases.tag[row] === FOR_STORE
    const stamp = this.#recorder.stamp
    const count = this.#leases.entries(row, this.#scratch)
    let written = 0
    for (let entry = 0; entry < count; entry += 1) {
      const shard = this.#scratch[entry]!
      const shards = this.#residency.shards
      const id = shards.words[shard * SHARD_WORDS + CHUNK]!
      const record = id * CHUNK_WORDS
      this.#scratch[entry] = id
      this.#residency.arena.unhold(shards.words[shard * SHARD_WORDS + SLOT]!)
      if ((outcomes !== null && outcomes[entry] !== 0) || !this.#mayBeRead(id, rank)) {
        this.#residency.unlinkShard(shard)
        this.#residency.freeShard(shard, spec)
        continue
      }
      shards.setState(shard, READABLE)
      words[record + META] = words[record + META]! + READY_ONE
      words[record + TOUCH_MS] = stamp
      if (isStore) {
        words[record + USE_MS] = stamp
        words[record + META] = words[record + META]! | USE_KNOWN
      }
      this.#onReadable?.(id, words[record + GENERATION]! & GENERATION_MASK, rank)
      committed?.push(id, words[record + GENERATION]! & GENERATION_MASK)
      written += 1
    }
    this.#recorder.addTenant(spec.tenant, this.#writeShards, written)
    this.#leases.close(row)
    for (let entry = count - 1; entry >= 0; entry -= 1) this.#residency.holds.drop(this.#scratch[entry]!)
    return written
  }

  /** Frees the slots of an open write lease, and ends it. */
  abort(row: number): void {
    const spec = this.#residency.spaces.spec(this.#leases.space[row] as SpaceId)
    const count = this.#leases.entries(row, this.#scratch)
    for (let entry = count - 1; entry >= 0; entry -= 1) {
      const shard = this.#scratch[entry]!
      const id = this.#residency.shards.words[shard * SHARD_WORDS + CHUNK]!
      this.#residency.arena.unhold(this.#residency.shards.words[shard * SHARD_WORDS + SLOT]!)
      this.#residency.unlinkShard(shard)
      this.#residency.freeShard(shard, spec)
      this.#residency.holds.drop(id)
    }
    this.#leases.close(row)
  }

  /** Takes the slots of an expired write lease out of their chunks: their writer may still write. */
  quarantine(row: number): void {
    const shards = this.#residency.shards
    const spec = this.#residency.spaces.spec(this.#leases.space[row] as SpaceId)
    const count = this.#leases.entries(row, this.#scratch)
    for (let entry = count - 1; entry >= 0; entry -= 1) {
      const shard = this.#scratch[entry]!
      const id = shards.words[shard * SHARD_WORDS + CHUNK]!
      this.#residency.unlinkShard(shard)
      shards.setState(shard, QUARANTINED)
      shards.words[shard * SHARD_WORDS + CHUNK] = NO_CHUNK
      this.#residency.holds.drop(id)
    }
    this.#recorder.addTotal(this.#quarantined, count * spec.shardBytes)
    this.#leases.kind[row] = EXPIRED_WRITE
    this.#leases.setExpiry(row, Number.POSITIVE_INFINITY)
  }

  /** Frees what `quarantine` kept: the writer is known to be done. */
  fence(row: number): void {
    const shards = this.#residency.shards
    const spec = this.#residency.spaces.spec(this.#leases.space[row] as SpaceId)
    const count = this.#leases.entries(row, this.#scratch)
    for (let entry = 0; entry < count; entry += 1) {
      const shard = this.#scratch[entry]!
      if (shard === NO_SHARD) continue
      this.#residency.arena.unhold(shards.words[shard * SHARD_WORDS + SLOT]!)
      this.#residency.freeShard(shard, spec)
      this.#recorder.addTotal(this.#quarantined, -spec.shardBytes)
    }
    this.#leases.close(row)
  }

  /** Takes over an expired write lease of an earlier engine, whose shards are quarantined. */
  restore(row: number): void {
    const spec = this.#residency.spaces.spec(this.#leases.space[row] as SpaceId)
    const count = this.#leases.entries(row, this.#scratch)
    for (let entry = 0; entry < count; entry += 1) {
      const shard = this.#scratch[entry]!
      if (shard === NO_SHARD) continue
      this.#residency.arena.hold(this.#residency.shards.words[shard * SHARD_WORDS + SLOT]!)
      this.#recorder.addUsage(spec, spec.shardBytes)
      this.#recorder.addTotal(this.#quarantined, spec.shardBytes)
    }
  }

  /**
   * Grants one shard: a chunk record (new, former ghost, or one that other ranks made), a shard record and a slot.
   * Each may take eviction. The new hold comes first, so that nothing of this chain can be the victim.
   *
   * @param row of the lease that gets the shard.
   * @returns the chunk, or NO_CHUNK with everything undone.
   */
  #grant(
    found: number,
    isGhost: boolean,
    parent: number,
    space: SpaceId,
    spec: OpenSpace,
    rank: number,
    chain: HashChain,
    index: number,
    cls: number,
    row: number,
  ): number {
    const residency = this.#residency
    if (this.#leases.freeEntries === 0) return NO_CHUNK
    const isBorn = found === NO_CHUNK || isGhost
    const id = isBorn ? this.#bear(found, parent, space, chain, index) : found
    if (id === NO_CHUNK) return NO_CHUNK
    if (!isBorn) residency.holds.hold(id)
    if (!this.#fitsQuota(spec)) {
      residency.holds.drop(id)
      return NO_CHUNK
    }
    let shard = residency.shards.allocate(id, rank, this.#recorder.stamp)
    if (shard === NO_SHARD && this.#evictOne(ANY_PART))
      shard = residency.shards.allocate(id, rank, this.#recorder.stamp)
    if (shard !== NO_SHARD) {
      while (!residency.placeShard(shard, cls, spec)) {
        if (residency.reclaim(cls) || this.#evictOne(spec.part)) continue
        residency.shards.free(shard)
        shard = NO_SHARD
        break
      }
    }
    if (shard === NO_SHARD) {
      residency.holds.drop(id)
      return NO_CHUNK
    }
    residency.linkShard(id, shard)
    this.#leases.append(row, shard)
    return id
  }

  /** A LIVE chunk with one hold, from a ghost or a free record; NO_CHUNK when the index stays full. */
  #bear(ghost: number, parent: number, space: SpaceId, chain: HashChain, index: number): number {
    const { table, holds } = this.#residency
    const words = table.words
    let id = ghost
    if (ghost !== NO_CHUNK) {
      this.#residency.seeGhost(ghost)
      table.fromGhost(ghost)
    } else {
      id = table.insert(space, chain.words, index * HASH_WORDS)
      if (id === NO_CHUNK) id = this.#insertByForce(parent, space, chain, index)
      if (id === NO_CHUNK) return NO_CHUNK
    }
    words[id * CHUNK_WORDS + TOUCH_MS] = this.#recorder.stamp
    holds.bear(id, parent)
    if (parent !== NO_CHUNK) words[parent * CHUNK_WORDS + CHILDREN] = words[parent * CHUNK_WORDS + CHILDREN]! + 1
    return id
  }

  /** A record taken from a ghost or a victim. The parent is held meanwhile, so that it is not the victim. */
  #insertByForce(parent: number, space: SpaceId, chain: HashChain, index: number): number {
    const { table, holds } = this.#residency
    if (parent !== NO_CHUNK) holds.hold(parent)
    let id = NO_CHUNK
    while (id === NO_CHUNK && (this.#residency.dropOldestGhost() || this.#evictOne(ANY_PART))) {
      id = table.insert(space, chain.words, index * HASH_WORDS)
    }
    if (parent !== NO_CHUNK) holds.drop(parent)
    return id
  }

  /**
   * Makes room for one more shard under the quota of its salt, at the cost of that salt alone. False when what may
   * leave does not do; the reason is counted.
   */
  #fitsQuota(spec: OpenSpace): boolean {
    const { salts } = this.#residency.spaces
    const limitBytes = salts.limitBytes(spec.saltRow) - spec.shardBytes
    while (salts.usageBytes(spec.saltRow) > limitBytes) {
      const id = limitBytes < 0 ? NO_CHUNK : this.#residency.victims.ofSalt(spec.saltRow)
      if (id === NO_CHUNK || !this.#mayEvict(id)) {
        this.#recorder.addTenant(spec.tenant, this.#quotaRefusals, 1)
        return false
      }
      const usageBytes = this.#recorder.usageBytes
      this.#residency.remove(id, 'quota')
      this.#evictedBytes += usageBytes - this.#recorder.usageBytes
    }
    return true
  }

  /** Evicts a victim of the part within the bound of this reservation. */
  #evictOne(part: number): boolean {
    const id = this.#residency.victims.next(part)
    if (id === NO_CHUNK || !this.#mayEvict(id)) return false
    this.#evictedBytes += this.#residency.evict(id)
    this.#hasEvicted = true
    return true
  }

  #mayEvict(id: number): boolean {
    const bytes = this.#residency.bytesOf(id)
    return this.#evictedBytes === 0 || this.#evictedBytes + bytes <= this.#allowedBytes
  }

  /** A shard becomes readable only under a parent that is, for the same rank. */
  #mayBeRead(id: number, rank: number): boolean {
    const words = this.#residency.table.words
    const record = id * CHUNK_WORDS
    if ((words[record + META]! & STATE_MASK) !== LIVE) return false
    const parent = words[record + PARENT]!
    if (parent === NO_CHUNK) return true
    const shard = this.#shardOf(parent, rank)
    return shard !== NO_SHARD && this.#residency.shards.stateOf(shard) === READABLE
  }

  #shardOf(id: number, rank: number): number {
    return this.#residency.shards.ofRank(this.#residency.table.words[id * CHUNK_WORDS + FIRST_SHARD]!, rank)
  }

  #sizeClass(space: SpaceId, { shardBytes, part }: OpenSpace): number {
    let cls = this.#classOf[space]
    if (cls === undefined) {
      cls = this.#residency.arena.classOf(shardBytes, part)
      this.#classOf[space] = cls
    }
    return cls
  }
}
