import { CacheError } from '../core/errors.ts'
import { HASH_BYTES, type HashChain } from '../core/hash-chain.ts'

/** A place where chunks are hashed, one slice at a time. */
export interface HashLane {
  /**
   * The hashes, end to end, of the whole chunks of `tokens` behind the chunk whose hash is `parent`. The answer is valid
   * until the next call.
   */
  hash(parent: Uint8Array, tokens: Uint32Array, chunkTokens: number): Promise<Uint8Array>
}

/** One slice at most: about 0.2 ms of hashing. What is asked for next waits no longer for a prompt of any length. */
export const SLICE_TOKENS_MAX = 32_768
export const SLICE_CHUNKS_MAX = 512

/** Prompts of one asker that wait at most. */
const PROMPTS_MAX = 1_024

/** The prompts of one asker, in turn. */
interface Asker {
  readonly key: object
  /** Those that wait for their next slice. */
  readonly waiting: Job[]
  /** Those that are open: waiting, or with a slice under way. */
  readonly open: Set<Job>
}

interface Job {
  readonly asker: Asker
  readonly chain: HashChain
  readonly tokens: Uint32Array
  readonly chunkTokens: number
  readonly settle: (isWhole: boolean) => void
  readonly fail: (error: unknown) => void
  isOver: boolean
}

/**
 * Prompts that wait to be hashed, in slices. Askers take turns, and so do the prompts of one asker: a short prompt waits
 * for one slice of each other, however long they are.
 *
 *     asker A   [long 3/32] [long 0/8]    turns:  A  B  C  A  B  A  A ...     each turn is one slice of one prompt,
 *     asker B   [short 0/1]                                                  on the lane that is free first
 *     asker C   [short 0/1]
 *
 * A chain grows with each slice, and is right at any length: what was cancelled goes on later from where it was left.
 */
export class HashQueue {
  readonly #root: Uint8Array
  readonly #free: HashLane[]
  readonly #onLost: (lane: HashLane, error: unknown) => HashLane
  readonly #askers = new Map<object, Asker>()
  readonly #turns: Asker[] = []
  readonly #jobs = new Map<HashChain, Job>()

  /**
   * @param root the parent of first chunks.
   * @param onLost gives the lane that takes the place of one that failed.
   */
  constructor(root: Uint8Array, lanes: readonly HashLane[], onLost: (lane: HashLane, error: unknown) => HashLane) {
    this.#root = root
    this.#free = [...lanes]
    this.#onLost = onLost
  }

  /** Prompts that wait or are being hashed. */
  get count(): number {
    return this.#jobs.size
  }

  /**
   * Appends to `chain`, slice by slice, the whole chunks of `tokens` that it does not hold yet.
   *
   * @returns false when it was cancelled before the chain held them all. @throws CacheError TOO_MANY_PROMPTS
   */
  extend(chain: HashChain, tokens: Uint32Array, chunkTokens: number, askerKey: object): Promise<boolean> {
    const asker = this.#askers.get(askerKey) ?? { key: askerKey, waiting: [], open: new Set() }
    if (asker.open.size >= PROMPTS_MAX) {
      const message = `${PROMPTS_MAX} prompts of this client wait to be hashed already`
      return Promise.reject(new CacheError('TOO_MANY_PROMPTS', message))
    }
    this.#askers.set(askerKey, asker)
    return new Promise((settle, fail) => {
      const job: Job = { asker, chain, tokens, chunkTokens, settle, fail, isOver: false }
      asker.open.add(job)
      this.#jobs.set(chain, job)
      this.#wait(job)
      this.#next()
    })
  }

  /** Ends the hashing of a chain, if it is under way. */
  cancel(chain: HashChain): void {
    const job = this.#jobs.get(chain)
    if (job !== undefined) this.#end(job).settle(false)
  }

  /** An asker is gone: ends the hashing of its prompts. */
  leave(askerKey: object): void {
    for (const job of this.#askers.get(askerKey)?.open ?? []) this.#end(job).settle(false)
  }

  #wait(job: Job): void {
    const { asker } = job
    asker.waiting.push(job)
    if (asker.waiting.length === 1) this.#turns.push(asker)
  }

  /** Starts slices while there are both lanes and prompts. */
  #next(): void {
    while (this.#free.length > 0 && this.#turns.length > 0) {
      const asker = this.#turns.shift()!
      const job = asker.waiting.shift()!
      if (asker.waiting.length > 0) this.#turns.push(asker)
      void this.#run(this.#free.shift()!, job)
    }
  }

  async #run(lane: HashLane, job: Job): Promise<void> {
    const { chain, tokens, chunkTokens } = job
    const first = chain.count
    const chunks = Math.min(sliceChunks(chunkTokens), Math.floor(tokens.length / chunkTokens) - first)
    const slice = tokens.subarray(first * chunkTokens, (first + chunks) * chunkTokens)
    const parent = first === 0 ? this.#root : chain.at(first - 1)
    try {
      const hashes = await lane.hash(parent, slice, chunkTokens)
      if (!job.isOver) this.#append(job, hashes)
      this.#free.push(lane)
    } catch (error) {
      this.#replace(lane, job, error)
    }
    this.#next()
  }

  #append(job: Job, hashes: Uint8Array): void {
    const { chain, tokens, chunkTokens } = job
    const chunks = Math.floor(tokens.length / chunkTokens)
    chain.ensureCapacity(chunks)
    chain.bytes.set(hashes, chain.count * HASH_BYTES)
    chain.count += hashes.length / HASH_BYTES
    if (chain.count < chunks) this.#wait(job)
    else this.#end(job).settle(true)
  }

  /** A lane failed: its slice is done again on another, unless there is none. */
  #replace(lane: HashLane, job: Job, error: unknown): void {
    try {
      this.#free.push(this.#onLost(lane, error))
      if (!job.isOver) this.#wait(job)
    } catch (reason) {
      if (!job.isOver) this.#end(job).fail(reason)
    }
  }

  #end(job: Job): Job {
    const { asker } = job
    job.isOver = true
    this.#jobs.delete(job.chain)
    asker.open.delete(job)
    const at = asker.waiting.indexOf(job)
    if (at >= 0) asker.waiting.splice(at, 1)
    if (at >= 0 && asker.waiting.length === 0) this.#turns.splice(this.#turns.indexOf(asker), 1)
    if (asker.open.size === 0) this.#askers.delete(asker.key)
    return job
  }
}

/** Chunks of one slice. */
function sliceChunks(chunkTokens: number): number {
  return Math.max(1, Math.min(SLICE_CHUNKS_MAX, Math.floor(SLICE_TOKENS_MAX / chunkTokens)))
}
