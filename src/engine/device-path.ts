import type { HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import { outcomeOf, RETRIEVE_SPAN, SPAN_ERROR, STORE_SPAN } from '../events/span-kinds.ts'
import { NO_ROW, NO_SPAN, type Span, Tracer } from '../events/tracer.ts'
import type { BlockManager } from '../l0/block-manager.ts'
import { BlockTable } from '../l0/block-table.ts'
import type { Device } from '../l0/device.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { SlotList } from '../l1/slot-list.ts'
import type { L0L1Copier } from '../transfer/l0-l1-copier.ts'
import type { Lookup } from './lookup.ts'

export interface DevicePathParts {
  readonly device: Device
  readonly blocks: BlockManager
  readonly copier: L0L1Copier
  readonly l1: L1Cache
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/** What requests need of the engine: `Engine` has it. */
export interface ChunkAccess {
  slots(lookup: Lookup, rank: number, from: number, to: number, out: SlotList): boolean
  served(lookup: Lookup, from: number, to: number): number
  reserve(
    space: SpaceId,
    rank: number,
    chain: HashChain,
    from: number,
    to: number,
    owner: number,
    grants: SlotList,
  ): LeaseId
  commit(space: SpaceId, rank: number, lease: LeaseId, span?: Span): number
}

/** What one request has on the device, from its lookup to its end. Made by `DevicePath.begin`. */
export interface DeviceRequest {
  readonly lookup: Lookup
  readonly table: BlockTable
  readonly slots: SlotList
  /** Copies under way. A request that ends meanwhile gives up its blocks after the last one. */
  copies: number
  isEnded: boolean
}

/**
 * L0 in managed mode: requests take blocks, hit chunks are copied up into them, new ones are copied down to L1.
 *
 *   begin -> fetch: L0-resident chunks are referenced, others loaded from L1 -> extend: blocks for what is computed
 *         -> computed: those are readable -> store: copied down, committed -> end: references released
 *
 * Without room or after a device fault a request goes on without L0: its chunks are neither reused nor stored.
 */
export class DevicePath {
  readonly #parts: DevicePathParts
  readonly #free: DeviceRequest[] = []
  readonly #tracer: Tracer

  constructor(parts: DevicePathParts) {
    this.#parts = parts
    this.#tracer = parts.tracer ?? Tracer.off()
  }

  get blocks(): BlockManager {
    return this.#parts.blocks
  }

  get device(): Device {
    return this.#parts.device
  }

  get isLost(): boolean {
    return this.#parts.device.state === 'lost'
  }

  openSpace(space: SpaceId): void {
    const { tenant, chunkTokens, ranks, shardBytes } = this.#parts.l1.spaces.spec(space)
    this.#parts.blocks.registerSpace(space, { tenant, chunkTokens, chunkBytes: ranks * shardBytes, ranks })
  }

  /** Chunks of the leading run that are on the device. */
  residentRun(space: SpaceId, chain: HashChain): number {
    return this.isLost ? 0 : this.#parts.blocks.residentRun(space, chain, 0, chain.count)
  }

  /** Blocks that became unfindable. */
  removeSpace(space: SpaceId): number {
    return this.#parts.blocks.removeSpace(space)
  }

  begin(lookup: Lookup): DeviceRequest {
    const request = this.#free.pop()
    if (request === undefined) {
      return { lookup, table: new BlockTable(lookup.space), slots: new SlotList(), copies: 0, isEnded: false }
    }
    request.table.space = lookup.space
    return Object.assign(request, { lookup, isEnded: false })
  }

  /**
   * Puts the promised chunks on the device.
   *
   * @param done told how many leading chunks are there: all that were promised, or 0 when there was no room, a lease
   *   had expired before the copy ended, or the device failed. Called at once when nothing has to be copied.
   */
  fetch(engine: ChunkAccess, request: DeviceRequest, done: (chunks: number) => void): void {
    const { blocks, copier } = this.#parts
    const { lookup, table, slots } = request
    const { chain, hitChunks } = lookup
    if (hitChunks === 0 || this.isLost || !blocks.allocate(table, chain, 0, hitChunks)) {
      done(0)
      return
    }
    slots.clear()
    for (let index = 0; index < hitChunks; index += 1) {
      if (!blocks.needsFill(table, index)) continue
      if (engine.slots(lookup, -1, index, index + 1, slots)) continue
      blocks.release(table)
      done(0)
      return
    }
    if (slots.count === 0) {
      done(hitChunks)
      return
    }
    const first = slots.chainIndex[0]!
    const shards = slots.count
    const span = this.#tracer.child(RETRIEVE_SPAN, lookup.span)
    request.copies += 1
    const wanted = (hitChunks - first) * this.#parts.l1.spaces.spec(lookup.space).ranks
    copier.load(table, slots, (error) => {
      // A lease that ended meanwhile: what was copied may have been something else.
      const isRight = error === null && engine.served(lookup, first, hitChunks) === wanted
      if (isRight) blocks.publish(table, 0, hitChunks)
      else blocks.release(table)
      this.#endSpan(span, lookup, shards, isRight ? shards : 0, error)
      this.#copied(request)
      done(isRight ? hitChunks : 0)
    })
  }

  /** Takes blocks for the chunks that the request computes itself. False when there is no room. */
  extend(request: DeviceRequest): boolean {
    const { lookup, table } = request
    const isTaken = table.to === lookup.hitChunks || lookup.hitChunks === 0
    return isTaken && !this.isLost && this.#parts.blocks.allocate(table, lookup.chain, table.to, lookup.requestedChunks)
  }

  /** The blocks of `extend` hold their bytes now and can be reused. */
  computed(request: DeviceRequest): void {
    const { table } = request
    this.#parts.blocks.publish(table, table.from, table.to)
  }

  /**
   * Copies down the chunks that L1 lacks, the shards of all ranks.
   *
   * @param done told how many shards became readable in L1.
   */
  store(engine: ChunkAccess, request: DeviceRequest, done: (shards: number) => void): void {
    const { loadedTo, requestedChunks, space } = request.lookup
    const isStorable = loadedTo < requestedChunks && request.table.to === requestedChunks && !this.isLost
    this.#storeRanks(engine, request, isStorable ? 0 : this.#parts.l1.spaces.spec(space).ranks, 0, done)
  }

  /** One rank after the other: `slots` serves one at a time. */
  #storeRanks(
    engine: ChunkAccess,
    request: DeviceRequest,
    rank: number,
    stored: number,
    done: (shards: number) => void,
  ): void {
    const { space, chain, owner, loadedTo, requestedChunks } = request.lookup
    if (request.isEnded || rank === this.#parts.l1.spaces.spec(space).ranks) {
      done(stored)
      return
    }
    const lease = engine.reserve(space, rank, chain, loadedTo, requestedChunks, owner, request.slots)
    if (lease === NO_LEASE) {
      this.#storeRanks(engine, request, rank + 1, stored, done)
      return
    }
    const reserved = request.slots.count
    const span = this.#tracer.child(STORE_SPAN, request.lookup.span)
    request.copies += 1
    this.#parts.copier.store(request.table, request.slots, (error) => {
      // The copy engine is done with the slots, whatever they hold.
      const shards = error === null ? Math.max(0, engine.commit(space, rank, lease, span)) : 0
      this.#endSpan(span, request.lookup, reserved, shards, error)
      if (error !== null) this.#parts.l1.abort(lease)
      this.#copied(request)
      this.#storeRanks(engine, request, rank + 1, stored + shards, done)
    })
  }

  /** Gives up the blocks, after the last copy under way; published ones stay for reuse. */
  end(request: DeviceRequest): void {
    request.isEnded = true
    if (request.copies === 0) this.#recycle(request)
  }

  #endSpan(span: Span, lookup: Lookup, shards: number, done: number, error: unknown): void {
    if (span === NO_SPAN) return
    const { tenant, shardBytes } = this.#parts.l1.spaces.spec(lookup.space)
    const outcome = error === null ? outcomeOf(done, shards) : SPAN_ERROR
    this.#tracer.end(span, outcome, tenant, NO_ROW, shards, done * shardBytes, done)
  }

  #copied(request: DeviceRequest): void {
    request.copies -= 1
    if (request.isEnded && request.copies === 0) this.#recycle(request)
  }

  #recycle(request: DeviceRequest): void {
    this.#parts.blocks.release(request.table)
    this.#free.push(request)
  }

  /** For `/status`. */
  status() {
    const { device, blocks, copier } = this.#parts
    const { kind, name, profile, capacityBytes } = device.info
    return {
      device: { kind, name, profile, capacityBytes, state: device.state, ...device.details?.() },
      blockBytes: blocks.blockBytes,
      capacityBlocks: blocks.capacityBlocks,
      freeBlocks: blocks.freeBlocks,
      cachedBlocks: blocks.cachedBlocks,
      pendingStores: copier.pending('store'),
      pendingLoads: copier.pending('load'),
    }
  }
}
