/**
 * The engine as the HTTP service sees it. The service runs on its own thread, so every method is a question
 * that crosses to the data thread and back; the arena itself is shared memory, and chunk bytes never cross.
 *
 *   PUT   stat model -> reserveShard -> bytes into arena[offset, offset + length) -> commitShard | abortShard
 *   GET   leaseShard -> bytes out of arena[offset, offset + length) -> releaseLease
 *
 * Misses, no room and refusals by state are values (`status`); a CacheError is thrown for bad input
 * (BAD_REQUEST, LAYOUT_MISMATCH) and for an engine that cannot answer (SHUTTING_DOWN, INTERNAL).
 * Ids are opaque strings on this side. Everything passed and returned can be structured-cloned.
 */
export interface EnginePort {
  /** Makes a model known, so that its chunks can be stored. Idempotent. @throws CacheError LAYOUT_MISMATCH */
  registerModel(model: ModelLayout): Promise<void>
  /** Every registered layout, in order of registration. */
  models(): Promise<ModelLayout[]>
  /** The layout under this name; `ranks` picks one when the name has several. */
  findModel(model: string, ranks?: number): Promise<ModelMatch>

  /** Longest cached prefix of a prompt. Unless `dryRun`, counts as a lookup, loads from L2, and leases the hit. */
  lookup(query: LookupQuery): Promise<LookupAnswer>
  /** Loads what L2 holds of a prompt into L1. No lease, and not counted as a lookup. */
  prefetch(query: PromptOfModel): Promise<PrefetchAnswer>
  /** Ends a lease of `lookup` or `leaseShard`. Idempotent: false when unknown or expired. */
  releaseLease(leaseId: string): Promise<boolean>
  /** Gives a lease its full time again. False when unknown or expired: its bytes must not be read any more. */
  renewLease(leaseId: string): Promise<boolean>

  /** Whether the shard can be read, and its length. Touches and counts nothing. */
  statShard(shard: ShardRef): Promise<{ status: 'hit'; length: number } | { status: 'miss' }>
  /** found[i] = 1 when shard i of the batch can be read. Touches and counts nothing. @param traceparent of the request */
  statShards(batch: ShardBatch, traceparent?: string): Promise<Uint8Array>
  /**
   * Leases one shard for reading, and counts it as served once the lease is released with `served`.
   *
   * @param traceparent of the request, as for the others.
   */
  leaseShard(shard: ShardRef, traceparent?: string): Promise<SlotLease | { status: 'miss' }>
  /** Reports that the whole shard of this lease reached the client, and releases it. */
  served(leaseId: string): Promise<boolean>
  /** Reports that the lease of this shard ended before its bytes had all been read: a promise that was not kept. */
  readExpired(shard: ShardRef): Promise<void>

  /** Reserves a slot for one shard under a write lease. Changes nothing unless `granted`. */
  reserveShard(shard: ShardRef, parent: Uint8Array | null, traceparent?: string): Promise<SlotLease | ReserveRefusal>
  /** Makes the written shard readable. `no_parent`, `expired`: nothing became readable and the slot is given back. */
  commitShard(leaseId: string): Promise<'committed' | 'no_parent' | 'expired'>
  /** Gives the slot back. The caller promises not to write to it any more, also when the lease has expired. */
  abortShard(leaseId: string): Promise<void>

  /** Removes chunks from the tiers named. Leased ones vanish from lookups at once and are freed later. */
  clear(filter: ClearFilter): Promise<ClearAnswer>
  /** Keeps the resident chunks of a prompt in L1 until unpinned. */
  pin(query: PromptOfModel): Promise<PinAnswer>
  pins(): Promise<PinInfo[]>
  /** False when there is no such pin. */
  unpin(pinId: string): Promise<boolean>

  /** Workers that may still copy though their leases have expired. */
  quarantine(): Promise<LateWorkerInfo[]>
  /** Frees what such a worker, or all (null), keep: its process is known to be done. @returns what was freed. */
  releaseQuarantine(worker: string | null): Promise<LateWorkerInfo[]>

  /** Quotas and usage of one cache salt, or of all that have any, the largest first; at most `countMax`. */
  quotas(countMax: number): Promise<QuotaList>
  quota(salt: string): Promise<QuotaInfo>
  /** Sets the quota of a salt and keeps it for the next start. Without `limits`: the default again; false = it had none. */
  setQuota(salt: string, limits?: QuotaLimits): Promise<boolean>

  /** Opens GPU memory of an inference process. @throws CacheError DEVICE_*, MODEL_UNKNOWN, BAD_REQUEST, NO_ROOM */
  attachPool(pool: PoolToAttach): Promise<AttachedPoolInfo>
  /** Keeps an attached pool for its full time again, or gives the memory back after copies under way. False: no such. */
  holdPool(poolId: string, act: 'renew' | 'detach'): Promise<boolean>
  /** Copies chunks of a prompt between L1 and blocks of an attached pool. @throws CacheError NOT_FOUND, DEVICE_FAULT */
  copyPool(poolId: string, copy: PoolCopy): Promise<PoolCopied>

  /** Opens the engine's own GPU memory to an inference process. @throws as `attachPool`, LAYOUT_MISMATCH */
  openBorrower(borrower: BorrowerToOpen): Promise<BorrowerInfo>
  /** Keeps a borrower for its full time again, or ends it: its kernels write no more. False: no such. */
  holdBorrower(borrowerId: string, act: 'renew' | 'close'): Promise<boolean>
  /** Blocks for a prompt; what is cached of it is in them. @throws CacheError NOT_FOUND, NO_ROOM, DEVICE_FAULT */
  takeBlocks(borrowerId: string, wanted: BlocksToTake): Promise<TakenBlocks>
  /** The blocks hold their bytes: chunks that became readable in L1. @throws CacheError NOT_FOUND, DEVICE_TIMEOUT */
  commitBlocks(borrowerId: string, holdId: string, wait?: TimelinePoint): Promise<number>
  /** False when there is no such hold. */
  releaseBlocks(borrowerId: string, holdId: string): Promise<boolean>

  /** One JSON object about the whole engine. `simulated` names what is not real, in words. */
  status(): Promise<EngineStatus>
  /** Why the engine should get no traffic; empty = ready. Must answer within a second even under load. */
  readiness(): Promise<string[]>
}

/** What a shard of a model is. One name may be registered once for each world size. */
export interface ModelLayout {
  readonly model: string
  /** Bytes of one shard: what one rank stores of one chunk. */
  readonly shardBytes: number
  /** World size. */
  readonly ranks: number
  /** Fingerprint of the layout, free text. */
  readonly layout: string
  /** Tokens of one chunk. Absent when registering: the engine has one for all. */
  readonly chunkTokens?: number
}

export type ModelMatch =
  | { readonly status: 'found'; readonly layout: ModelLayout }
  | { readonly status: 'unknown' }
  /** Several world sizes are registered under this name, and none was asked for. */
  | { readonly status: 'ambiguous'; readonly ranks: readonly number[] }

export interface LookupQuery {
  readonly model: string
  readonly salt: string
  readonly ranks: number
  readonly tokens: Uint32Array
  readonly requestId: string
  /** No lease, no counter, no touch, no load; L2 is asked all the same. */
  readonly dryRun: boolean
  /** W3C trace context of the request, unchecked; absent = it came without. */
  readonly traceparent?: string
}

export interface LookupAnswer {
  /** null when nothing was hit, or for a dry run. */
  readonly leaseId: string | null
  readonly leaseTtlMs: number
  readonly requestedTokens: number
  readonly hitTokens: number
  readonly chunkTokens: number
  /** Whole chunks hit. */
  readonly hitChunks: number
  /** Hit tokens by the tier that held them. */
  readonly tiers: { readonly l0: number; readonly l1: number; readonly l2: number }
  /** Hashes of every whole chunk of the prompt, root first, 32 bytes each, end to end. */
  readonly hashes: Uint8Array
}

/** Tokens of whole chunks. */
export interface PrefetchAnswer {
  readonly requestedTokens: number
  /** Of the leading run that was in L1 before. */
  readonly residentTokens: number
  /** By which that run is longer now. */
  readonly loadedTokens: number
  readonly chunkTokens: number
}

/** One stored object: the part of one chunk that belongs to one rank. */
export interface ShardRef {
  readonly model: string
  readonly salt: string
  readonly ranks: number
  /** 0..ranks-1 */
  readonly rank: number
  /** 32 bytes. */
  readonly hash: Uint8Array
}

/** Shards of one rank. */
export interface ShardBatch extends Omit<ShardRef, 'hash'> {
  /** 32 bytes a shard, end to end. */
  readonly hashes: Uint8Array
}

/** A place in the arena, `offset` and `length` in bytes, for `ttlMs` from when it was given. */
export interface SlotLease {
  readonly status: 'granted'
  readonly leaseId: string
  readonly offset: number
  readonly length: number
  readonly ttlMs: number
}

export interface ReserveRefusal {
  /** `present`: already readable. `busy`: another client writes it. */
  readonly status: 'present' | 'busy' | 'no_parent' | 'no_room'
}

export type TierName = 'l0' | 'l1' | 'l2'

export interface ClearFilter {
  /** Absent = every model. */
  readonly model?: string
  /** Absent = every salt; only with `model`. */
  readonly salt?: string
  readonly tiers: readonly TierName[]
}

/** What was removed: L0 blocks, L1 shards, L2 objects; 0 for a tier that was not named. */
export interface ClearAnswer {
  readonly l0Blocks: number
  readonly l1Shards: number
  readonly l2Objects: number
}

/** A prompt of a tenant of a model. */
export interface PromptOfModel {
  readonly model: string
  readonly salt: string
  readonly ranks: number
  readonly tokens: Uint32Array
}

export type PinAnswer =
  | { readonly status: 'pinned'; readonly pin: PinInfo }
  /** No whole chunk of the prompt is in L1. */
  | { readonly status: 'nothing_resident' }
  /** The bytes would pass the pin limit of L1. */
  | { readonly status: 'over_limit' }

export interface PinInfo {
  readonly pinId: string
  readonly model: string
  readonly salt: string
  readonly tokens: number
  readonly chunks: number
  readonly bytes: number
  /** ISO 8601, UTC. */
  readonly createdAt: string
}

/** What a worker may still touch, by its transfers whose leases have expired. */
export interface LateWorkerInfo {
  /** Instance id, decimal. */
  readonly worker: string
  readonly model: string
  readonly isSilent: boolean
  readonly silentMs: number
  readonly transfers: number
  readonly writeBytes: number
  readonly readBytes: number
}

/** Bytes; 0 = no limit; absent = the default. */
export interface QuotaLimits {
  readonly l1Bytes?: number
  readonly l2Bytes?: number
}

/** Limits in force, 0 = none, and what is held. */
export interface QuotaInfo {
  readonly salt: string
  readonly isOwn: boolean
  readonly l1Bytes: number
  readonly l2Bytes: number
  readonly l1UsageBytes: number
  readonly l2Usage: readonly { readonly adapter: string; readonly bytes: number }[]
}

export interface QuotaList {
  readonly defaults: { readonly l1DefaultBytes: number; readonly l2DefaultBytes: number }
  readonly salts: readonly QuotaInfo[]
  /** Salts beyond the limit of the answer. */
  readonly leftOut: number
}

/** `bytes` from `offset` of an allocation of GPU memory; `handle` is CUDA's IPC handle of it, 64 bytes. */
export interface SharedMemoryPart {
  readonly handle: Uint8Array
  readonly offset: number
  readonly bytes: number
}

/** GPU memory of an inference process: the blocks of one rank of a model. Bytes. */
export interface PoolToAttach {
  readonly model: string
  readonly ranks: number
  readonly rank: number
  /** They count as one pool, one behind the other. */
  readonly allocations: readonly SharedMemoryPart[]
  /** Where block 0 lies in each plane, from the start of the pool. */
  readonly planes: readonly number[]
  readonly blockStride: number
  readonly blockBytes: number
  readonly timeline?: TimelineWords
  readonly ttlMs: number
}

/** 64-bit words of GPU memory by which kernels and copies wait for each other: handle of the allocation, and offset. */
export interface TimelineWords {
  readonly handle: Uint8Array
  readonly offset: number
  readonly words: number
}

export interface TimelinePoint {
  readonly word: number
  readonly value: number
}

export interface AttachedPoolInfo {
  readonly poolId: string
  readonly blocksPerChunk: number
  readonly ttlMs: number
}

export interface PoolCopy {
  readonly direction: 'store' | 'load'
  readonly salt: string
  readonly tokens: Uint32Array
  /** Block ids of the whole chunks of the prompt, root first. */
  readonly blocks: Int32Array
  /** What the copy waits for. */
  readonly wait?: TimelinePoint
  /** What is written once it has ended. */
  readonly signal?: TimelinePoint
}

/** Chunks of the leading run copied (load), or that became readable (store). */
export interface PoolCopied {
  readonly chunks: number
  readonly chunkTokens: number
  readonly bytes: number
  /** The copy engine's time. */
  readonly busySeconds: number
}

/** A process that works in blocks of the engine's own pool, for a model of one rank. */
export interface BorrowerToOpen {
  readonly model: string
  /** What is kept of a token. */
  readonly shape: {
    readonly dtype: 'float32' | 'bfloat16' | 'float16' | 'float8_e4m3fn' | 'float8_e5m2' | 'uint8'
    readonly layers: number
    /** 2 = K before V, 1 = one latent vector. */
    readonly kv: number
    readonly heads: number
    readonly headSize: number
  }
  /** Absent = nobody can see when it is gone. */
  readonly process?: { readonly pid: number; readonly startTicks: number }
  readonly timeline?: TimelineWords
  readonly ttlMs: number
}

export interface BorrowerInfo {
  readonly borrowerId: string
  /** 64 bytes: CUDA's IPC handle of the pool. */
  readonly handle: Uint8Array
  readonly poolBytes: number
  readonly blocks: number
  readonly blockBytes: number
  readonly blockTokens: number
  readonly chunkTokens: number
  /** Of the pool as one dense tensor: [blocks, layers, kv, tokens of a block, heads, head size]. */
  readonly shape: readonly number[]
  readonly dtype: string
  /** Whether the engine sees its process. */
  readonly isWatched: boolean
  readonly ttlMs: number
}

export interface BlocksToTake {
  readonly salt: string
  readonly tokens: Uint32Array
  /** Tokens that are not known yet. */
  readonly extraTokens: number
}

export interface TakenBlocks {
  readonly holdId: string
  /** In the order of the tokens. */
  readonly blocks: Int32Array
  /** Leading tokens whose bytes are in their blocks. */
  readonly cachedTokens: number
}

export interface EngineStatus {
  /** What is simulated, in words for people; empty when all is real. */
  readonly simulated: readonly string[]
  readonly [section: string]: unknown
}
