import { randomUUID } from 'node:crypto'
import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { HashChain } from '../core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../core/ids.ts'
import { type Direction, isSharing, type PagedLayout, type SharingDevice } from '../l0/device.ts'
import { SlotList } from '../l1/slot-list.ts'
import type { DeviceTimelines, Timeline, TimelinePoint, TimelineRequest } from './device-timelines.ts'
import type { Engine } from './engine.ts'
import type { Lookup } from './lookup.ts'
import { checkModelName, checkSalt, type ModelRegistry, type RegisteredModel } from './model-registry.ts'
import type { PromptHasher } from './prompt-hasher.ts'

// L0 in attached mode: the inference process owns the blocks, and asks for each copy.
//
//   attach (IPC handle, layout) --> attached --renew--> attached
//                                      |  \--detach, or its time has passed--> mapping closed after copies under way
//                                      |
//   store: reserve in L1 -> copy down -> commit        load: lookup -> copy up under the lease -> served, released
//
// An owner that dies renews no more. Until its time has passed the mapping keeps its memory in place, so a copy under
// way never touches memory of somebody else.

/** `bytes` from `offset` of the allocation that an IPC handle names. */
export interface SharedPart {
  readonly handle: Uint8Array
  readonly offset: number
  readonly bytes: number
}

/**
 * GPU memory that a process shares: blocks of one rank of a model. Several allocations (vLLM has one a layer) count as one
 * pool, one behind the other: `planes` are offsets in that.
 */
export interface PoolRequest extends PagedLayout {
  readonly model: string
  readonly ranks: number
  readonly rank: number
  readonly allocations: readonly SharedPart[]
  /** Words by which its kernels and copies wait for each other. */
  readonly timeline?: TimelineRequest
  readonly ttlMs: number
}

/** A prompt and the blocks of its whole chunks, those of chunk i from i * blocksPerChunk on. */
export interface PoolCopyRequest {
  readonly direction: Direction
  readonly salt: string
  readonly tokens: Uint32Array
  readonly blocks: Int32Array
  /** What the copy waits for. */
  readonly wait?: TimelinePoint
  /** What is written once it has ended, well or not. */
  readonly signal?: TimelinePoint
}

export interface AttachedPoolsParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly models: ModelRegistry
  readonly hasher: PromptHasher
  readonly timelines: DeviceTimelines
}

/** The chunks of a prompt, and their blocks. */
interface Chunks {
  readonly space: SpaceId
  readonly chain: HashChain
  readonly blocks: Int32Array
}

export interface PoolCopyResult {
  readonly chunks: number
  readonly chunkTokens: number
  readonly bytes: number
  readonly busySeconds: number
}

interface Pool {
  readonly model: RegisteredModel
  readonly rank: number
  /** Of the device: one for each allocation. */
  readonly numbers: readonly number[]
  readonly layout: number
  readonly blocksPerChunk: number
  readonly bytes: number
  readonly timeline: Timeline | null
  readonly ttlMs: number
  expiresMs: number
}

interface CopyOutcome {
  readonly error: Error | null
  readonly busySeconds: number
}

/** Pools at most; each holds a mapping of the driver. */
const POOLS_MAX = 64

/** The pools of inference processes, by opaque id, and the copies between them and L1. */
export class AttachedPools {
  readonly #parts: AttachedPoolsParts
  readonly #engine: Engine
  readonly #clock: Clock
  readonly #pools = new Map<string, Pool>()
  #streams: Record<Direction, number> | null = null

  constructor(parts: AttachedPoolsParts) {
    this.#parts = parts
    this.#engine = parts.engine
    this.#clock = parts.clock
  }

  /** @throws CacheError DEVICE_UNAVAILABLE, DEVICE_FAULT, BAD_REQUEST, MODEL_UNKNOWN, NO_ROOM */
  attach(request: PoolRequest): { poolId: string; blocksPerChunk: number; ttlMs: number } {
    const device = this.#device()
    const model = this.#modelOf(request)
    const { rank, allocations, planes, blockStride, blockBytes, ttlMs } = request
    if (rank >= model.ranks) throw refused('rank', `the model has ${model.ranks} ranks`)
    const blocksPerChunk = model.shardBytes / (planes.length * blockBytes)
    if (!Number.isInteger(blocksPerChunk)) {
      throw refused('block_bytes', `a chunk of ${model.shardBytes} bytes is not a whole number of blocks in each plane`)
    }
    if (this.#pools.size >= POOLS_MAX) {
      throw new CacheError('NO_ROOM', `${POOLS_MAX} pools are attached, which is the limit`)
    }
    const numbers: number[] = []
    try {
      for (const { handle, offset, bytes } of allocations) numbers.push(device.importPool(handle, offset, bytes))
      const placed = placesOf(planes, allocations)
      const pools = placed.map(({ allocation }) => numbers[allocation]!)
      const layout = device.addLayout(pools, { planes: placed.map(({ offset }) => offset), blockStride, blockBytes })
      const bytes = allocations.reduce((sum, one) => sum + one.bytes, 0)
      const timeline = request.timeline === undefined ? null : this.#parts.timelines.open(device, request.timeline)
      const poolId = randomUUID()
      const expiresMs = this.#clock.nowMs() + ttlMs
      this.#pools.set(poolId, { model, rank, numbers, layout, blocksPerChunk, bytes, timeline, ttlMs, expiresMs })
      return { poolId, blocksPerChunk, ttlMs }
    } catch (error) {
      for (const number of numbers) device.closePool(number)
      throw error
    }
  }

  renew(poolId: string): boolean {
    const pool = this.#pools.get(poolId)
    if (pool === undefined) return false
    pool.expiresMs = this.#clock.nowMs() + pool.ttlMs
    return true
  }

  /** Resolves when no memory of the pool is mapped any more: its owner may free it. False = there is no such pool. */
  async detach(poolId: string): Promise<boolean> {
    const pool = this.#pools.get(poolId)
    if (pool === undefined) return false
    this.#pools.delete(poolId)
    const { device } = this.#engine.device!
    assert(isSharing(device), 'a pool of another process without a device that shares')
    const timeline = pool.timeline?.close()
    const closed = pool.numbers.map((number) => new Promise<void>((resolve) => device.closePool(number, resolve)))
    await Promise.all([timeline, ...closed])
    return true
  }

  /** Detaches pools whose owners have not renewed them in time: they are gone. */
  sweep(): void {
    const nowMs = this.#clock.nowMs()
    for (const [poolId, { expiresMs }] of this.#pools) if (expiresMs <= nowMs) void this.detach(poolId)
  }

  /**
   * Copies the leading run of the chunks. A store takes those that L1 lacks and has room for; a load what L1 and L2 have.
   *
   * @throws CacheError NOT_FOUND, BAD_REQUEST, DEVICE_UNAVAILABLE, DEVICE_TIMEOUT, DEVICE_FAULT
   */
  async copy(poolId: string, request: PoolCopyRequest): Promise<PoolCopyResult> {
    const { salt, tokens, blocks, wait, signal } = request
    checkSalt(salt)
    const { model, blocksPerChunk, timeline } = this.#find(poolId)
    const wanted = Math.floor(tokens.length / this.#engine.options.chunkTokens) * blocksPerChunk
    if (blocks.length !== wanted) throw refused('blocks', `the whole chunks of the prompt take ${wanted} blocks`)
    for (const point of [wait, signal]) {
      if (point !== undefined && timeline === null) throw refused('wait', 'this pool has no timeline')
      if (point !== undefined) timeline!.check(point)
    }
    const space = this.#engine.openSpace({ ...model, salt })
    let isDone = false
    try {
      if (wait !== undefined) await timeline!.reached(wait)
      const result = await this.#copyChunks(poolId, request, space)
      isDone = true
      return result
    } finally {
      if (signal !== undefined) timeline!.signal(signal, isDone)
    }
  }

  async #copyChunks(poolId: string, request: PoolCopyRequest, space: SpaceId): Promise<PoolCopyResult> {
    const { chunkTokens } = this.#engine.options
    const { direction, tokens, blocks } = request
    const chain = new HashChain(0)
    await this.#parts.hasher.extend(chain, { tokens, chunkTokens, space, asker: this })
    const pool = this.#find(poolId) // it may have gone meanwhile
    this.renew(poolId)
    if (chain.count === 0) return this.#counted(space, direction, pool, 0, 0)
    const chunks = { space, chain, blocks }
    return direction === 'store' ? this.#store(pool, chunks) : this.#load(pool, chunks)
  }

  /** For `/status`. */
  status() {
    return [...this.#pools.values()].map(({ model, rank, bytes, blocksPerChunk, timeline }) => ({
      model: model.model,
      rank,
      bytes,
      blocksPerChunk,
      hasTimeline: timeline !== null,
    }))
  }

  async #store(pool: Pool, { space, chain, blocks }: Chunks): Promise<PoolCopyResult> {
    const engine = this.#engine
    const slots = new SlotList()
    const owner = engine.sessions.nextOwner()
    const lease = engine.reserve(space, pool.rank, chain, 0, chain.count, owner, slots)
    if (lease === NO_LEASE) return this.#counted(space, 'store', pool, 0, 0)
    const { error, busySeconds } = await this.#move(pool, 'store', slots, blocks)
    // The copy engine is done with the slots here, whatever they hold.
    const chunks = error === null ? engine.commit(space, pool.rank, lease) : -1
    if (chunks < 0 && !engine.l1.abort(lease)) engine.l1.fence(lease)
    if (error !== null) throw error
    return this.#counted(space, 'store', pool, Math.max(0, chunks), busySeconds)
  }

  async #load(pool: Pool, { space, chain, blocks }: Chunks): Promise<PoolCopyResult> {
    const engine = this.#engine
    const tiers = { l0: false, l1: true, l2: true }
    const owner = engine.sessions.nextOwner()
    const lookup = await new Promise<Lookup>((resolve) => engine.lookup(space, chain, owner, resolve, tiers))
    try {
      const slots = new SlotList()
      const hits = lookup.loadedTo
      const isThere = hits > 0 && engine.slots(lookup, pool.rank, 0, hits, slots)
      if (!isThere) return this.#counted(space, 'load', pool, 0, 0)
      const { error, busySeconds } = await this.#move(pool, 'load', slots, blocks)
      if (error !== null) throw error
      // A lease that ended meanwhile: what was read may have been something else.
      const served = engine.served(lookup, 0, hits, pool.rank)
      return this.#counted(space, 'load', pool, served === hits ? hits : 0, busySeconds)
    } finally {
      engine.release(lookup)
    }
  }

  #counted(space: SpaceId, way: Direction, pool: Pool, chunks: number, busySeconds: number): PoolCopyResult {
    const bytes = chunks * pool.model.shardBytes
    if (chunks > 0) this.#engine.noteCopy(space, way, bytes, busySeconds)
    return { chunks, chunkTokens: this.#engine.options.chunkTokens, bytes, busySeconds }
  }

  #move(pool: Pool, direction: Direction, slots: SlotList, blocks: Int32Array): Promise<CopyOutcome> {
    const device = this.#device()
    this.#streams ??= { store: device.createStream(), load: device.createStream() }
    const { blocksPerChunk, layout } = pool
    const { count, chainIndex } = slots
    const ids = new Int32Array(count * blocksPerChunk)
    for (let row = 0; row < count; row += 1) {
      const at = chainIndex[row]! * blocksPerChunk
      ids.set(blocks.subarray(at, at + blocksPerChunk), row * blocksPerChunk)
    }
    const batch = { direction, layout, blocks: ids, blockCount: ids.length, hostOffsets: slots.offset, shards: count }
    return new Promise((resolve) => {
      device.submitPaged(this.#streams![direction], batch, (busySeconds, error) => resolve({ busySeconds, error }))
    })
  }

  #modelOf({ model, ranks }: PoolRequest): RegisteredModel {
    checkModelName(model)
    const known = this.#parts.models.find(model).find((one) => one.ranks === ranks)
    if (known !== undefined) return known
    throw new CacheError('MODEL_UNKNOWN', `model "${model}" is not registered: POST /v1/models first`)
  }

  #find(poolId: string): Pool {
    const pool = this.#pools.get(poolId)
    if (pool !== undefined) return pool
    throw new CacheError('NOT_FOUND', 'there is no such pool, or its time has passed', { field: 'id' })
  }

  #device(): SharingDevice {
    const device = this.#engine.device?.device
    if (device !== undefined && isSharing(device)) return device
    throw new CacheError('DEVICE_UNAVAILABLE', 'this engine has no GPU that other processes can share')
  }
}

/** In which allocation each plane lies, and where there. @throws CacheError BAD_REQUEST when it lies in none */
function placesOf(planes: readonly number[], allocations: readonly SharedPart[]) {
  return planes.map((plane) => {
    let offset = plane
    const allocation = allocations.findIndex(({ bytes }) => {
      if (offset < bytes) return true
      offset -= bytes
      return false
    })
    if (allocation < 0) throw refused('planes', 'a plane begins beyond the pool')
    return { allocation, offset }
  })
}

function refused(field: string, reason: string): CacheError {
  return new CacheError('BAD_REQUEST', `${field}: ${reason}`, { field })
}
