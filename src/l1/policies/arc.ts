import { type ChunkTable, NO_CHUNK } from '../chunk-table.ts'
import { GhostPrints } from './ghost-prints.ts'
import { FIRST_QUEUE, ParkingQueues, SECOND_QUEUE } from './parking-queues.ts'
import type { EvictionPolicy } from './policy.ts'

const RECENT = FIRST_QUEUE
const FREQUENT = SECOND_QUEUE

/**
 * ARC (Megiddo and Modha, FAST 2003): a list of chunks seen once and a list of chunks asked for again, both by recency,
 * with a memory of what each lost. A chunk that comes back from a memory says that its list should have been longer,
 * and moves the target.
 *
 *   new ----------------------> recent --- asked for again ---> frequent
 *   remembered by either -----------------------------------> frequent, and the target of `recent` moves
 *   victim: the oldest of `recent` while that is longer than its target, else the oldest of `frequent`
 *
 * Leaf first through ParkingQueues. Sizes are in chunks, and the size of the cache is what it holds at the time, for
 * L1 is bounded in bytes.
 */
export class ArcPolicy implements EvictionPolicy {
  readonly name = 'arc'
  readonly #queues: ParkingQueues
  readonly #ghosts: GhostPrints
  readonly #recentTarget = new Float64Array(1) // a field would be boxed at each change

  constructor(table: ChunkTable) {
    this.#queues = new ParkingQueues(table)
    this.#ghosts = new GhostPrints(table.words, table.capacity)
  }

  get bytes(): number {
    return this.#queues.bytes + this.#ghosts.bytes
  }

  admit(id: number): void {
    const recentLost = this.#ghosts.counts[RECENT]!
    const frequentLost = this.#ghosts.counts[FREQUENT]!
    const list = this.#ghosts.take(id)
    if (list === RECENT) this.#aim(1, frequentLost, recentLost)
    else if (list === FREQUENT) this.#aim(-1, recentLost, frequentLost)
    this.#queues.add(id, list === 0 ? RECENT : FREQUENT)
  }

  hold(_id: number): void {}

  free(id: number): void {
    this.#queues.unpark(id)
  }

  touch(id: number): void {
    this.#queues.renew(id, FREQUENT)
  }

  ripen(id: number): void {
    this.#queues.unpark(id)
  }

  forget(id: number, isEvicted: boolean): void {
    if (isEvicted) this.#ghosts.add(id, this.#queues.queueOf(id))
    this.#queues.drop(id)
  }

  victim(): number {
    const queue = this.#queues.sizes[RECENT]! > this.#recentTarget[0]! ? RECENT : FREQUENT
    const id = this.#queues.oldest(queue)
    return id === NO_CHUNK ? this.#queues.oldest(queue === RECENT ? FREQUENT : RECENT) : id
  }

  verify(): void {
    this.#queues.verify()
  }

  /** Moves the target by `other / lost` chunks, at least by one. */
  #aim(sign: 1 | -1, other: number, lost: number): void {
    const size = this.#queues.sizes[RECENT]! + this.#queues.sizes[FREQUENT]!
    const target = this.#recentTarget[0]! + sign * Math.max(1, other / lost)
    this.#recentTarget[0] = Math.min(size, Math.max(0, target))
  }
}
