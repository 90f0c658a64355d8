import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import type { AdapterSet } from '../l2/adapter-set.ts'
import type { StoreLane } from './store-lane.ts'

/** Chunks of the oldest end that are kept clean. */
const WINDOW_CHUNKS = 1024

export interface WriteBackParts {
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  /** Fill level of L1, 0..1, from which on the oldest chunks are written down. */
  readonly ratio: number
  /** Those of write-back adapters. */
  readonly lanes: () => readonly StoreLane[]
  /** Whether a chunk was asked for often enough for a lane. */
  readonly isAdmitted: (lane: StoreLane, id: number) => boolean
}

/**
 * Stores to adapters that get a chunk only when it is about to leave L1.
 *
 *   L1 filled to `ratio`:   newest ........................... | window: queued, in flight, stored | -> evicted, clean
 *   eviction is faster:     newest ......... dirty dirty dirty | clean taken first, else dirty dropped and counted
 *
 * Nothing here waits: eviction takes a clean leaf near the oldest end where there is one, and else drops what the
 * adapter does not have.
 */
export class WriteBack {
  readonly #parts: WriteBackParts
  readonly #oldest = new ChunkRefs(WINDOW_CHUNKS)

  constructor(parts: WriteBackParts) {
    this.#parts = parts
  }

  /** Hands over what the oldest end holds and the adapters lack, as far as their queues go. */
  clean(nowMs: number): void {
    const { l1, ratio, lanes } = this.#parts
    if (l1.usageBytes < ratio * l1.options.capacityBytes) return
    let isListed = false
    for (const lane of lanes()) {
      if (!lane.adapter.isLoadable || nowMs < lane.pausedUntilMs) continue
      if (!isListed) {
        this.#oldest.clear()
        l1.order.oldest(WINDOW_CHUNKS, this.#oldest)
        isListed = true
      }
      this.#fill(lane)
    }
  }

  /** Whether every adapter that wants a chunk has it. */
  isClean(id: number, generation: number): boolean {
    for (const lane of this.#parts.lanes()) if (this.#lacks(lane, id, generation)) return false
    return true
  }

  /** A chunk leaves L1 for room: adapters that lack it lose it. */
  noteEvicted(id: number, generation: number): void {
    const { l1, adapters, lanes } = this.#parts
    for (const lane of lanes()) {
      if (!this.#lacks(lane, id, generation)) continue
      const { ranks, tenant } = l1.spaces.spec(l1.order.spaceOf(id))
      const lost = Math.max(1, ranks - lane.marks!.stored(id, generation))
      adapters.countStoreSkipped(lane.adapter, tenant, lost, 'dirty')
    }
  }

  #lacks(lane: StoreLane, id: number, generation: number): boolean {
    if (!lane.adapter.isStorable) return false
    const { ranks } = this.#parts.l1.spaces.spec(this.#parts.l1.order.spaceOf(id))
    return lane.marks!.stored(id, generation) < ranks && this.#parts.isAdmitted(lane, id)
  }

  /** Children before their parents: the order in which they leave. */
  #fill(lane: StoreLane): void {
    const { l1, isAdmitted } = this.#parts
    const { id: ids, generation: generations, count } = this.#oldest
    for (let at = 0; at < count; at += 1) {
      const id = ids[at]!
      const generation = generations[at]!
      const space = l1.order.spaceOf(id)
      const { ranks } = l1.spaces.spec(space)
      if (lane.marks!.handed(id, generation) >= ranks || !isAdmitted(lane, id)) continue
      for (let rank = 0; rank < ranks; rank += 1) if (!lane.push(id, generation, space, rank)) return
    }
  }
}
