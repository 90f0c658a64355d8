import { assert } from '../core/assert.ts'
import type { HashChain } from '../core/hash-chain.ts'
import type { LeaseId, SpaceId } from '../core/ids.ts'
import type { L1Recorder } from './l1-recorder.ts'
import type { ReadLeases } from './read-leases.ts'

/** Read leases on leading runs, for lookups: each chunk is looked for once. */
export class LeaseRuns {
  readonly #readers: ReadLeases
  readonly #recorder: L1Recorder

  constructor(readers: ReadLeases, recorder: L1Recorder) {
    this.#readers = readers
    this.#recorder = recorder
  }

  /** Chunks or shards that one more lease may name now; 0 = the table of leases is full. */
  get room(): number {
    return this.#readers.room
  }

  /** Chunks of the run that `lease` found last, whether or not it is leased. */
  get chunks(): number {
    return this.#readers.lastRun
  }

  /**
   * A read lease on the leading run of chunks [from, to) whose every shard is readable, as `L1Cache.lease` gives it.
   *
   * @returns NO_LEASE when the run is empty, or the lease table is full.
   */
  lease(space: SpaceId, chain: HashChain, from: number, to: number, owner: number, ttlMs: number): LeaseId {
    assert(from >= 0 && to <= chain.count, 'lease out of range')
    this.#recorder.tick()
    const lease = this.#readers.openRun(space, chain, from, to, owner, this.#recorder.timeMs + ttlMs)
    this.#recorder.endBatch()
    return lease
  }
}
