import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'

/** Stands for "no run" wherever a run number is expected. */
export const NO_RUN = -1

export const RUN_FREE = 0
/** Its bytes are being computed or loaded; nobody else finds it. */
export const RUN_FILLING = 1
/** Readable, and found by its chunk hash. */
export const RUN_SHARED = 2
/** Readable by its holders only: a duplicate, a tail, or removed while held. */
export const RUN_PRIVATE = 3

/**
 * The runs of the pool in parallel typed arrays. A run is the blocks of one chunk, or of the tail of a request.
 * Free runs are a stack through `newer`.
 */
export class RunTable {
  readonly capacity: number
  readonly state: Uint8Array
  readonly space: Int32Array
  /** HASH_WORDS words a run. */
  readonly hash: Uint32Array
  /** 0: was removed while filling, or has no identity: it never becomes shared. */
  readonly shareable: Uint8Array
  readonly firstBlock: Int32Array
  readonly blocks: Int32Array
  /** Tables of requests that hold the run. */
  readonly references: Int32Array
  /** Transfers queued or in flight, by direction. */
  readonly stores: Int32Array
  readonly loads: Int32Array
  readonly allocatedMs: Float64Array
  readonly accessedMs: Float64Array
  // Recency list of unheld shared runs; [capacity] is the sentinel.
  readonly newer: Int32Array
  readonly older: Int32Array
  #freeHead: number
  #listed = 0

  constructor(capacity: number) {
    this.capacity = capacity
    this.state = new Uint8Array(capacity)
    this.space = new Int32Array(capacity)
    this.hash = new Uint32Array(capacity * HASH_WORDS)
    this.shareable = new Uint8Array(capacity)
    this.firstBlock = new Int32Array(capacity)
    this.blocks = new Int32Array(capacity)
    this.references = new Int32Array(capacity)
    this.stores = new Int32Array(capacity)
    this.loads = new Int32Array(capacity)
    this.allocatedMs = new Float64Array(capacity)
    this.accessedMs = new Float64Array(capacity)
    this.newer = new Int32Array(capacity + 1).map((_, run) => (run + 1 < capacity ? run + 1 : NO_RUN))
    this.older = new Int32Array(capacity + 1)
    this.newer[capacity] = capacity
    this.older[capacity] = capacity
    this.#freeHead = capacity > 0 ? 0 : NO_RUN
  }

  /** Runs in the recency list. */
  get listed(): number {
    return this.#listed
  }

  /** A free run, now RUN_FILLING. There is always one while there is a free block: a run has at least one block. */
  take(): number {
    const run = this.#freeHead
    this.#freeHead = this.newer[run]!
    this.state[run] = RUN_FILLING
    return run
  }

  give(run: number): void {
    this.state[run] = RUN_FREE
    this.newer[run] = this.#freeHead
    this.#freeHead = run
  }

  setHash(run: number, chain: HashChain, index: number): void {
    const from = index * HASH_WORDS
    for (let word = 0; word < HASH_WORDS; word += 1) {
      this.hash[run * HASH_WORDS + word] = chain.words[from + word]!
    }
  }

  /** Held by a request or by a transfer. */
  isHeld(run: number): boolean {
    return this.references[run]! + this.stores[run]! + this.loads[run]! > 0
  }

  /** The run to evict next, or NO_RUN. */
  oldest(): number {
    return this.#listed === 0 ? NO_RUN : this.newer[this.capacity]!
  }

  /** Puts a run at the recent end of the list. */
  list(run: number): void {
    const root = this.capacity
    const newest = this.older[root]!
    this.newer[newest] = run
    this.older[run] = newest
    this.newer[run] = root
    this.older[root] = run
    this.#listed += 1
  }

  unlist(run: number): void {
    const newer = this.newer[run]!
    const older = this.older[run]!
    this.newer[older] = newer
    this.older[newer] = older
    this.#listed -= 1
  }
}
