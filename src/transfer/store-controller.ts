import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { NO_SPAN, type Span } from '../events/tracer.ts'
import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { SlotList } from '../l1/slot-list.ts'
import { type KeyBatch, OUTCOME_FAILED, OUTCOME_OK } from '../l2/adapter.ts'
import type { AdapterSet, Attached, BatchResult } from '../l2/adapter-set.ts'
import { keySpaceOf } from './key-batches.ts'
import type { TransferOptions } from './options.ts'
import { StoreAgain } from './store-again.ts'
import { StoreLane } from './store-lane.ts'
import { StoreSums } from './store-sums.ts'
import { TouchSketch } from './touch-sketch.ts'
import { WriteBack } from './write-back.ts'

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

/** Shards of one space and rank, leased for one adapter: those `present`, `held` of them. */
interface LeasedBatch {
  readonly space: SpaceId
  readonly rank: number
  readonly lease: LeaseId
  readonly present: Uint8Array
  readonly held: number
  readonly span: Span
}

/** After a failed batch, the oldest chunks are not handed over again for so long. */
const PAUSE_MS = 1_000

/**
 * Sends committed shards down to every active adapter, each in its own lane: a slow adapter delays only itself.
 *
 *   commit -> enqueue (no lease, bounded) -> loop: lease what is still resident -> batch -> adapter -> release
 *
 * What is queued when depends on the adapter: every chunk at its commit; or only once it was asked for often enough,
 * which a lookup may bring about later; or, with write-back, when it is among the oldest (`WriteBack`).
 *
 * A batch never mixes spaces or ranks. The lease of a batch lasts until the adapter reads the slots no more, even
 * when the adapter was given up at its deadline.
 */
export class StoreController {
  readonly #parts: StoreControllerParts
  readonly writeBack: WriteBack
  readonly #again: StoreAgain
  readonly #lanes = new Map<Attached, StoreLane>()
  #writeBackLanes: readonly StoreLane[] = []
  readonly #loop: SupervisedLoop
  readonly #refs = new ChunkRefs()
  readonly #slots = new SlotList()
  readonly #found = new ChunkRefs()
  readonly #sums: StoreSums
  readonly #hash = new Uint32Array(HASH_WORDS)
  #touches: TouchSketch | undefined
  #inflightBatches = 0
  #idleWaiters: (() => void)[] = []

  constructor(parts: StoreControllerParts) {
    this.#parts = parts
    const { clock, onBeat, onError, options, l1, adapters } = parts
    this.writeBack = new WriteBack({
      l1,
      adapters,
      ratio: options.writeBackRatio,
      lanes: () => this.#writeBackLanes,
      isAdmitted: (lane, id) => this.#isAdmitted(lane, id),
    })
    this.#sums = new StoreSums(l1)
    this.#again = new StoreAgain({
      l1,
      adapters,
      wake: () => this.#loop.wake(),
      onError: (error) => onError('store', error),
    })
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
    this.#again.stop()
    this.#loop.stop()
  }

  /** Offers all that is in L1 to an adapter that may have missed some of it: see `StoreAgain`. */
  offerAgain(adapter: Attached): void {
    this.#again.begin(this.#lane(adapter))
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

  /**
   * Queues the committed shards of one rank for every active adapter that wants them now. Full queues skip and count.
   *
   * @param span of the store that brought them.
   */
  enqueue(space: SpaceId, rank: number, committed: ChunkRefs, span: Span = NO_SPAN): void {
    const { adapters, l1 } = this.#parts
    const { tenant } = l1.spaces.spec(space)
    for (const adapter of adapters.storable()) {
      const lane = this.#lane(adapter)
      if (lane.isWriteBack) continue
      let skipped = 0
      let refused = 0
      for (let at = 0; at < committed.count; at += 1) {
        if (!this.#isAdmitted(lane, committed.id[at]!)) refused += 1
        else if (!lane.push(committed.id[at]!, committed.generation[at]!, space, rank, span)) skipped += 1
      }
      if (skipped > 0) adapters.countStoreSkipped(adapter, tenant, skipped, 'queue_full')
      if (refused > 0) adapters.countStoreSkipped(adapter, tenant, refused, 'not_admitted')
    }
    this.#loop.wake()
  }

  /** Tells that every chunk of a chain was asked for, resident or not: some may now be wanted by an adapter. */
  noteAsked(space: SpaceId, chain: HashChain): void {
    const touches = this.#sketch()
    if (touches === undefined) return
    for (let index = 0; index < chain.count; index += 1) {
      const count = touches.touch(space, chain.words, index * HASH_WORDS)
      for (const lane of this.#lanes.values()) {
        const isWanted = !lane.isWriteBack && lane.admitTouches > 1 && count >= lane.admitTouches
        if (isWanted && lane.adapter.isStorable) this.#admit(lane, space, chain, index)
      }
    }
    this.#loop.wake()
  }

  /** Tells that chunks came from an adapter: it has them. */
  noteLoaded(adapter: Attached, committed: ChunkRefs): void {
    const { marks } = this.#lane(adapter)
    if (marks === undefined) return
    for (let at = 0; at < committed.count; at += 1) {
      marks.noteHanded(committed.id[at]!, committed.generation[at]!, 1)
      marks.noteStored(committed.id[at]!, committed.generation[at]!)
    }
  }

  /** Resolves when nothing waits and nothing is in flight. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  /** Starts every batch that the budgets allow. */
  pump(): void {
    const nowMs = this.#parts.clock.nowMs()
    this.writeBack.clean(nowMs)
    this.#again.step(nowMs)
    for (const lane of this.#lanes.values()) {
      while (lane.queue.count > 0 && this.#startBatch(lane)) {
        // as long as the lane has work and budget
      }
      if (!lane.adapter.isStorable && lane.queue.count > 0) lane.discard('draining')
      if (lane.adapter.isGone && lane.queue.count === 0) this.#forget(lane)
    }
    this.#tellIdle()
  }

  #lane(adapter: Attached): StoreLane {
    let lane = this.#lanes.get(adapter)
    if (lane === undefined) {
      lane = new StoreLane(adapter, this.#parts)
      this.#lanes.set(adapter, lane)
      this.#listWriteBack()
    }
    return lane
  }

  #forget(lane: StoreLane): void {
    this.#again.forget(lane)
    this.#lanes.delete(lane.adapter)
    this.#listWriteBack()
  }

  #listWriteBack(): void {
    this.#writeBackLanes = [...this.#lanes.values()].filter(({ isWriteBack }) => isWriteBack)
  }

  /** Touches are counted while some adapter asks for more than one. */
  #sketch(): TouchSketch | undefined {
    if (this.#touches !== undefined) return this.#touches
    const { adapters, l1 } = this.#parts
    if (!adapters.all().some(({ limits }) => limits.admitTouches > 1)) return undefined
    for (const adapter of adapters.storable()) this.#lane(adapter)
    this.#touches = new TouchSketch(l1.options.indexCapacityChunks)
    return this.#touches
  }

  /** Whether a resident chunk was asked for often enough. A store that nobody asked for is one touch. */
  #isAdmitted(lane: StoreLane, id: number): boolean {
    if (lane.admitTouches === 1) return true
    const { l1 } = this.#parts
    l1.queries.copyHash(id, this.#hash, 0)
    return (this.#sketch()?.count(l1.order.spaceOf(id), this.#hash, 0) ?? 0) >= lane.admitTouches
  }

  /** Queues every shard of a resident chunk that the adapter was not given yet. */
  #admit(lane: StoreLane, space: SpaceId, chain: HashChain, index: number): void {
    const { l1, adapters } = this.#parts
    this.#found.clear()
    if (!l1.order.complete(space, chain, index, this.#found)) return
    const { ranks, tenant } = l1.spaces.spec(space)
    const id = this.#found.id[0]!
    const generation = this.#found.generation[0]!
    if (lane.marks!.handed(id, generation) >= ranks) return
    for (let rank = 0; rank < ranks; rank += 1) {
      if (!lane.push(id, generation, space, rank)) adapters.countStoreSkipped(lane.adapter, tenant, 1, 'queue_full')
    }
  }

  /** False when the lane must wait. */
  #startBatch(lane: StoreLane): boolean {
    const { adapter, queue, budget } = lane
    const { l1, options } = this.#parts
    if (!adapter.isStorable || lane.inflightBatches === options.storeBatches) return false
    const first = queue.at(0)
    const space = queue.space[first]! as SpaceId
    const rank = queue.rank[first]!
    const spec = l1.spaces.spec(space)
    const room = Math.floor((budget.limitBytes - budget.inflightBytes) / spec.shardBytes)
    const limit = Math.min(options.batchShards, l1.runs.room, budget.inflightBytes === 0 ? Math.max(1, room) : room)
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
    const span = queue.spanOf(count)
    lane.drop(count)
    if (held < count) this.#parts.adapters.countStoreSkipped(adapter, spec.tenant, count - held, 'evicted')
    if (lease !== NO_LEASE) this.#send(lane, { space, rank, lease, present, held, span })
    return true
  }

  #send(lane: StoreLane, { space, rank, lease, present, held, span }: LeasedBatch): void {
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
    const refs = this.#heldRefs(present)
    const settle = () => {
      l1.release(lease)
      lane.budget.release(bytes)
      lane.inflightBatches -= 1
      this.#inflightBatches -= 1
      this.#loop.wake()
      this.#tellIdle()
    }
    adapters
      .submitStore(lane.adapter, spec.tenant, batch, sources, undefined, span)
      .then((result) => {
        this.#sums.settle(refs, rank, batch.sums!, result.outcomes)
        this.#noteOutcomes(lane, refs, result)
        return result.quiesced
      })
      .catch((error: unknown) => onError('store', error))
      .finally(settle)
  }

  #keysOf(space: SpaceId, rank: number, present: Uint8Array, held: number): KeyBatch {
    const { l1 } = this.#parts
    const hashes = new Uint32Array(held * HASH_WORDS)
    const parents = new Uint32Array(held * HASH_WORDS)
    const sums = new Uint32Array(held)
    let word = 0
    for (let at = 0; at < present.length; at += 1) {
      if (present[at] === 0) continue
      sums[word / HASH_WORDS] = Math.max(0, l1.sums.get(this.#refs.id[at]!, rank))
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
      sums,
    }
  }

  #heldRefs(present: Uint8Array): ChunkRefs {
    const refs = new ChunkRefs(present.length)
    for (let at = 0; at < present.length; at += 1) {
      if (present[at] === 1) refs.push(this.#refs.id[at]!, this.#refs.generation[at]!)
    }
    return refs
  }

  /** What did not arrive is to be handed over again, after a while: an adapter that is full would refuse at once. */
  #noteOutcomes(lane: StoreLane, refs: ChunkRefs, { outcomes }: BatchResult): void {
    const { marks } = lane
    if (marks === undefined) {
      if (outcomes.includes(OUTCOME_FAILED)) this.#again.noteMissed(lane, this.#parts.clock.nowMs())
      return
    }
    for (let at = 0; at < refs.count; at += 1) {
      if (outcomes[at] === OUTCOME_OK) marks.noteStored(refs.id[at]!, refs.generation[at]!)
      else marks.forget(refs.id[at]!, refs.generation[at]!)
    }
    if (outcomes.some((outcome) => outcome !== OUTCOME_OK)) lane.pausedUntilMs = this.#parts.clock.nowMs() + PAUSE_MS
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
