import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { HASH_WORDS } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { SlotList } from '../l1/slot-list.ts'
import type { KeyBatch } from '../l2/adapter.ts'
import type { AdapterSet, Attached } from '../l2/adapter-set.ts'
import { InflightBudget } from './inflight-budget.ts'
import { keySpaceOf } from './key-batches.ts'
import type { TransferOptions } from './options.ts'
import { StoreQueue } from './store-queue.ts'

export interface StoreControllerParts {
  readonly options: TransferOptions
  readonly clock: Clock
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  /** Views of the arena bytes of a slot; empty views when no bytes are kept. */
  readonly view: (offset: number, lengthBytes: number) => Uint8Array
  readonly onError: (loop: string, error: unknown) => void
  readonly onBeat: (nowMs: number) => void
}

/** What waits for, and is on its way to, one adapter. */
interface Lane {
  inflightBatches: number
  readonly adapter: Attached
  readonly queue: StoreQueue
  readonly budget: InflightBudget
}

/**
 * Sends committed shards down to every active adapter, each in its own lane: a slow adapter delays only itself.
 *
 *   commit -> enqueue (no lease, bounded) -> loop: lease what is still resident -> batch -> adapter -> release
 *
 * A batch never mixes spaces or ranks. The lease of a batch lasts until the adapter reads the slots no more, even
 * when the adapter was given up at its deadline.
 */
export class StoreController {
  readonly #parts: StoreControllerParts
  readonly #lanes = new Map<Attached, Lane>()
  readonly #loop: SupervisedLoop
  readonly #refs = new ChunkRefs()
  readonly #slots = new SlotList()
  #inflightBatches = 0
  #idleWaiters: (() => void)[] = []

  constructor(parts: StoreControllerParts) {
    this.#parts = parts
    const { clock, onBeat, onError, options } = parts
    const cycle = () => this.pump()
    this.#loop = new SupervisedLoop({
      name: 'store',
      intervalMs: options.storeIntervalMs,
      clock,
      cycle,
      onBeat,
      onError,
    })
  }

  start(): void {
    this.#loop.start()
  }

  stop(): void {
    this.#loop.stop()
  }

  /** Shards waiting, over all adapters. */
  get queuedShards(): number {
    let total = 0
    for (const { queue } of this.#lanes.values()) total += queue.count
    return total
  }

  get inflightBatches(): number {
    return this.#inflightBatches
  }

  /** Queues the committed shards of one rank for every active adapter. Full queues skip and count. */
  enqueue(space: SpaceId, rank: number, committed: ChunkRefs): void {
    const { adapters, l1 } = this.#parts
    for (const adapter of adapters.storable()) {
      const { queue } = this.#lane(adapter)
      let skipped = 0
      for (let at = 0; at < committed.count; at += 1) {
        if (!queue.push(committed.id[at]!, committed.generation[at]!, space, rank)) skipped += 1
      }
      if (skipped > 0) adapters.countStoreSkipped(adapter, l1.spaces.spec(space).tenant, skipped, 'queue_full')
    }
    this.#loop.wake()
  }

  /** Resolves when nothing waits and nothing is in flight. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  /** Starts every batch that the budgets allow. */
  pump(): void {
    for (const lane of this.#lanes.values()) {
      while (lane.queue.count > 0 && this.#startBatch(lane)) {
        // as long as the lane has work and budget
      }
      if (!lane.adapter.isStorable && lane.queue.count > 0) this.#discard(lane, lane.queue.count)
      if (lane.adapter.isGone && lane.queue.count === 0) this.#lanes.delete(lane.adapter)
    }
    this.#tellIdle()
  }

  #lane(adapter: Attached): Lane {
    let lane = this.#lanes.get(adapter)
    if (lane === undefined) {
      const { storeBudgetBytes, storeQueueShards } = this.#parts.options
      const budget = new InflightBudget(storeBudgetBytes)
      lane = { adapter, queue: new StoreQueue(storeQueueShards), budget, inflightBatches: 0 }
      this.#lanes.set(adapter, lane)
    }
    return lane
  }

  /** False when the lane must wait. */
  #startBatch(lane: Lane): boolean {
    const { adapter, queue, budget } = lane
    const { l1, options } = this.#parts
    if (!adapter.isStorable || lane.inflightBatches === options.storeBatches) return false
    const first = queue.at(0)
    const space = queue.space[first]! as SpaceId
    const rank = queue.rank[first]!
    const spec = l1.spaces.spec(space)
    const room = Math.floor((budget.limitBytes - budget.inflightBytes) / spec.shardBytes)
    const limit = Math.min(options.batchShards, budget.inflightBytes === 0 ? Math.max(1, room) : room)
    if (limit <= 0) return false
    const count = queue.leadingBatch(limit)
    this.#refs.clear()
    for (let ahead = 0; ahead < count; ahead += 1) {
      const at = queue.at(ahead)
      this.#refs.push(queue.id[at]!, queue.generation[at]!)
    }
    const present = new Uint8Array(count)
    const lease = l1.leaseRefs(this.#refs, 0, count, rank, Number.POSITIVE_INFINITY, present)
    const held = present.reduce((sum, flag) => sum + flag, 0)
    if (held > 0 && lease === NO_LEASE) return false // the lease table is full: try again later
    queue.drop(count)
    if (held < count) this.#parts.adapters.countStoreSkipped(adapter, spec.tenant, count - held, 'evicted')
    if (lease !== NO_LEASE) this.#send(lane, space, rank, lease, present, held)
    return true
  }

  #send(lane: Lane, space: SpaceId, rank: number, lease: LeaseId, present: Uint8Array, held: number): void {
    const { l1, adapters, view, onError } = this.#parts
    const spec = l1.spaces.spec(space)
    const bytes = held * spec.shardBytes
    const batch = this.#keysOf(space, rank, present, held)
    this.#slots.clear()
    l1.slots(lease, rank, 0, present.length, this.#slots)
    assert(this.#slots.count === held, 'a leased shard without a slot')
    const sources = Array.from({ length: held }, (_, at) => view(this.#slots.offset[at]!, this.#slots.length[at]!))
    const isTaken = lane.budget.tryAcquire(bytes)
    assert(isTaken, 'a batch over its budget')
    lane.inflightBatches += 1
    this.#inflightBatches += 1
    const settle = () => {
      l1.release(lease)
      lane.budget.release(bytes)
      lane.inflightBatches -= 1
      this.#inflightBatches -= 1
      this.#loop.wake()
      this.#tellIdle()
    }
    adapters
      .submitStore(lane.adapter, spec.tenant, batch, sources)
      .then((result) => result.quiesced)
      .catch((error: unknown) => onError('store', error))
      .finally(settle)
  }

  #keysOf(space: SpaceId, rank: number, present: Uint8Array, held: number): KeyBatch {
    const { l1 } = this.#parts
    const hashes = new Uint32Array(held * HASH_WORDS)
    const parents = new Uint32Array(held * HASH_WORDS)
    let word = 0
    for (let at = 0; at < present.length; at += 1) {
      if (present[at] === 0) continue
      l1.queries.copyHash(this.#refs.id[at]!, hashes, word)
      l1.queries.copyParentHash(this.#refs.id[at]!, parents, word)
      word += HASH_WORDS
    }
    const keySpace = keySpaceOf(l1.spaces.spec(space), rank)
    return {
      space: keySpace,
      count: held,
      hashes: new Uint8Array(hashes.buffer),
      parents: new Uint8Array(parents.buffer),
    }
  }

  #discard(lane: Lane, count: number): void {
    const space = lane.queue.space[lane.queue.at(0)]! as SpaceId
    const { tenant } = this.#parts.l1.spaces.spec(space)
    this.#parts.adapters.countStoreSkipped(lane.adapter, tenant, count, 'draining')
    lane.queue.drop(count)
  }

  #isIdle(): boolean {
    return this.#inflightBatches === 0 && this.queuedShards === 0
  }

  #tellIdle(): void {
    if (this.#idleWaiters.length === 0 || !this.#isIdle()) return
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const resolve of waiters) resolve()
  }
}
