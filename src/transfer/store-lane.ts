import type { SpaceId } from '../core/ids.ts'
import { NO_SPAN, type Span } from '../events/tracer.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import type { AdapterSet, Attached, SkipReason } from '../l2/adapter-set.ts'
import { InflightBudget } from './inflight-budget.ts'
import type { TransferOptions } from './options.ts'
import { ShardMarks } from './shard-marks.ts'
import { StoreQueue } from './store-queue.ts'

export interface StoreLaneParts {
  readonly options: TransferOptions
  readonly l1: L1Cache
  readonly adapters: AdapterSet
}

/** What waits for, and is on its way to, one adapter. */
export class StoreLane {
  readonly adapter: Attached
  readonly queue: StoreQueue
  readonly budget: InflightBudget
  /** What the adapter has been given; only where that decides anything. */
  readonly marks: ShardMarks | undefined
  readonly admitTouches: number
  readonly isWriteBack: boolean
  inflightBatches = 0
  /** Until then nothing is written back: a batch failed. */
  pausedUntilMs = Number.NEGATIVE_INFINITY
  readonly #parts: StoreLaneParts
  readonly #pendingLimitBytes: number
  #pendingBytes = 0

  constructor(adapter: Attached, parts: StoreLaneParts) {
    const { options, l1 } = parts
    const { storeBudgetBytes, storePendingBytes, admitTouches, writePolicy } = adapter.limits
    this.adapter = adapter
    this.#parts = parts
    this.queue = new StoreQueue(options.storeQueueShards)
    this.budget = new InflightBudget(storeBudgetBytes === 0 ? options.storeBudgetBytes : storeBudgetBytes)
    this.#pendingLimitBytes = storePendingBytes === 0 ? options.storePendingBytes : storePendingBytes
    this.admitTouches = admitTouches
    this.isWriteBack = writePolicy === 'back'
    const isMarked = this.isWriteBack || admitTouches > 1
    this.marks = isMarked ? new ShardMarks(l1.options.indexCapacityChunks) : undefined
  }

  /** Bytes of the shards that wait. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** Queues a shard. False, and nothing changed, when the queue is full in shards or bytes. */
  push(id: number, generation: number, space: SpaceId, rank: number, span: Span = NO_SPAN): boolean {
    const { shardBytes } = this.#parts.l1.spaces.spec(space)
    const isOver = this.queue.count > 0 && this.#pendingBytes + shardBytes > this.#pendingLimitBytes
    if (isOver || !this.queue.push(id, generation, space, rank, span)) return false
    this.#pendingBytes += shardBytes
    this.marks?.noteHanded(id, generation, 1)
    return true
  }

  /** Takes the oldest `count` shards, of one space, off the queue. */
  drop(count: number): void {
    const space = this.queue.space[this.queue.at(0)]! as SpaceId
    this.#pendingBytes -= count * this.#parts.l1.spaces.spec(space).shardBytes
    this.queue.drop(count)
  }

  /** Drops everything that waits: it is counted as skipped, and may be handed over again. */
  discard(reason: SkipReason): void {
    const { l1, adapters } = this.#parts
    while (this.queue.count > 0) {
      const count = this.queue.leadingBatch(this.queue.count)
      const { tenant } = l1.spaces.spec(this.queue.space[this.queue.at(0)]! as SpaceId)
      for (let ahead = 0; ahead < count; ahead += 1) {
        const at = this.queue.at(ahead)
        this.marks?.forget(this.queue.id[at]!, this.queue.generation[at]!)
      }
      adapters.countStoreSkipped(this.adapter, tenant, count, reason)
      this.drop(count)
    }
  }
}
