import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import { within } from '../core/within.ts'
import { CHUNK_ASKED, CHUNK_STORED, L0_L1_LOADED, L0_L1_STORED } from '../events/catalogue.ts'
import { chunkTag, tagSample } from '../events/chunk-tag.ts'
import { SAMPLING_FIELDS } from '../events/counters.ts'
import { NO_SPAN, type Span, Tracer } from '../events/tracer.ts'
import type { ObservedL0 } from '../l0/observed-l0.ts'
import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { SlotList } from '../l1/slot-list.ts'
import type { AdapterSet } from '../l2/adapter-set.ts'
import type { MetricCells } from '../metrics/cells.ts'
import type { PrefetchTicket } from '../transfer/load-job.ts'
import type { Prefetcher } from '../transfer/prefetcher.ts'
import type { StoreController } from '../transfer/store-controller.ts'
import type { DevicePath } from './device-path.ts'
import { Lookup } from './lookup.ts'
import { LookupCounts } from './lookup-counts.ts'
import type { EngineOptions } from './options.ts'
import { PinTable } from './pins.ts'
import { type Session, SessionTable } from './sessions.ts'

/** What a model's chunks are, for one tenant and world size. */
export interface SpaceRequest {
  readonly model: string
  readonly salt: string
  /** World size. */
  readonly ranks: number
  /** Bytes of one rank's part of one chunk. */
  readonly shardBytes: number
  /** Fingerprint of the layout, up to 64 characters. */
  readonly layout: string
}

export interface EngineParts {
  readonly options: EngineOptions
  readonly clock: Clock
  readonly cells: MetricCells
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  readonly prefetcher: Prefetcher
  readonly stores: StoreController
  /** L0 managed by this engine; absent when the GPU belongs to others. */
  readonly device: DevicePath | null
  /** What others say of their L0. */
  readonly observed: ObservedL0
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/** Which tiers a lookup or clear is about. */
export interface TierChoice {
  readonly l0: boolean
  readonly l1: boolean
  readonly l2: boolean
}

const ALL_TIERS: TierChoice = { l0: true, l1: true, l2: true }
const ASKED_BELOW = SAMPLING_FIELDS.indexOf('askedBelow')
const USED_BELOW = SAMPLING_FIELDS.indexOf('usedBelow')
/** Stays empty. */
const NO_SLOTS = new SlotList(1)

/**
 * The engine as its servers see it: lookup, reserve, commit, retrieve, release, clear, pins and sessions over the
 * three tiers. Everything runs on the data thread and returns at once; only what L2 must answer comes later.
 * Counters of lookups are added when an answer is final (metrics.md).
 */
export class Engine {
  readonly options: EngineOptions
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  readonly stores: StoreController
  readonly prefetcher: Prefetcher
  readonly device: DevicePath | null
  readonly observed: ObservedL0
  readonly cells: MetricCells
  readonly pins: PinTable
  readonly sessions: SessionTable
  readonly tracer: Tracer
  readonly #clock: Clock
  readonly #pending = new Map<Lookup, PrefetchTicket>()
  readonly #committed = new ChunkRefs()
  readonly #counts: LookupCounts
  #askedChunks = 0

  constructor(parts: EngineParts) {
    this.options = parts.options
    this.#clock = parts.clock
    this.l1 = parts.l1
    this.adapters = parts.adapters
    this.stores = parts.stores
    this.prefetcher = parts.prefetcher
    this.device = parts.device
    this.observed = parts.observed
    this.cells = parts.cells
    this.tracer = parts.tracer ?? Tracer.off()
    this.pins = new PinTable(parts.l1, parts.clock)
    this.sessions = new SessionTable(parts.options.sessions, (session) => this.#endSession(session))
    this.#counts = new LookupCounts(this.cells, this.tracer)
  }

  /** Lookups that wait for L2. */
  get pendingLookups(): number {
    return this.#pending.size
  }

  /** The space of a tenant's chunks; idempotent. @throws CacheError LAYOUT_MISMATCH, BAD_REQUEST */
  openSpace(request: SpaceRequest): SpaceId {
    const { chunkTokens } = this.options
    const tenant = this.cells.tenants.tenantOf(request.model, request.salt)
    const space = this.l1.spaces.open({ ...request, chunkTokens, tenant })
    this.device?.openSpace(space)
    return space
  }

  /**
   * Asks the tiers for the leading run of `chain`. What L1 has is leased at once. The answer is final on return
   * unless L2 must be asked; then `onFinal` is called later, in the turn in which the loaded chunks were leased.
   *
   * @param span of the question, begun by the caller; ended here.
   */
  lookup(
    space: SpaceId,
    chain: HashChain,
    owner: number,
    onFinal?: (lookup: Lookup) => void,
    tiers: TierChoice = ALL_TIERS,
    span: Span = this.#counts.begin(),
  ): Lookup {
    const { leaseTtlMs } = this.options
    const lookup = new Lookup(space, chain, owner, this.#clock.nowMs() + leaseTtlMs, onFinal)
    lookup.span = span
    const count = chain.count
    this.#publishAsked(space, chain)
    this.stores.noteAsked(space, chain)
    const l0Run = tiers.l0 && this.device !== null ? this.device.residentRun(space, chain) : 0
    if (tiers.l1) {
      lookup.residentLease = this.l1.runs.lease(space, chain, 0, count, owner, leaseTtlMs)
      const run = this.l1.runs.chunks
      if (lookup.residentLease !== NO_LEASE) lookup.l1To = run
      if (run < count) this.l1.noteAsked(space, chain, run, count)
    }
    lookup.loadedTo = lookup.l1To
    lookup.hitL0 = l0Run
    const isAsking = tiers.l1 && tiers.l2 && Math.max(l0Run, lookup.l1To) < count && this.prefetcher.canStart()
    if (isAsking) this.#prefetch(lookup)
    else this.#finish(lookup)
    return lookup
  }

  /** Chunks of the leading run by tier, without lease, counter or touch. L2 is not asked. */
  peek(space: SpaceId, chain: HashChain): { hitL0: number; hitL1: number } {
    const l0Run = this.device?.residentRun(space, chain) ?? 0
    const l1Run = this.l1.residentRun(space, chain, 0, chain.count)
    return { hitL0: l0Run, hitL1: Math.max(0, l1Run - l0Run) }
  }

  /** Gives a final lookup's leases their full time again; false when one has expired. */
  renew(lookup: Lookup): boolean {
    const { leaseTtlMs } = this.options
    const isResidentHeld = lookup.residentLease === NO_LEASE || this.l1.renew(lookup.residentLease, leaseTtlMs)
    const isLoadedHeld = lookup.loadedLease === NO_LEASE || this.l1.renew(lookup.loadedLease, leaseTtlMs)
    if (isResidentHeld && isLoadedHeld) lookup.expiresMs = this.#clock.nowMs() + leaseTtlMs
    return isResidentHeld && isLoadedHeld
  }

  /**
   * Where the promised chunks of one rank (-1 = all) lie in the arena, in chain order.
   *
   * @returns false when a lease has expired, or bytes were found altered: it counts as a failed read.
   */
  slots(lookup: Lookup, rank: number, from: number, to: number, out: SlotList): boolean {
    assert(lookup.state === 'final', 'slots of a lookup that is not final')
    const { l1To, loadedTo, residentLease, loadedLease } = lookup
    const isResidentHeld = from >= l1To || this.l1.slots(residentLease, rank, from, Math.min(to, l1To), out)
    const isLoadedHeld =
      to <= l1To || this.l1.slots(loadedLease, rank, Math.max(from, l1To), Math.min(to, loadedTo), out)
    if (isResidentHeld && isLoadedHeld) return true
    const at = isResidentHeld ? Math.max(from, l1To) : from
    this.#countFailedRead(lookup.space, rank, to - from, isResidentHeld ? loadedLease : residentLease, at)
    return false
  }

  /**
   * The client has the bytes of chunks [from, to): counts them as loaded. Chunks whose lease has expired meanwhile
   * count as failed reads instead.
   *
   * @param rank the rank whose shards it has; -1 = all.
   * @returns shards served.
   */
  served(lookup: Lookup, from: number, to: number, rank = -1): number {
    const { l1To, loadedTo, residentLease, loadedLease, space } = lookup
    let shards = 0
    if (from < l1To) shards += this.servedLease(space, rank, residentLease, from, Math.min(to, l1To))
    if (to > l1To && loadedTo > l1To) {
      shards += this.servedLease(space, rank, loadedLease, Math.max(from, l1To), Math.min(to, loadedTo))
    }
    return shards
  }

  /** As `served`, for a lease outside any lookup: the shards of one rank (-1 = all) of its chunks [from, to). */
  servedLease(space: SpaceId, rank: number, lease: LeaseId, from: number, to: number): number {
    const shards = this.l1.served(lease, from, to, rank)
    if (shards === 0) this.#countFailedRead(space, rank, to - from, lease, from)
    else this.#counts.loaded(this.l1.spaces.spec(space).tenant, shards)
    return shards
  }

  /** Ends a lookup: releases what it holds, or leaves the load it waits for. Idempotent. */
  release(lookup: Lookup): void {
    if (lookup.state === 'pending') this.#giveUp(lookup)
    if (lookup.state === 'closed') return
    lookup.state = 'closed'
    if (lookup.loadedLease !== NO_LEASE) this.l1.release(lookup.loadedLease) // tail first
    if (lookup.residentLease !== NO_LEASE) this.l1.release(lookup.residentLease)
  }

  /** Reserves slots for a client's store; `grants` says which. NO_LEASE when nothing is wanted or there is no room. */
  reserve(
    space: SpaceId,
    rank: number,
    chain: HashChain,
    from: number,
    to: number,
    owner: number,
    grants: SlotList,
  ): LeaseId {
    return this.l1.reserve(space, rank, chain, from, to, owner, this.options.leaseTtlMs, 'store', grants)
  }

  /**
   * Makes a client's written chunks readable and sends them on their way to L2.
   *
   * @param span of the client's store, which those to L2 are a part of.
   * @returns shards that became readable; -1 when the lease is unknown or has expired.
   */
  commit(space: SpaceId, rank: number, lease: LeaseId, span: Span = NO_SPAN): number {
    const committed = this.#committed
    committed.clear()
    const shards = this.l1.commit(lease, null, committed)
    if (shards <= 0) return shards
    this.#publishStored(space, committed)
    this.stores.enqueue(space, rank, committed, span)
    return shards
  }

  /** A client copied this much between its GPU and L1 by itself: busy from the offer of the slots to its commit. */
  noteCopy(space: SpaceId, direction: 'store' | 'load', bytes: number, busySeconds: number): void {
    const { tenant } = this.l1.spaces.spec(space)
    const { copyTenants, bus } = this.cells
    copyTenants.add(tenant, direction === 'store' ? 'storeBytes' : 'loadBytes', bytes)
    copyTenants.add(tenant, direction === 'store' ? 'storeBusySeconds' : 'loadBusySeconds', busySeconds)
    if (busySeconds === 0) return
    bus.publish(direction === 'store' ? L0_L1_STORED : L0_L1_LOADED, tenant, this.#clock.nowMs(), bytes, busySeconds)
  }

  /**
   * Removes chunks of the tiers named, of one model, one (model, salt), or all. Leased ones are freed later; pins of
   * what leaves L1 end.
   */
  async clear(filter: { model?: string; salt?: string }, tiers: TierChoice): Promise<ClearCount> {
    if (filter.salt !== undefined && filter.model === undefined) {
      throw new CacheError('BAD_REQUEST', 'cache_salt is given without model: name the model too', { field: 'model' })
    }
    let l0Blocks = 0
    let l1Shards = 0
    for (let id = 0; id < this.l1.spaces.count; id += 1) {
      const space = id as SpaceId
      const spec = this.l1.spaces.spec(space)
      const isModel = filter.model === undefined || filter.model === spec.model
      const isSalt = filter.salt === undefined || filter.salt === spec.salt
      if (!isModel || !isSalt) continue
      if (tiers.l0) l0Blocks += this.device?.removeSpace(space) ?? 0
      if (tiers.l1) {
        this.pins.removeSpace(space)
        l1Shards += this.l1.remove({ space }, 'clear')
      }
    }
    const l2Objects = tiers.l2 ? await this.adapters.clear(filter) : 0
    return { l0Blocks, l1Shards, l2Objects }
  }

  /** Expires leases, and lookups whose client never came back. Run by the lease loop. */
  sweep(): void {
    this.l1.sweepLeases()
    const nowMs = this.#clock.nowMs()
    for (const lookup of this.#pending.keys()) if (lookup.expiresMs <= nowMs) this.release(lookup)
  }

  /** Takes no new lookups to L2, ends pending ones, and waits until stores are done or the time is up. */
  async drain(deadlineMs: number): Promise<void> {
    this.sessions.closeAll()
    for (const lookup of [...this.#pending.keys()]) this.release(lookup)
    this.prefetcher.cancelAll()
    await within(this.#clock, deadlineMs, this.stores.idle())
  }

  #prefetch(lookup: Lookup): void {
    const { space, chain, owner, l1To, span } = lookup
    const onDone = () => {
      this.#pending.delete(lookup)
      this.#leaseLoaded(lookup)
      this.#finish(lookup)
    }
    const ticket = this.prefetcher.start({ space, chain, from: l1To, to: chain.count, owner, span, onDone })
    this.#pending.set(lookup, ticket)
  }

  #leaseLoaded(lookup: Lookup): void {
    const { space, chain, owner, l1To } = lookup
    const run = this.l1.residentRun(space, chain, l1To, chain.count)
    if (run === 0) return
    const { leaseTtlMs } = this.options
    lookup.loadedLease = this.l1.lease(space, chain, l1To, l1To + run, 'read', owner, leaseTtlMs)
    if (lookup.loadedLease !== NO_LEASE) lookup.loadedTo = l1To + run
    lookup.expiresMs = this.#clock.nowMs() + leaseTtlMs
  }

  /** The client went away before L2 answered: final with what L0 and L1 had. */
  #giveUp(lookup: Lookup): void {
    this.#pending.get(lookup)?.leave()
    this.#pending.delete(lookup)
    this.#finish(lookup, true)
  }

  /** The moment in which a lookup counts. */
  #finish(lookup: Lookup, isGivenUp = false): void {
    const l0Run = lookup.hitL0
    lookup.hitL1 = Math.max(0, lookup.l1To - l0Run)
    lookup.hitL2 = Math.max(0, lookup.loadedTo - Math.max(lookup.l1To, l0Run))
    lookup.hitChunks = l0Run + lookup.hitL1 + lookup.hitL2
    lookup.state = 'final'
    this.#counts.finish(lookup, this.l1.spaces.spec(lookup.space), isGivenUp)
    lookup.tellFinal()
  }

  /** @param from a chunk that the lease was for. */
  #countFailedRead(space: SpaceId, rank: number, chunks: number, lease: LeaseId, from: number): void {
    const { ranks } = this.l1.spaces.spec(space)
    // A lease that is open and gives nothing out has a chunk of which the bytes were found altered.
    const isOpen = this.l1.slots(lease, rank, from, from, NO_SLOTS)
    this.l1.readFailed(space, rank < 0 ? chunks * ranks : chunks, isOpen ? 'checksum' : 'expired')
  }

  #endSession(session: Session): void {
    if (session.lookup !== null) this.release(session.lookup)
    this.l1.releaseOwner(session.owner)
  }

  /** Tail first, as the would-hit estimate wants it; chunks outside the sample are left out. */
  #publishAsked(space: SpaceId, chain: HashChain): void {
    const { tenant, ranks, shardBytes } = this.l1.spaces.spec(space)
    const { words, count } = chain
    const askedBelow = this.cells.sampling.values[ASKED_BELOW]!
    const nowMs = this.#clock.nowMs()
    for (let at = (count - 1) * HASH_WORDS; at >= 0; at -= HASH_WORDS) {
      if (tagSample(words[at]!, space) >= askedBelow) continue
      const tag = chunkTag(words[at]!, words[at + 1]!, space)
      this.cells.bus.enqueue(CHUNK_ASKED, tenant, nowMs, tag, ranks * shardBytes, this.#askedChunks)
    }
    this.cells.bus.flush()
    this.#askedChunks += count
  }

  #publishStored(space: SpaceId, committed: ChunkRefs): void {
    const { tenant } = this.l1.spaces.spec(space)
    const { queries } = this.l1
    const usedBelow = this.cells.sampling.values[USED_BELOW]!
    const nowMs = this.#clock.nowMs()
    for (let at = committed.count - 1; at >= 0; at -= 1) {
      const id = committed.id[at]!
      const word0 = queries.hashWord(id, 0)
      if (tagSample(word0, space) >= usedBelow) continue
      this.cells.bus.enqueue(CHUNK_STORED, tenant, nowMs, chunkTag(word0, queries.hashWord(id, 1), space))
    }
    this.cells.bus.flush()
  }
}

/** What a clear removed: L0 blocks, L1 shards, L2 objects. */
export interface ClearCount {
  readonly l0Blocks: number
  readonly l1Shards: number
  readonly l2Objects: number
}
