import type { CounterTable } from '../core/counters.ts'
import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import type { ChunkRefs } from './chunk-refs.ts'
import {
  ANCHORED,
  CHUNK_WORDS,
  FIRST_SHARD,
  GENERATION,
  GENERATION_MASK,
  HOLDS,
  INTERNAL_MAX,
  INTERNAL_ONE,
  LIVE,
  META,
  NO_CHUNK,
  TOUCH_MS,
  USE_KNOWN,
  USE_MS,
} from './chunk-table.ts'
import type { L1TenantField } from './l1-recorder.ts'
import { LateReaders } from './late-readers.ts'
import { ALL_RANKS, EXPIRED_READ, INTERNAL, type Leases, NO_LEASE_ROW, PIN, READ } from './leases.ts'
import type { Residency } from './residency.ts'
import { isRunEnd, RunHolds } from './run-holds.ts'
import { CHUNK, NEXT_SHARD, NO_SHARD, RANK_MASK, RANK_STATE, READABLE, SHARD_WORDS, SLOT } from './shard-table.ts'
import type { SlotList } from './slot-list.ts'

/**
 * The reading side of L1: leases on readable chunks.
 *
 *   read      a client's: holds the chunks, counts as their touch; letting go makes them the newest, tail first
 *   pin       holds the chunks and never expires; bounded in bytes
 *   internal  for copies to L2: keeps bytes in place, leaves the recency as it is (see holds.ts)
 *
 * An entry names a chunk (all its shards) or, in a lease made from references, one shard. A chunk that is removed
 * while leased stays readable for its leases, and for nobody else; one that was found altered, for nobody.
 *
 * Another process may copy from the slots of a read lease. It cannot be told to stop, so a lease that expires before
 * those copies end keeps its chunks: others find and read them as before, and no slot is used again. It gives nothing
 * out any more, and ends with the last copy.
 */
export class ReadLeases {
  readonly #residency: Residency
  readonly #leases: Leases
  readonly #scratch: Uint32Array
  readonly #readShards: number
  readonly #pinBytesMax: number
  readonly #quarantined: number
  readonly #late = new LateReaders()
  readonly #runs: RunHolds
  #pinnedBytes = 0
  #lastRun = 0

  constructor(
    residency: Residency,
    leases: Leases,
    scratch: Uint32Array,
    tenants: CounterTable<L1TenantField>,
    pinBytesMax: number,
    quarantinedColumn: number,
  ) {
    this.#residency = residency
    this.#leases = leases
    this.#scratch = scratch
    this.#readShards = tenants.column('readShards')
    this.#pinBytesMax = pinBytesMax
    this.#quarantined = quarantinedColumn
    this.#runs = new RunHolds(residency.table.words, residency.holds)
  }

  /** Bytes under pins; a chunk under two pins counts twice. */
  get pinnedBytes(): number {
    return this.#pinnedBytes
  }

  /** Chunks or shards that one more lease may name; 0 = there is none to be had. */
  get room(): number {
    return this.#leases.hasFreeRow ? this.#leases.freeEntries : 0
  }

  /** Chunks of the run that `openRun` found last. */
  get lastRun(): number {
    return this.#lastRun
  }

  /** See `L1Cache.lease`. */
  open(
    kind: number,
    space: SpaceId,
    chain: HashChain,
    from: number,
    to: number,
    owner: number,
    expiry: number,
  ): LeaseId {
    const residency = this.#residency
    const scratch = this.#scratch
    const spec = residency.spaces.spec(space)
    const count = to - from
    const bytes = count * spec.ranks * spec.shardBytes
    if (count <= 0 || count > this.#leases.freeEntries || !this.#leases.hasFreeRow) return NO_LEASE
    if (kind === PIN && this.#pinnedBytes + bytes > this.#pinBytesMax) return NO_LEASE
    const words = residency.table.words
    for (let at = 0; at < count; at += 1) {
      const id = residency.findComplete(space, chain.words, (from + at) * HASH_WORDS, spec.ranks)
      if (id === NO_CHUNK) return NO_LEASE
      if (kind === INTERNAL && words[id * CHUNK_WORDS + GENERATION]! >>> 24 === INTERNAL_MAX) return NO_LEASE
      scratch[at] = id
    }
    const row = this.#take(kind, space, from, count, owner, expiry)
    if (kind === PIN) {
      this.#pinnedBytes += bytes
      this.#leases.tag[row] = bytes
    }
    return this.#leases.idOf(row)
  }

  /** See `LeaseRuns.lease`. */
  openRun(space: SpaceId, chain: HashChain, from: number, to: number, owner: number, expiry: number): LeaseId {
    const residency = this.#residency
    const scratch = this.#scratch
    const { ranks } = residency.spaces.spec(space)
    let run = 0
    for (let last = NO_CHUNK; from + run < to; run += 1) {
      const guess = last === NO_CHUNK ? NO_CHUNK : last + 1
      const id = residency.findComplete(space, chain.words, (from + run) * HASH_WORDS, ranks, guess)
      if (id === NO_CHUNK) break
      last = id
      if (run < scratch.length) scratch[run] = id
    }
    this.#lastRun = run
    if (run === 0 || run > this.#leases.freeEntries || !this.#leases.hasFreeRow) return NO_LEASE
    return this.#leases.idOf(this.#take(READ, space, from, run, owner, expiry))
  }

  /** A lease on the chunks in the scratch, for which there is room. @returns its row. */
  #take(kind: number, space: SpaceId, from: number, count: number, owner: number, expiry: number): number {
    const residency = this.#residency
    const scratch = this.#scratch
    const { tenant, ranks } = residency.spaces.spec(space)
    if (kind === READ) residency.slots.noteRead(count)
    const row = this.#leases.open(kind, space, ALL_RANKS, from, owner, expiry)
    this.#appendRuns(row, count)
    residency.slots.begin(kind, scratch, count)
    if (kind === INTERNAL) for (let at = 0; at < count; at += 1) this.#addInternal(scratch[at]!)
    else this.#runs.hold(scratch, count)
    if (kind === READ) for (let at = 0; at < count; at += 1) this.#touch(scratch[at]!, tenant, ranks)
    return row
  }

  /** The chunks in the scratch, as entries: those whose records follow each other share one. */
  #appendRuns(row: number, count: number): void {
    const scratch = this.#scratch
    for (let start = 0, at = 1; at <= count; at += 1) {
      if (at < count && scratch[at]! === scratch[at - 1]! + 1) continue
      this.#leases.appendRun(row, scratch[start]!, at - start)
      start = at
    }
  }

  /** See `L1Cache.leaseRefs`. */
  openRefs(refs: ChunkRefs, from: number, to: number, rank: number, expiry: number, present: Uint8Array): LeaseId {
    const words = this.#residency.table.words
    present.fill(0, 0, to - from)
    if (to - from > this.#leases.freeEntries || !this.#leases.hasFreeRow) return NO_LEASE
    let row = NO_LEASE_ROW
    for (let at = from; at < to; at += 1) {
      const id = refs.id[at]!
      const shard = this.#shardOfRef(id, refs.generation[at]!, rank)
      if (shard !== NO_SHARD) {
        if (row === NO_LEASE_ROW) {
          const space = this.#residency.spaceOf(id)
          row = this.#leases.open(INTERNAL, space, rank, from, 0, expiry)
          for (let before = from; before < at; before += 1) this.#leases.append(row, 0)
        }
        present[at - from] = 1
        this.#residency.arena.hold(this.#residency.shards.words[shard * SHARD_WORDS + SLOT]!)
        words[id * CHUNK_WORDS + GENERATION] = words[id * CHUNK_WORDS + GENERATION]! + INTERNAL_ONE
      }
      if (row !== NO_LEASE_ROW) this.#leases.append(row, shard)
    }
    return row === NO_LEASE_ROW ? NO_LEASE : this.#leases.idOf(row)
  }

  /** See `L1Cache.beginCopy`. Of an open read lease. */
  beginCopy(row: number): void {
    this.#leases.tag[row]! += 1
  }

  /** See `L1Cache.endCopy`. Of a read lease, expired or not. */
  endCopy(row: number): void {
    const copies = Math.max(0, this.#leases.tag[row]! - 1)
    this.#leases.tag[row] = copies
    if (copies === 0 && this.#leases.kind[row] === EXPIRED_READ) this.close(row)
  }

  /** The time of an open lease is up: ends it, or sets it aside while its slots are copied from. */
  expire(row: number): void {
    if (this.#leases.kind[row] === READ && this.#leases.tag[row]! > 0) this.#quarantine(row)
    else this.close(row)
  }

  /** Takes over a read lease of an earlier engine, whose chunks are LIVE or DOOMED, as expired and copied from. */
  restore(row: number, copies: number): void {
    const { table, holds } = this.#residency
    const scratch = this.#scratch
    const count = this.#leases.entries(row, scratch)
    for (let entry = 0; entry < count; entry += 1) {
      const id = scratch[entry]!
      if (!isRunEnd(table.words, scratch, entry, count)) continue
      if (this.#residency.stateOf(id) === LIVE) holds.hold(id)
      else table.words[id * CHUNK_WORDS + HOLDS] = table.words[id * CHUNK_WORDS + HOLDS]! + 1
    }
    this.#leases.tag[row] = copies
    this.#quarantine(row)
  }

  /** Ends a read (expired or not), internal or pin lease. */
  close(row: number): void {
    const residency = this.#residency
    const scratch = this.#scratch
    const kind = this.#leases.kind[row]!
    const isWhole = this.#leases.rank[row] === ALL_RANKS
    const count = this.#leases.entries(row, scratch)
    if (kind === EXPIRED_READ) this.#countLate(row, -this.#late.remove(scratch, count))
    if (kind === PIN) this.#pinnedBytes -= this.#leases.tag[row]!
    this.#leases.close(row)
    if (!isWhole) {
      this.#closeRefs(count)
      return
    }
    residency.slots.end(kind, scratch, count)
    if (kind === INTERNAL) for (let entry = count - 1; entry >= 0; entry -= 1) this.#dropInternal(scratch[entry]!)
    else this.#runs.drop(scratch, count)
  }

  /** Lets go of the shards in the scratch. */
  #closeRefs(count: number): void {
    const { arena, shards } = this.#residency
    for (let entry = count - 1; entry >= 0; entry -= 1) {
      const shard = this.#scratch[entry]! * SHARD_WORDS
      if (shard === NO_SHARD) continue
      arena.unhold(shards.words[shard + SLOT]!)
      this.#dropInternal(shards.words[shard + CHUNK]!)
    }
  }

  /** See `L1Cache.slots`. */
  slots(row: number, rank: number, from: number, to: number, out: SlotList): boolean {
    const { shards, arena } = this.#residency
    const first = this.#leases.first[row]!
    const isWhole = this.#leases.rank[row] === ALL_RANKS
    const count = this.#leases.entries(row, this.#scratch)
    if (from < first || to > first + count) return false
    if (isWhole && this.#isAltered(from - first, to - first)) return false
    for (let index = from; index < to; index += 1) {
      const reference = this.#scratch[index - first]!
      let shard = isWhole ? this.#firstShard(reference) : reference
      while (shard !== NO_SHARD) {
        const at = shard * SHARD_WORDS
        const shardRank = shards.words[at + RANK_STATE]! & RANK_MASK
        if (rank < 0 || shardRank === rank) {
          const slot = shards.words[at + SLOT]!
          out.push(index, shardRank, arena.offsetOf(slot), arena.lengthOf(slot))
        }
        shard = isWhole ? shards.words[at + NEXT_SHARD]! : NO_SHARD
      }
    }
    return true
  }

  /** See `L1Cache.served`. */
  served(row: number, from: number, to: number, rank: number): number {
    const residency = this.#residency
    const first = this.#leases.first[row]!
    const space = this.#leases.space[row] as SpaceId
    const spec = residency.spaces.spec(space)
    const count = this.#leases.entries(row, this.#scratch)
    const start = Math.max(from, first)
    const end = Math.min(to, first + count)
    if (this.#leases.rank[row] !== ALL_RANKS || end <= start) return 0
    if (this.#isAltered(start - first, end - first)) return 0
    if (rank <= 0)
      for (let at = start - first; at < end - first; at += 1) this.#use(this.#scratch[at]!, spec.tenant, space)
    const served = (end - start) * (rank < 0 ? spec.ranks : 1)
    residency.recorder.addTenant(spec.tenant, this.#readShards, served)
    return served
  }

  /** A client got a chunk. */
  #use(id: number, tenant: number, space: SpaceId): void {
    const { recorder, table } = this.#residency
    const words = table.words
    const record = id * CHUNK_WORDS
    const isKnown = (words[record + META]! & USE_KNOWN) !== 0
    if (isKnown) {
      if (recorder.isSampled(words, record)) recorder.chunkReused(tenant, words[record + USE_MS]!)
      recorder.chunkRetrieved(tenant, space, words, record)
    }
    words[record + USE_MS] = recorder.stamp
    if (!isKnown) words[record + META] = words[record + META]! | USE_KNOWN
  }

  /** Whether one of the chunks [from, to) of the scratch was removed because its bytes were found altered. */
  #isAltered(from: number, to: number): boolean {
    const { altered } = this.#residency
    if (altered.size === 0) return false
    for (let at = from; at < to; at += 1) if (altered.has(this.#scratch[at]!)) return true
    return false
  }

  #quarantine(row: number): void {
    this.#countLate(row, this.#late.add(this.#scratch, this.#leases.entries(row, this.#scratch)))
    this.#leases.kind[row] = EXPIRED_READ
    this.#leases.setExpiry(row, Number.POSITIVE_INFINITY)
  }

  #countLate(row: number, chunks: number): void {
    const spec = this.#residency.spaces.spec(this.#leases.space[row] as SpaceId)
    this.#residency.recorder.addTotal(this.#quarantined, chunks * spec.ranks * spec.shardBytes)
  }

  #touch(id: number, tenant: number, ranks: number): void {
    const { table, recorder, policy } = this.#residency
    const words = table.words
    const record = id * CHUNK_WORDS
    if (recorder.isSampled(words, record)) {
      recorder.shardsTouched(tenant, words[record + TOUCH_MS]!, ranks)
    }
    words[record + TOUCH_MS] = recorder.stamp
    policy.touch(id)
  }

  /** The readable shard of a reference that still names a LIVE chunk, or NO_SHARD. */
  #shardOfRef(id: number, generation: number, rank: number): number {
    const { table, shards } = this.#residency
    const words = table.words
    const record = id * CHUNK_WORDS
    if (this.#residency.stateOf(id) !== LIVE || (words[record + GENERATION]! & GENERATION_MASK) !== generation) {
      return NO_SHARD
    }
    if (words[record + GENERATION]! >>> 24 === INTERNAL_MAX) return NO_SHARD
    const shard = shards.ofRank(words[record + FIRST_SHARD]!, rank)
    return shard !== NO_SHARD && shards.stateOf(shard) === READABLE ? shard : NO_SHARD
  }

  #addInternal(id: number): void {
    const at = id * CHUNK_WORDS + GENERATION
    this.#residency.table.words[at] = this.#residency.table.words[at]! + INTERNAL_ONE
  }

  #dropInternal(id: number): void {
    const words = this.#residency.table.words
    const record = id * CHUNK_WORDS
    const value = words[record + GENERATION]! - INTERNAL_ONE
    words[record + GENERATION] = value
    if (value >= INTERNAL_ONE || (words[record + META]! & ANCHORED) === 0) return
    words[record + META] = words[record + META]! & ~ANCHORED
    this.#residency.holds.drop(id)
  }

  #firstShard(id: number): number {
    return this.#residency.table.words[id * CHUNK_WORDS + FIRST_SHARD]!
  }
}
