import { type ChunkTable, NO_CHUNK } from '../chunk-table.ts'
import { GhostPrints } from './ghost-prints.ts'
import { FIRST_QUEUE, ParkingQueues, SECOND_QUEUE } from './parking-queues.ts'
import type { EvictionPolicy } from './policy.ts'

const SMALL = FIRST_QUEUE
const MAIN = SECOND_QUEUE
const SMALL_RATIO = 0.1

/**
 * S3-FIFO (Yang et al., SOSP 2023): a small queue for newcomers, a main queue for what was asked for again, and a
 * memory of what left the small queue. An access only counts up; nothing is moved.
 *
 *   new ------------> small --- asked for again ---> main <---+ asked for again: count down, to the newest end
 *   remembered -------------------------------------> main ---+
 *                     small --- not asked for: evict, remember     main --- count 0: evict
 *
 * Leaf first through ParkingQueues. Where the paper asks for two accesses to leave the small queue, this asks for
 * one: a chunk that is stored and later looked up was seen twice already.
 */
export class S3FifoPolicy implements EvictionPolicy {
  readonly name = 's3-fifo'
  readonly #queues: ParkingQueues
  readonly #ghosts: GhostPrints

  constructor(table: ChunkTable) {
    this.#queues = new ParkingQueues(table)
    this.#ghosts = new GhostPrints(table.words, table.capacity)
  }

  get bytes(): number {
    return this.#queues.bytes + this.#ghosts.bytes
  }

  admit(id: number): void {
    this.#queues.add(id, this.#ghosts.take(id) === 0 ? SMALL : MAIN)
  }

  hold(_id: number): void {}

  free(id: number): void {
    this.#queues.unpark(id)
  }

  touch(id: number): void {
    this.#queues.countUp(id)
  }

  ripen(id: number): void {
    this.#queues.unpark(id)
  }

  forget(id: number, isEvicted: boolean): void {
    if (isEvicted && this.#queues.queueOf(id) === SMALL) this.#ghosts.add(id, 1)
    this.#queues.drop(id)
  }

  victim(): number {
    const queues = this.#queues
    for (;;) {
      const inSmall = queues.sizes[SMALL]!
      const isSmallFull = inSmall > (inSmall + queues.sizes[MAIN]!) * SMALL_RATIO
      const first = queues.oldest(isSmallFull ? SMALL : MAIN)
      const id = first === NO_CHUNK ? queues.oldest(isSmallFull ? MAIN : SMALL) : first
      if (id === NO_CHUNK || queues.countOf(id) === 0) return id
      if (queues.queueOf(id) === MAIN) queues.countDown(id)
      else while (queues.countOf(id) > 0) queues.countDown(id)
      queues.renew(id, MAIN)
    }
  }

  verify(): void {
    this.#queues.verify()
  }
}
