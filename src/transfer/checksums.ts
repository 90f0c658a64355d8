import type { Clock } from '../core/clock.ts'
import { NO_LEASE } from '../core/ids.ts'
import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { SumList } from '../l1/shard-sums.ts'
import { SlotList } from '../l1/slot-list.ts'

/** Computes checksums of arena bytes on other threads. */
export interface ChecksumPort {
  /** The crc32 of each range: the checksum of objects in L2, too. Rejects when nobody is left to ask. */
  sums(offsets: Float64Array, lengths: Float64Array): Promise<Uint32Array>
}

export interface ChecksumsParts {
  readonly l1: L1Cache
  readonly clock: Clock
  readonly port: ChecksumPort
  /** Bytes that a batch leases at most, or one shard; absent: 32 MiB. */
  readonly batchBytes?: number
  readonly onError: (where: string, error: unknown) => void
}

const QUEUE_SHARDS = 16_384
const BATCH_SHARDS = 64
const BATCH_BYTES = 32 * 1024 * 1024
const BATCHES = 2
/** Shards are summed this long after they became readable: several at once. */
const DELAY_MS = 5
const SCAN_RECORDS = 16_384
const VERIFIED_AT_ONCE = 256

/**
 * Checksums of what is in L1. Each shard is summed soon after it became readable, from the arena, on an io worker and
 * under an internal lease. What is resident when the engine is killed is verified when the next one takes it over.
 * Stores cannot evict what is leased, so little is at a time.
 *
 *   readable -> queue (bounded) -> batch of one rank: lease, sum, keep, release
 *                  '--(full)--> found again by a scan of the table, once the queue is empty
 */
export class Checksums {
  readonly #parts: ChecksumsParts
  readonly #id = new Uint32Array(QUEUE_SHARDS)
  readonly #generation = new Uint32Array(QUEUE_SHARDS)
  readonly #rank = new Uint8Array(QUEUE_SHARDS)
  #head = 0
  #count = 0
  #inflight = 0
  #isScheduled = false
  #isLost = false
  /** Where the scan for shards without a checksum goes on; -1 = there is none to make. */
  #scanFrom = -1

  constructor(parts: ChecksumsParts) {
    this.#parts = parts
  }

  /** Shards that wait, those that only a scan will find aside. */
  get waiting(): number {
    return this.#count
  }

  /** A shard became readable. Allocates nothing. */
  note(id: number, generation: number, rank: number): void {
    if (this.#count === QUEUE_SHARDS) {
      this.#scanFrom = 0
      return
    }
    const at = (this.#head + this.#count) % QUEUE_SHARDS
    this.#id[at] = id
    this.#generation[at] = generation
    this.#rank[at] = rank
    this.#count += 1
    this.#schedule()
  }

  /** Sums what has no checksum, wherever it is: after a restart. */
  scan(): void {
    this.#scanFrom = 0
    this.#schedule()
  }

  /**
   * Compares every shard that has a checksum with its bytes, and removes what differs with all that follows it. Nothing
   * else may use L1 meanwhile. @returns shards compared, and found wrong.
   */
  async verifyAll(onProgress?: (bytesDone: number) => void): Promise<{ shards: number; corrupt: number }> {
    const { l1 } = this.#parts
    let shards = 0
    let corrupt = 0
    let bytes = 0
    let next = 0
    const worker = async () => {
      const list = new SumList(VERIFIED_AT_ONCE)
      while (next >= 0) {
        next = l1.sums.list(next, list)
        if (list.count === 0) return
        const offsets = list.offset.slice(0, list.count)
        const lengths = list.length.slice(0, list.count)
        const found = await this.#parts.port.sums(offsets, lengths)
        for (let row = 0; row < list.count; row += 1) {
          bytes += lengths[row]!
          if (found[row] === list.sum[row]) continue
          corrupt += 1
          l1.dropCorrupt(list.shard[row]!)
        }
        shards += list.count
        onProgress?.(bytes)
      }
    }
    await Promise.all(Array.from({ length: BATCHES }, worker))
    return { shards, corrupt }
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isLost) return
    this.#isScheduled = true
    this.#parts.clock.schedule(DELAY_MS, () => {
      this.#isScheduled = false
      this.#pump()
    })
  }

  #pump(): void {
    while (this.#inflight < BATCHES && !this.#isLost) {
      if (this.#count === 0 && !this.#lookForMore()) return
      const { room } = this.#parts.l1.runs
      if (room === 0) {
        this.#schedule()
        return
      }
      const refs = new ChunkRefs()
      const rank = this.#takeBatch(refs, Math.min(BATCH_SHARDS, room))
      this.#inflight += 1
      this.#sum(refs, rank)
        .catch((error: unknown) => {
          this.#isLost = true // nobody computes them any more
          this.#parts.onError('checksums', error)
        })
        .finally(() => {
          this.#inflight -= 1
          if (this.#count > 0 || this.#scanFrom >= 0) this.#schedule()
        })
    }
  }

  /** Shards of one rank from the queue, at most `most`. @returns the rank. */
  #takeBatch(refs: ChunkRefs, most: number): number {
    const { l1, batchBytes = BATCH_BYTES } = this.#parts
    const rank = this.#rank[this.#head]!
    let bytes = 0
    while (this.#count > 0 && this.#rank[this.#head] === rank && refs.count < most) {
      const id = this.#id[this.#head]!
      const isThere = l1.queries.isLive(id, this.#generation[this.#head]!)
      bytes += isThere ? l1.spaces.spec(l1.queries.spaceOf(id)).shardBytes : 0
      if (refs.count > 0 && bytes > batchBytes) break
      refs.push(id, this.#generation[this.#head]!)
      this.#head = (this.#head + 1) % QUEUE_SHARDS
      this.#count -= 1
    }
    return rank
  }

  async #sum(refs: ChunkRefs, rank: number): Promise<void> {
    const { l1, port } = this.#parts
    const present = new Uint8Array(refs.count)
    const lease = l1.leaseRefs(refs, 0, refs.count, rank, Number.POSITIVE_INFINITY, present)
    if (lease === NO_LEASE) return
    try {
      const slots = new SlotList()
      l1.slots(lease, rank, 0, refs.count, slots)
      const { count } = slots
      const sums = await port.sums(slots.offset.slice(0, count), slots.length.slice(0, count))
      for (let row = 0; row < count; row += 1) l1.sums.set(refs.id[slots.chainIndex[row]!]!, rank, sums[row]!)
    } finally {
      l1.release(lease)
    }
  }

  /** Goes on with a scan, if there is one to make. @returns whether the queue has something now. */
  #lookForMore(): boolean {
    const refs = new ChunkRefs()
    const ranks: number[] = []
    while (this.#scanFrom >= 0 && refs.count === 0) {
      this.#scanFrom = this.#parts.l1.sums.lacking(this.#scanFrom, SCAN_RECORDS, refs, ranks)
    }
    for (let at = 0; at < refs.count; at += 1) this.note(refs.id[at]!, refs.generation[at]!, ranks[at]!)
    return this.#count > 0
  }
}
