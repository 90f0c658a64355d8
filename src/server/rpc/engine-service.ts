import type { Clock } from '../../core/clock.ts'
import { HashChain } from '../../core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../../core/ids.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Lookup } from '../../engine/lookup.ts'
import { checkModelName, checkSalt, type ModelRegistry, type RegisteredModel } from '../../engine/model-registry.ts'
import { peekTiers, type TierRun, type Warmed, warmPrefix } from '../../engine/prefix-tiers.ts'
import type { PromptHasher, PromptQuery } from '../../engine/prompt-hasher.ts'
import type { Quotas } from '../../engine/quotas.ts'
import { engineStatus, notReadyReasons, type StatusFacts } from '../../engine/status.ts'
import {
  LOOKUP_SPAN,
  outcomeOf,
  PEER_LOOKUP_SPAN,
  RETRIEVE_SPAN,
  SPAN_CANCELLED,
  SPAN_EXPIRED,
  SPAN_MISS,
  SPAN_OK,
  STORE_SPAN,
} from '../../events/span-kinds.ts'
import { NO_ROW, NO_SPAN } from '../../events/tracer.ts'
import { SlotList } from '../../l1/slot-list.ts'
import type {
  ClearAnswer,
  ClearFilter,
  EnginePort,
  EngineStatus,
  LateWorkerInfo,
  LookupAnswer,
  LookupQuery,
  ModelLayout,
  ModelMatch,
  PinAnswer,
  PinInfo,
  PrefetchAnswer,
  PromptOfModel,
  QuotaInfo,
  QuotaLimits,
  QuotaList,
  ReserveRefusal,
  ShardBatch,
  ShardRef,
  SlotLease,
} from '../http/engine-port.ts'
import { DeviceSharing } from './device-sharing.ts'
import { lookupAnswer, pinInfo, slotLease } from './engine-answers.ts'
import { type Held, HeldLeases } from './held-leases.ts'

export interface EngineServiceParts {
  readonly engine: Engine
  readonly models: ModelRegistry
  readonly hasher: PromptHasher
  readonly quotas: Quotas
  readonly clock: Clock
  readonly facts: StatusFacts
  /** What other servers say of themselves, by section of the status. */
  readonly servers?: () => Readonly<Record<string, unknown>>
  /** Slots of the MP wire's workers whose leases have expired. */
  readonly quarantine?: { list(): LateWorkerInfo[]; release(worker: string | null): LateWorkerInfo[] }
}

const NO_HIT: TierRun = { hitL0: 0, hitL1: 0, hitL2: 0 }
const NOTHING_WARMED: Warmed = { residentChunks: 0, loadedChunks: 0 }

/** The data thread's answer to the HTTP service: `EnginePort` over the engine. Ids on this side become opaque. */
export class EngineService extends DeviceSharing implements EnginePort {
  readonly #parts: EngineServiceParts
  readonly #held = new HeldLeases()
  readonly #slots = new SlotList()

  constructor(parts: EngineServiceParts) {
    super(parts)
    this.#parts = parts
  }

  /** Forgets the ids of expired leases. Run by the lease loop. */
  sweep(): void {
    this.#held.sweep(this.#parts.clock.nowMs(), (held) => this.#end(held))
    this.sweepSharing()
  }

  async registerModel({ model, shardBytes, ranks, layout }: ModelLayout): Promise<void> {
    this.#parts.models.register({ model, shardBytes, ranks, layout })
    this.#open({ model, shardBytes, ranks, layout }, '')
  }

  async models(): Promise<ModelLayout[]> {
    return this.#parts.models.list().map((model) => this.#layoutOf(model))
  }

  async findModel(model: string, ranks?: number): Promise<ModelMatch> {
    const known = this.#parts.models.find(model).filter((one) => ranks === undefined || one.ranks === ranks)
    if (known.length === 0) return { status: 'unknown' }
    if (known.length > 1) return { status: 'ambiguous', ranks: known.map((one) => one.ranks) }
    return { status: 'found', layout: this.#layoutOf(known[0]!) }
  }

  async lookup(query: LookupQuery): Promise<LookupAnswer> {
    const { engine, hasher } = this.#parts
    const space = this.#spaceOf(query.model, query.salt, query.ranks)
    const chain = new HashChain(0)
    const span = query.dryRun ? NO_SPAN : engine.tracer.remote(LOOKUP_SPAN, query.traceparent)
    await hasher.extend(chain, this.#promptOf(query, space))
    if (query.dryRun) {
      const hit = space === null ? NO_HIT : await peekTiers(engine, space, chain)
      return lookupAnswer(engine, chain, hit, null)
    }
    if (space === null) {
      engine.tracer.end(span, SPAN_MISS, NO_ROW, NO_ROW, chain.count, 0)
      return lookupAnswer(engine, chain, NO_HIT, null)
    }
    const owner = engine.sessions.nextOwner()
    const lookup = await new Promise<Lookup>((resolve) => engine.lookup(space, chain, owner, resolve, undefined, span))
    if (lookup.hitChunks === 0) {
      engine.release(lookup)
      return lookupAnswer(engine, chain, lookup, null)
    }
    const leaseId = this.#held.add({ kind: 'lookup', lookup, expiresMs: lookup.expiresMs })
    return lookupAnswer(engine, chain, lookup, leaseId)
  }

  async prefetch(query: PromptOfModel): Promise<PrefetchAnswer> {
    const { engine, hasher } = this.#parts
    const { chunkTokens } = engine.options
    const space = this.#spaceOf(query.model, query.salt, query.ranks)
    const chain = new HashChain(0)
    await hasher.extend(chain, this.#promptOf(query, space))
    const warmed = space === null ? NOTHING_WARMED : await warmPrefix(engine, space, chain)
    return {
      requestedTokens: chain.count * chunkTokens,
      residentTokens: warmed.residentChunks * chunkTokens,
      loadedTokens: warmed.loadedChunks * chunkTokens,
      chunkTokens,
    }
  }

  async releaseLease(leaseId: string): Promise<boolean> {
    const held = this.#held.take(leaseId)
    if (held === undefined) return false
    const isCurrent = held.expiresMs > this.#parts.clock.nowMs()
    this.#end(held)
    return isCurrent
  }

  async renewLease(leaseId: string): Promise<boolean> {
    const held = this.#held.find(leaseId)
    if (held === undefined) return false
    const { engine, clock } = this.#parts
    const { leaseTtlMs } = engine.options
    const isHeld = held.kind === 'lookup' ? engine.renew(held.lookup) : engine.l1.renew(held.lease, leaseTtlMs)
    if (isHeld) held.expiresMs = clock.nowMs() + leaseTtlMs
    return isHeld
  }

  async statShard(shard: ShardRef): Promise<{ status: 'hit'; length: number } | { status: 'miss' }> {
    const { l1 } = this.#parts.engine
    const space = l1.spaces.find(shard.model, shard.salt, shard.ranks)
    if (space === -1 || !l1.queries.isReadable(space, shard.rank, HashChain.of(shard.hash), 0))
      return { status: 'miss' }
    return { status: 'hit', length: l1.spaces.spec(space).shardBytes }
  }

  async statShards({ model, salt, ranks, rank, hashes }: ShardBatch, traceparent?: string): Promise<Uint8Array> {
    const { l1, tracer } = this.#parts.engine
    const span = traceparent === undefined ? NO_SPAN : tracer.remote(PEER_LOOKUP_SPAN, traceparent)
    const chain = HashChain.of(hashes)
    const space = l1.spaces.find(model, salt, ranks)
    const found = new Uint8Array(chain.count)
    let count = 0
    for (let index = 0; space !== -1 && index < chain.count; index += 1) {
      found[index] = l1.queries.isReadable(space, rank, chain, index) ? 1 : 0
      count += found[index]!
    }
    const tenant = space === -1 ? NO_ROW : l1.spaces.spec(space).tenant
    tracer.end(span, outcomeOf(count, chain.count), tenant, NO_ROW, chain.count, 0, count)
    return found
  }

  async leaseShard(shard: ShardRef, traceparent?: string): Promise<SlotLease | { status: 'miss' }> {
    const { engine, clock } = this.#parts
    const { leaseTtlMs } = engine.options
    const space = engine.l1.spaces.find(shard.model, shard.salt, shard.ranks)
    if (space === -1) return { status: 'miss' }
    const chain = HashChain.of(shard.hash)
    const lease = engine.l1.lease(space, chain, 0, 1, 'read', engine.sessions.nextOwner(), leaseTtlMs)
    this.#slots.clear()
    if (lease === NO_LEASE || !engine.l1.slots(lease, shard.rank, 0, 1, this.#slots)) return { status: 'miss' }
    const span = engine.tracer.remote(RETRIEVE_SPAN, traceparent)
    const expiresMs = clock.nowMs() + leaseTtlMs
    return slotLease(
      engine,
      this.#slots,
      this.#held.add({ kind: 'read', space, rank: shard.rank, lease, span, expiresMs }),
    )
  }

  async served(leaseId: string): Promise<boolean> {
    const held = this.#held.take(leaseId)
    if (held === undefined || held.kind === 'write') return false
    const { engine } = this.#parts
    if (held.kind === 'lookup') engine.served(held.lookup, 0, held.lookup.hitChunks)
    else {
      const shards = engine.servedLease(held.space, held.rank, held.lease, 0, 1)
      this.#endSpan(held, shards > 0 ? SPAN_OK : SPAN_EXPIRED)
    }
    this.#end(held)
    return true
  }

  async readExpired(shard: ShardRef): Promise<void> {
    const { l1 } = this.#parts.engine
    const space = l1.spaces.find(shard.model, shard.salt, shard.ranks)
    if (space !== -1) l1.readFailed(space, 1, 'expired')
  }

  async reserveShard(
    shard: ShardRef,
    parent: Uint8Array | null,
    traceparent?: string,
  ): Promise<SlotLease | ReserveRefusal> {
    const { engine, clock } = this.#parts
    const { l1 } = engine
    const space = this.#spaceOf(shard.model, shard.salt, shard.ranks)
    if (space === null) return { status: 'no_parent' }
    const isFirst = parent === null
    const chain = HashChain.of(isFirst ? shard.hash : Buffer.concat([parent, shard.hash]))
    const index = chain.count - 1
    if (l1.queries.isReadable(space, shard.rank, chain, index)) return { status: 'present' }
    if (!isFirst && !l1.queries.isReadable(space, shard.rank, chain, 0)) return { status: 'no_parent' }
    if (l1.queries.absent(space, shard.rank, chain, index, index + 1) === 0) return { status: 'busy' }
    this.#slots.clear()
    const owner = engine.sessions.nextOwner()
    const lease = engine.reserve(space, shard.rank, chain, index, index + 1, owner, this.#slots)
    if (lease === NO_LEASE) return { status: 'no_room' }
    const expiresMs = clock.nowMs() + engine.options.leaseTtlMs
    const span = engine.tracer.remote(STORE_SPAN, traceparent)
    return slotLease(
      engine,
      this.#slots,
      this.#held.add({ kind: 'write', space, rank: shard.rank, lease, span, expiresMs }),
    )
  }

  async commitShard(leaseId: string): Promise<'committed' | 'no_parent' | 'expired'> {
    const held = this.#held.take(leaseId)
    if (held === undefined || held.kind !== 'write') return 'expired'
    const shards = this.#parts.engine.commit(held.space, held.rank, held.lease, held.span)
    this.#endSpan(held, shards < 0 ? SPAN_EXPIRED : shards === 0 ? SPAN_MISS : SPAN_OK)
    if (shards < 0) this.#parts.engine.l1.fence(held.lease) // the writer has just said that it is done
    if (shards < 0) return 'expired'
    return shards === 0 ? 'no_parent' : 'committed'
  }

  async abortShard(leaseId: string): Promise<void> {
    const held = this.#held.take(leaseId)
    if (held?.kind === 'write') this.#end(held)
  }

  clear({ model, salt, tiers }: ClearFilter): Promise<ClearAnswer> {
    const filter = { ...(model === undefined ? {} : { model }), ...(salt === undefined ? {} : { salt }) }
    const choice = { l0: tiers.includes('l0'), l1: tiers.includes('l1'), l2: tiers.includes('l2') }
    return this.#parts.engine.clear(filter, choice)
  }

  async pin(query: PromptOfModel): Promise<PinAnswer> {
    const { engine, hasher } = this.#parts
    const space = engine.l1.spaces.find(query.model, query.salt, query.ranks)
    if (space === -1) return { status: 'nothing_resident' }
    const chain = new HashChain(0)
    await hasher.extend(chain, this.#promptOf(query, space))
    const pin = engine.pins.pin(space, chain, engine.sessions.nextOwner())
    if (typeof pin === 'string') return { status: pin }
    return { status: 'pinned', pin: pinInfo(engine, pin) }
  }

  #promptOf({ tokens }: { readonly tokens: Uint32Array }, space: SpaceId | null): PromptQuery {
    return { tokens, chunkTokens: this.#parts.engine.options.chunkTokens, space, asker: this }
  }

  async pins(): Promise<PinInfo[]> {
    return this.#parts.engine.pins.list().map((pin) => pinInfo(this.#parts.engine, pin))
  }

  async unpin(pinId: string): Promise<boolean> {
    return this.#parts.engine.pins.unpin(pinId)
  }

  async quarantine(): Promise<LateWorkerInfo[]> {
    return this.#parts.quarantine?.list() ?? []
  }

  async releaseQuarantine(worker: string | null): Promise<LateWorkerInfo[]> {
    return this.#parts.quarantine?.release(worker) ?? []
  }

  async quotas(countMax: number): Promise<QuotaList> {
    const { quotas } = this.#parts
    return { defaults: quotas.defaults, ...(await quotas.list(countMax)) }
  }

  async quota(salt: string): Promise<QuotaInfo> {
    checkSalt(salt)
    return this.#parts.quotas.report(salt)
  }

  async setQuota(salt: string, limits?: QuotaLimits): Promise<boolean> {
    checkSalt(salt)
    return this.#parts.quotas.set(salt, limits && { l1Bytes: limits.l1Bytes, l2Bytes: limits.l2Bytes })
  }

  async status(): Promise<EngineStatus> {
    const { engine, facts, servers } = this.#parts
    return {
      ...engineStatus(engine, facts),
      ...this.sharingStatus(),
      ...servers?.(),
    }
  }

  async readiness(): Promise<string[]> {
    return notReadyReasons(this.#parts.engine, this.#parts.clock.nowMs())
  }

  /** The space of a registered model, opened on demand; null when the model is not registered. */
  #spaceOf(model: string, salt: string, ranks: number): SpaceId | null {
    checkModelName(model)
    checkSalt(salt)
    const known = this.#parts.models.find(model).find((one) => one.ranks === ranks)
    return known === undefined ? null : this.#open(known, salt)
  }

  #open(model: RegisteredModel, salt: string): SpaceId {
    return this.#parts.engine.openSpace({ ...model, salt })
  }

  #layoutOf(model: RegisteredModel): ModelLayout {
    return { ...model, chunkTokens: this.#parts.engine.options.chunkTokens }
  }

  /** Ends a lease. The writer of a write lease has said that it is done. */
  #end(held: Held): void {
    const { engine } = this.#parts
    this.#endSpan(held, SPAN_CANCELLED)
    if (held.kind === 'lookup') engine.release(held.lookup)
    else if (held.kind === 'read') engine.l1.release(held.lease)
    else if (!engine.l1.abort(held.lease)) engine.l1.fence(held.lease)
  }

  /** Of the copy that a lease was for; the first end counts. */
  #endSpan(held: Held, outcome: number): void {
    if (held.kind === 'lookup' || held.span === NO_SPAN) return
    const { tracer, l1 } = this.#parts.engine
    const { tenant, shardBytes } = l1.spaces.spec(held.space)
    const done = outcome === SPAN_OK ? 1 : 0
    tracer.end(held.span, outcome, tenant, NO_ROW, 1, done * shardBytes, done)
  }
}
