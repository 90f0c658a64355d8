import { createHash } from 'node:crypto'
import { CacheError } from '../../src/core/errors.ts'
import type {
  BorrowerInfo,
  ClearFilter,
  EnginePort,
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
} from '../../src/server/http/engine-port.ts'

const CHUNK_TOKENS = 4

/**
 * A port double for unit tests of the HTTP layer: a map of shards over one small arena, with leases that never expire
 * unless told to. It is no engine: no eviction, no chain hash, no tiers. Every change to its state counts.
 */
export class EngineDouble implements EnginePort {
  readonly arena: Uint8Array<ArrayBuffer>
  readonly layouts: ModelLayout[] = []
  readonly shards = new Map<string, { offset: number; length: number }>()
  readonly leases = new Map<string, { kind: 'read' | 'write'; key: string; parent: string | null }>()
  readonly heldPins: PinInfo[] = []
  readonly ownQuotas = new Map<string, QuotaLimits>()
  reasons: string[] = []
  late: LateWorkerInfo[] = []
  /** Set to make the next calls fail or hang. */
  failure: Error | undefined
  isSilent = false
  areLeasesExpired = false
  ttlMs = 30_000
  changes = 0
  servedLeases = 0
  expiredReads = 0
  renewals = 0
  #nextOffset = 0
  #nextId = 1

  constructor(arenaBytes = 1 << 20) {
    this.arena = new Uint8Array(arenaBytes)
  }

  async quotas(countMax: number): Promise<QuotaList> {
    await this.#answer()
    const all = [...this.ownQuotas.keys()].map((salt) => this.#quotaOf(salt))
    const defaults = { l1DefaultBytes: 0, l2DefaultBytes: 0 }
    return { defaults, salts: all.slice(0, countMax), leftOut: Math.max(0, all.length - countMax) }
  }

  async quota(salt: string): Promise<QuotaInfo> {
    await this.#answer()
    return this.#quotaOf(salt)
  }

  async setQuota(salt: string, limits?: QuotaLimits): Promise<boolean> {
    await this.#answer()
    if (limits === undefined && !this.ownQuotas.has(salt)) return false
    this.changes += 1
    if (limits === undefined) this.ownQuotas.delete(salt)
    else this.ownQuotas.set(salt, limits)
    return true
  }

  #quotaOf(salt: string): QuotaInfo {
    const { l1Bytes = 0, l2Bytes = 0 } = this.ownQuotas.get(salt) ?? {}
    return { salt, isOwn: this.ownQuotas.has(salt), l1Bytes, l2Bytes, l1UsageBytes: 0, l2Usage: [] }
  }

  async registerModel(model: ModelLayout): Promise<void> {
    await this.#answer()
    const known = this.layouts.find((layout) => layout.model === model.model && layout.ranks === model.ranks)
    if (known !== undefined && (known.shardBytes !== model.shardBytes || known.layout !== model.layout)) {
      throw new CacheError('LAYOUT_MISMATCH', 'registered with another layout', { field: 'chunk_bytes' })
    }
    if (known !== undefined) return
    this.changes += 1
    this.layouts.push({ ...model, chunkTokens: CHUNK_TOKENS })
  }

  async models(): Promise<ModelLayout[]> {
    await this.#answer()
    return this.layouts
  }

  async findModel(model: string, ranks?: number): Promise<ModelMatch> {
    await this.#answer()
    const found = this.layouts.filter((one) => one.model === model && (ranks === undefined || one.ranks === ranks))
    if (found.length === 0) return { status: 'unknown' }
    if (found.length > 1) return { status: 'ambiguous', ranks: found.map((one) => one.ranks) }
    return { status: 'found', layout: found[0]! }
  }

  async lookup(query: LookupQuery): Promise<LookupAnswer> {
    await this.#answer()
    if (!query.dryRun) this.changes += 1
    const chunks = Math.floor(query.tokens.length / CHUNK_TOKENS)
    const hashes = Array.from({ length: chunks }, (_, at) => hashOf(query.tokens.subarray(0, (at + 1) * CHUNK_TOKENS)))
    const missing = hashes.findIndex((hash) => !this.shards.has(keyOf({ ...query, rank: 0, hash })))
    const hitChunks = missing === -1 ? chunks : missing
    const hitTokens = hitChunks * CHUNK_TOKENS
    const leaseId = query.dryRun || hitChunks === 0 ? null : this.#lease('read', '', null)
    const tiers = { l0: 0, l1: hitTokens, l2: 0 }
    const requestedTokens = query.tokens.length
    const answer = { leaseId, leaseTtlMs: this.ttlMs, requestedTokens, hitTokens, chunkTokens: CHUNK_TOKENS, hitChunks }
    return { ...answer, tiers, hashes: Buffer.concat(hashes) }
  }

  async prefetch({ tokens }: PromptOfModel): Promise<PrefetchAnswer> {
    await this.#answer()
    this.changes += 1
    const requestedTokens = tokens.length
    return { requestedTokens, residentTokens: 0, loadedTokens: requestedTokens, chunkTokens: CHUNK_TOKENS }
  }

  async attachPool(): Promise<never> {
    await this.#answer()
    throw new CacheError('DEVICE_UNAVAILABLE', 'this engine has no GPU that other processes can share')
  }

  async holdPool(): Promise<boolean> {
    await this.#answer()
    return false
  }

  async copyPool(): Promise<never> {
    await this.#answer()
    throw new CacheError('NOT_FOUND', 'there is no such pool, or its time has passed', { field: 'id' })
  }

  async openBorrower(): Promise<BorrowerInfo> {
    await this.#answer()
    this.changes += 1
    const sizes = { poolBytes: 4096, blocks: 4, blockBytes: 1024, blockTokens: 2, chunkTokens: CHUNK_TOKENS }
    const shape = { shape: [4, 1, 2, 2, 1, 128], dtype: 'bfloat16', isWatched: false, ttlMs: 60_000 }
    return { borrowerId: 'borrower', handle: new Uint8Array(64), ...sizes, ...shape }
  }

  async holdBorrower(): Promise<boolean> {
    await this.#answer()
    return false
  }

  async takeBlocks(): Promise<never> {
    await this.#answer()
    throw new CacheError('NOT_FOUND', 'there is no such borrower', { field: 'id' })
  }

  async commitBlocks(): Promise<never> {
    await this.#answer()
    throw new CacheError('NOT_FOUND', 'there is no such borrower', { field: 'id' })
  }

  async releaseBlocks(): Promise<boolean> {
    await this.#answer()
    return false
  }

  async releaseLease(leaseId: string): Promise<boolean> {
    await this.#answer()
    return this.leases.delete(leaseId)
  }

  async renewLease(leaseId: string): Promise<boolean> {
    await this.#answer()
    this.renewals += 1
    return this.leases.has(leaseId) && !this.areLeasesExpired
  }

  async statShard(shard: ShardRef): Promise<{ status: 'hit'; length: number } | { status: 'miss' }> {
    await this.#answer()
    const found = this.shards.get(keyOf(shard))
    return found === undefined ? { status: 'miss' } : { status: 'hit', length: found.length }
  }

  async statShards({ hashes, ...shard }: ShardBatch): Promise<Uint8Array> {
    await this.#answer()
    return Uint8Array.from({ length: hashes.length / 32 }, (_, at) =>
      this.shards.has(keyOf({ ...shard, hash: hashes.subarray(at * 32, (at + 1) * 32) })) ? 1 : 0,
    )
  }

  async leaseShard(shard: ShardRef): Promise<SlotLease | { status: 'miss' }> {
    await this.#answer()
    const found = this.shards.get(keyOf(shard))
    if (found === undefined) return { status: 'miss' }
    const leaseId = this.#lease('read', keyOf(shard), null)
    return { status: 'granted', leaseId, ...found, ttlMs: this.ttlMs }
  }

  async served(leaseId: string): Promise<boolean> {
    this.servedLeases += 1
    return this.releaseLease(leaseId)
  }

  async readExpired(_shard: ShardRef): Promise<void> {
    this.expiredReads += 1
  }

  async reserveShard(shard: ShardRef, parent: Uint8Array | null): Promise<SlotLease | ReserveRefusal> {
    await this.#answer()
    const key = keyOf(shard)
    if (this.shards.has(key)) return { status: 'present' }
    const parentKey = parent === null ? null : keyOf({ ...shard, hash: parent })
    if (parentKey !== null && !this.shards.has(parentKey)) return { status: 'no_parent' }
    if ([...this.leases.values()].some((lease) => lease.kind === 'write' && lease.key === key))
      return { status: 'busy' }
    const length = this.layouts.find((layout) => layout.model === shard.model)!.shardBytes
    if (this.#nextOffset + length > this.arena.length) return { status: 'no_room' }
    this.changes += 1
    const offset = this.#nextOffset
    this.#nextOffset += length
    const leaseId = this.#lease('write', key, parentKey)
    this.#reserved.set(leaseId, { offset, length })
    return { status: 'granted', leaseId, offset, length, ttlMs: this.ttlMs }
  }

  async commitShard(leaseId: string): Promise<'committed' | 'no_parent' | 'expired'> {
    await this.#answer()
    const lease = this.leases.get(leaseId)
    if (lease === undefined || this.areLeasesExpired) return 'expired'
    this.leases.delete(leaseId)
    if (lease.parent !== null && !this.shards.has(lease.parent)) return 'no_parent'
    this.shards.set(lease.key, this.#reserved.get(leaseId)!)
    return 'committed'
  }

  async abortShard(leaseId: string): Promise<void> {
    this.leases.delete(leaseId)
  }

  async clear(_filter: ClearFilter): Promise<{ l0Blocks: number; l1Shards: number; l2Objects: number }> {
    await this.#answer()
    this.changes += 1
    const l1Shards = this.shards.size
    this.shards.clear()
    return { l0Blocks: 0, l1Shards, l2Objects: 0 }
  }

  async pin(query: PromptOfModel): Promise<PinAnswer> {
    await this.#answer()
    if (query.tokens.length < CHUNK_TOKENS) return { status: 'nothing_resident' }
    if (query.tokens.length > 100) return { status: 'over_limit' }
    this.changes += 1
    const { model, salt, tokens } = query
    const size = { tokens: tokens.length, chunks: 1, bytes: 1024 }
    const pin = { pinId: `pin_${this.#nextId++}`, model, salt, ...size, createdAt: '2026-01-01T00:00:00.000Z' }
    this.heldPins.push(pin)
    return { status: 'pinned', pin }
  }

  async pins(): Promise<PinInfo[]> {
    await this.#answer()
    return this.heldPins
  }

  async unpin(pinId: string): Promise<boolean> {
    await this.#answer()
    const at = this.heldPins.findIndex((pin) => pin.pinId === pinId)
    if (at < 0) return false
    this.changes += 1
    this.heldPins.splice(at, 1)
    return true
  }

  async quarantine(): Promise<LateWorkerInfo[]> {
    await this.#answer()
    return this.late
  }

  async releaseQuarantine(worker: string | null): Promise<LateWorkerInfo[]> {
    await this.#answer()
    const freed = this.late.filter((one) => worker === null || one.worker === worker)
    this.late = this.late.filter((one) => !freed.includes(one))
    this.changes += freed.length
    return freed
  }

  async status(): Promise<{ simulated: string[] }> {
    await this.#answer()
    return { simulated: ['everything: this is a test double'] }
  }

  async readiness(): Promise<string[]> {
    await this.#answer()
    return this.reasons
  }

  readonly #reserved = new Map<string, { offset: number; length: number }>()

  #lease(kind: 'read' | 'write', key: string, parent: string | null): string {
    const leaseId = `lease_${this.#nextId++}`
    this.leases.set(leaseId, { kind, key, parent })
    return leaseId
  }

  async #answer(): Promise<void> {
    if (this.isSilent) await new Promise(() => {})
    if (this.failure !== undefined) throw this.failure
  }
}

/** Hash of a prompt's start, as the double makes it. */
export function hashOf(tokens: Uint32Array): Buffer {
  return createHash('sha256').update(tokens).digest()
}

function keyOf(shard: Pick<ShardRef, 'model' | 'salt' | 'ranks' | 'rank' | 'hash'>): string {
  const { model, salt, ranks, rank, hash } = shard
  return JSON.stringify([model, salt, ranks, rank, Buffer.from(hash).toString('hex')])
}
