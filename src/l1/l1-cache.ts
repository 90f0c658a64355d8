import { assert } from '../core/assert.ts'
import type { CounterTable } from '../core/counters.ts'
import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import type { LeaseId, SpaceId } from '../core/ids.ts'
import type { ChunkRefs } from './chunk-refs.ts'
import { GHOST, NO_CHUNK } from './chunk-table.ts'
import type { CopyLog } from './copy-log.ts'
import type { EvictionOrder } from './eviction-order.ts'
import type { KeySpaces } from './key-spaces.ts'
import { assembleL1, type L1Assembly } from './l1-assembly.ts'
import type { L1Parts } from './l1-parts.ts'
import { type L1Field, type L1Recorder, type L1TenantField, READ_FAILURES, type ReadFailure } from './l1-recorder.ts'
import { LeaseRuns } from './lease-runs.ts'
import { EXPIRED_READ, EXPIRED_WRITE, INTERNAL, type Leases, NO_LEASE_ROW, PIN, READ, WRITE } from './leases.ts'
import type { L1Options } from './options.ts'
import type { ReadLeases } from './read-leases.ts'
import { type Recovered, recover } from './recovery.ts'
import type { Survey } from './recovery-survey.ts'
import type { Removal, RemoveFilter } from './removal.ts'
import type { Reservations, ReservePurpose } from './reservations.ts'
import type { RemoveReason, Residency } from './residency.ts'
import type { ShardQueries } from './shard-queries.ts'
import type { ShardSums } from './shard-sums.ts'
import type { SlotList } from './slot-list.ts'
import { verifyCells, verifyL1 } from './verify-l1.ts'

export type { L1Parts } from './l1-parts.ts'
export type { RemoveFilter } from './removal.ts'
export type { ReservePurpose } from './reservations.ts'
export type { RemoveReason } from './residency.ts'

const KINDS = { read: READ, internal: INTERNAL, pin: PIN } as const
const EXPIRED_PER_SWEEP = 1024

/** What a lease on readable chunks is for; see read-leases.ts. */
export type ReadKind = keyof typeof KINDS

/**
 * The host-memory tier: which chunks are in the arena, who may read or write them, and which leave first.
 * It keeps no bytes itself; its answers are offsets. One thread, no promises, no allocation per chunk; the clock is
 * read once a call.
 *
 *              reserve                commit                   evictTo, demand of a reserve
 *   absent ------------> reserved ------------> readable ---------------------------------> ghost
 *     ^                   |   |                  |   ^ lease, release (client's: newest)      |
 *     |   abort, not OK   |   | lease expired    |   +---+  (also while expired and copied)   | forgotten, or
 *     +-------------------+   v                  |                                            | reserved again
 *     |             quarantined slots            | remove                                     |
 *     |                       | fence            v                                            |
 *     +-----------------------+--------- doomed until the last lease ends                     |
 *     +---------------------------------------------------------------------------------------+
 *
 * The parts: chunk-table.ts and shard-table.ts (records), holds.ts (what may leave, leaf first), policies/ (what
 * leaves next), residency.ts (how it leaves), reservations.ts and read-leases.ts, arena.ts (slots).
 */
export class L1Cache {
  readonly options: L1Options
  readonly spaces: KeySpaces
  /** Copies that other processes make. */
  readonly copies: CopyLog
  readonly sums: ShardSums
  readonly queries: ShardQueries
  readonly order: EvictionOrder
  readonly runs: LeaseRuns
  readonly #assembly: L1Assembly
  readonly #residency: Residency
  readonly #recorder: L1Recorder
  readonly #leases: Leases
  readonly #reservations: Reservations
  readonly #readers: ReadLeases
  readonly #removal: Removal
  readonly #tenants: CounterTable<L1TenantField>
  readonly #totals: CounterTable<L1Field>
  readonly #onPressure: (() => void) | undefined
  readonly #due = new Uint32Array(EXPIRED_PER_SWEEP)

  constructor(options: L1Options, parts: L1Parts) {
    this.options = options
    this.#tenants = parts.tenants
    this.#totals = parts.totals
    this.#onPressure = parts.onPressure
    const assembly = assembleL1(options, parts)
    this.#assembly = assembly
    ;({ spaces: this.spaces, copies: this.copies, sums: this.sums } = assembly)
    ;({ recorder: this.#recorder, residency: this.#residency, leases: this.#leases } = assembly)
    ;({ reservations: this.#reservations, readers: this.#readers } = assembly)
    ;({ queries: this.queries, order: this.order, removal: this.#removal } = assembly)
    this.runs = new LeaseRuns(this.#readers, this.#recorder)
  }

  /** Bytes of resident, reserved, quarantined and removed-but-leased slots. */
  get usageBytes(): number {
    return this.#recorder.usageBytes
  }

  /** The high watermark: usage at which the eviction loop trims. */
  get highBytes(): number {
    return this.options.evictionHighRatio * this.#residency.arena.usableBytes
  }

  /** Leases that are open or await their fence. */
  get openLeases(): number {
    return this.#leases.openCount
  }

  /** Bytes of the index's typed arrays, those of the arena aside. */
  get indexBytes(): number {
    const { table, shards, policy } = this.#residency
    return table.bytes + shards.bytes + policy.bytes
  }

  /** Takes over what a survey found in the tables; their key spaces are open, in the order they had. Once, and first. */
  recover(survey: Survey): Recovered {
    this.#recorder.tick()
    return recover(this.#assembly, survey)
  }

  /** Chunks of the leading run of [from, to) whose every shard is readable. Touches nothing. */
  residentRun(space: SpaceId, chain: HashChain, from: number, to: number): number {
    const residency = this.#residency
    const ranks = this.spaces.spec(space).ranks
    let index = from
    while (index < to && residency.findComplete(space, chain.words, index * HASH_WORDS, ranks) !== NO_CHUNK) index += 1
    return index - from
  }

  /** Tells that the absent chunks of [from, to) were asked for: ghosts among them are reported, once an eviction. */
  noteAsked(space: SpaceId, chain: HashChain, from: number, to: number): void {
    this.#recorder.tick()
    const { table } = this.#residency
    for (let index = from; index < to; index += 1) {
      const id = table.find(space, chain.words, index * HASH_WORDS)
      if (id !== NO_CHUNK && this.#residency.stateOf(id) === GHOST) this.#residency.seeGhost(id)
    }
    this.#recorder.endBatch()
  }

  /**
   * A lease on all shards of chunks [from, to). 'read' is a client's touch; 'internal' touches nothing; 'pin' never
   * expires (`ttlMs` is ignored) and is bounded by pinRatioMax.
   *
   * @param owner any number, for `releaseOwner`; 0 = nobody.
   * @returns NO_LEASE when a chunk is absent, or the lease table or the pin limit is full. Nothing is held then.
   */
  lease(
    space: SpaceId,
    chain: HashChain,
    from: number,
    to: number,
    kind: ReadKind,
    owner: number,
    ttlMs: number,
  ): LeaseId {
    assert(from >= 0 && to <= chain.count, 'lease out of range')
    this.#recorder.tick()
    const expiry = kind === 'pin' ? Number.POSITIVE_INFINITY : this.#recorder.timeMs + ttlMs
    const lease = this.#readers.open(KINDS[kind], space, chain, from, to, owner, expiry)
    this.#recorder.endBatch()
    return lease
  }

  /**
   * An internal lease on one rank's shards of those chunks refs[from, to) that are still resident.
   * Indices of this lease, in `slots`, are those of `refs`; absent chunks have no slot.
   *
   * @param present out, to - from bytes: present[i] = 1 when refs[from + i] is leased, else 0.
   * @returns NO_LEASE when none is, or the lease table is full.
   */
  leaseRefs(refs: ChunkRefs, from: number, to: number, rank: number, ttlMs: number, present: Uint8Array): LeaseId {
    this.#recorder.tick()
    return this.#readers.openRefs(refs, from, to, rank, this.#recorder.timeMs + ttlMs, present)
  }

  /**
   * A write lease on slots for those chunks of [from, to) whose shard of `rank` is neither resident nor being written.
   * The leading run only: it stops at the first chunk that gets no room even after demand eviction (the rest counts
   * as allocation failures), and grants nothing when the parent of chunk `from` lacks the shard.
   *
   * @param grants out: the slots, in chain order. The bytes are the caller's to write until the lease ends.
   * @returns NO_LEASE, with no grants, when nothing was granted.
   */
  reserve(
    space: SpaceId,
    rank: number,
    chain: HashChain,
    from: number,
    to: number,
    owner: number,
    ttlMs: number,
    during: ReservePurpose,
    grants: SlotList,
  ): LeaseId {
    this.#recorder.tick()
    const expiry = this.#recorder.timeMs + ttlMs
    const lease = this.#reservations.reserve(space, rank, chain, from, to, owner, expiry, during, grants)
    this.#recorder.endBatch()
    if (this.#reservations.evictedBytes > 0 || this.usageBytes >= this.highBytes) this.#onPressure?.()
    return lease
  }

  /**
   * Makes the shards of a write lease readable, and ends it. A shard whose outcome is not 0, or whose parent is not
   * readable for this rank, is freed instead. A late commit fences: the writer is done.
   *
   * @param outcomes by grant; absent = all 0.
   * @param committed out: references of the chunks that became readable, root first; appended.
   * @returns shards that became readable; -1 when the lease is unknown or expired.
   */
  commit(lease: LeaseId, outcomes: Uint8Array | null = null, committed: ChunkRefs | null = null): number {
    const row = this.#find(lease)
    if (row !== NO_LEASE_ROW && this.#leases.kind[row] === EXPIRED_WRITE) this.#reservations.fence(row)
    else if (row !== NO_LEASE_ROW && this.#leases.kind[row] === WRITE) {
      return this.#reservations.commit(row, outcomes, committed)
    }
    return -1
  }

  /** Frees the slots of a write lease at once, expired or not: the writer is done. False when unknown. */
  abort(lease: LeaseId): boolean {
    const row = this.#find(lease)
    const kind = row === NO_LEASE_ROW ? 0 : this.#leases.kind[row]!
    if (kind !== WRITE && kind !== EXPIRED_WRITE) return false
    this.#end(row)
    return true
  }

  /** Frees what an expired lease keeps: its writer, or its readers, are known to be done. False when there is nothing. */
  fence(lease: LeaseId): boolean {
    if (!this.isQuarantined(lease)) return false
    this.#end(this.#find(lease))
    return true
  }

  /**
   * Another process begins to copy from the slots of a read lease: from here on it does not let go of them by expiry
   * alone. Each call needs its `endCopy`.
   */
  beginCopy(lease: LeaseId): void {
    const row = this.#find(lease)
    if (row !== NO_LEASE_ROW && this.#leases.kind[row] === READ) this.#readers.beginCopy(row)
  }

  /** Such a copy is done. The last one of an expired lease ends it. */
  endCopy(lease: LeaseId): void {
    const row = this.#find(lease)
    const kind = row === NO_LEASE_ROW ? 0 : this.#leases.kind[row]!
    if (kind === READ || kind === EXPIRED_READ) this.#readers.endCopy(row)
  }

  /** Whether a lease has expired and keeps its slots for a writer or reader that may not be done. */
  isQuarantined(lease: LeaseId): boolean {
    const row = this.#find(lease)
    return row !== NO_LEASE_ROW && this.#leases.kind[row]! >= EXPIRED_WRITE
  }

  /** Sets the slots of a write lease aside, as if it had expired: their writer may still write. See `fence`. */
  quarantine(lease: LeaseId): void {
    const row = this.#find(lease)
    if (row !== NO_LEASE_ROW && this.#leases.kind[row] === WRITE) this.#reservations.quarantine(row)
  }

  /** Ends a read, internal or pin lease. False when it is unknown or expired. */
  release(lease: LeaseId): boolean {
    const row = this.#find(lease)
    if (row === NO_LEASE_ROW || this.#leases.kind[row]! >= WRITE) return false
    this.#readers.close(row)
    return true
  }

  /** Ends every lease of an owner, expired or not: reads are released, writes aborted or fenced. @returns how many. */
  releaseOwner(owner: number): number {
    this.#recorder.tick()
    let ended = 0
    for (let row = 0; row < this.#leases.endRow; row += 1) {
      if (this.#leases.kind[row] === 0 || this.#leases.owner[row] !== owner) continue
      this.#end(row)
      ended += 1
    }
    return ended
  }

  /** Moves the expiry of a lease to `ttlMs` from now. False when it is unknown or expired. */
  renew(lease: LeaseId, ttlMs: number): boolean {
    const row = this.#find(lease)
    if (row === NO_LEASE_ROW || this.#leases.kind[row]! >= EXPIRED_WRITE) return false
    if (this.#leases.kind[row] !== PIN) this.#leases.setExpiry(row, this.#recorder.timeMs + ttlMs)
    return true
  }

  /**
   * Where the bytes of leased chunks lie: appended to `out`, chunk by chunk.
   *
   * @param rank -1 = all ranks.
   * @param from chain indices, as they were leased.
   * @returns false, and appends nothing, when the lease has ended, is a write lease, does not cover [from, to), or
   * has a chunk there of which the bytes were found altered.
   */
  slots(lease: LeaseId, rank: number, from: number, to: number, out: SlotList): boolean {
    const row = this.#find(lease)
    if (row === NO_LEASE_ROW || this.#leases.kind[row]! >= WRITE) return false
    return this.#readers.slots(row, rank, from, to, out)
  }

  /**
   * Tells that a client got chunks [from, to) of its lease. A chunk's reuse is published once, with rank 0.
   *
   * @param rank the rank whose shards it got; -1 = all.
   * @returns shards counted; 0 when the lease has ended.
   */
  served(lease: LeaseId, from: number, to: number, rank = -1): number {
    const row = this.#find(lease)
    if (row === NO_LEASE_ROW || this.#leases.kind[row]! >= WRITE) return 0
    const shards = this.#readers.served(row, from, to, rank)
    this.#recorder.endBatch()
    return shards
  }

  /** Tells that promised shards could not be served. */
  readFailed(space: SpaceId, shards: number, reason: ReadFailure): void {
    this.#tenants.add(this.spaces.spec(space).tenant, READ_FAILURES[reason], shards)
  }

  /** Expires what is due, at most 1,024 leases a call. @returns how many. */
  sweepLeases(): number {
    this.#recorder.tick()
    const due = this.#leases.due(this.#recorder.timeMs, this.#due)
    for (let at = 0; at < due; at += 1) this.#expire(this.#due[at]!)
    return due
  }

  /** Whether a reservation had to evict since the last call. */
  takeDemand(): boolean {
    return this.#reservations.takeDemand()
  }

  /** Evicts by policy until usage is at most `targetBytes`, or `maxChunks` chunks left. @returns chunks evicted. */
  evictTo(targetBytes: number, maxChunks: number): number {
    this.#recorder.tick()
    const evicted = this.#removal.evictTo(targetBytes, maxChunks)
    this.#recorder.endBatch()
    return evicted
  }

  /**
   * Removes the least recent leaves of salts that are over their quota, until none is, or `maxChunks` are gone: after
   * a quota was lowered, or chunks were recovered under another. @returns chunks removed.
   */
  trimQuotas(maxChunks: number): number {
    const { salts } = this.spaces
    if (!salts.isUnchecked) return 0
    if (salts.hasLimits) this.#residency.policy.enable()
    this.#recorder.tick()
    const removed = this.#removal.trimSalts(maxChunks)
    this.#recorder.endBatch()
    return removed
  }

  /** Removes the chunk of a shard whose bytes are not those that were stored, and its descendants. */
  dropCorrupt(shard: number): void {
    this.#recorder.tick()
    this.#totals.add(0, 'checksumFailures', 1)
    this.#removal.removeAltered(shard)
    this.#recorder.endBatch()
  }

  /** Removes chunks and their descendants. They are unfindable at once. @returns readable shards removed. */
  remove(filter: RemoveFilter, reason: RemoveReason): number {
    this.#recorder.tick()
    const removed = this.#removal.remove(filter, reason)
    this.#recorder.endBatch()
    return removed
  }

  /** Checks the whole structure and every conservation law. For tests: it takes time in proportion to everything. */
  verify(): void {
    verifyCells(verifyL1(this.#residency, this.#leases), this.#tenants, this.#totals, this.#recorder.usageBytes)
  }

  /** The row of a lease that has not ended; one whose time has come expires here. Reads the clock. */
  #find(lease: LeaseId): number {
    this.#recorder.tick()
    const row = this.#leases.rowOf(lease)
    if (row === NO_LEASE_ROW || this.#leases.expiryMs[row]! > this.#recorder.timeMs) return row
    this.#expire(row)
    return this.#leases.rowOf(lease)
  }

  #end(row: number): void {
    const kind = this.#leases.kind[row]
    if (kind === WRITE) this.#reservations.abort(row)
    else if (kind === EXPIRED_WRITE) this.#reservations.fence(row)
    else this.#readers.close(row)
  }

  #expire(row: number): void {
    this.#totals.add(0, 'leasesExpired', 1)
    if (this.#leases.kind[row] === WRITE) this.#reservations.quarantine(row)
    else this.#readers.expire(row)
  }
}
