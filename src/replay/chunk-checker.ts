import type { HashChain } from '../core/hash-chain.ts'
import { matchesPattern } from './chunk-pattern.ts'
import type { ReplayCounts } from './replay-counts.ts'

/** Compares one of every so many fetched chunks with what was stored under its hash. */
export class ChunkChecker {
  readonly #every: number
  readonly #counts: ReplayCounts
  readonly #scratch: Uint8Array
  #seen = 0

  /** @param every 1 = all, 0 = none. */
  constructor(every: number, chunkBytes: number, counts: ReplayCounts) {
    this.#every = every
    this.#counts = counts
    this.#scratch = new Uint8Array(every === 0 ? 0 : chunkBytes)
  }

  check(bytes: Uint8Array, chain: HashChain, index: number): void {
    this.#seen += 1
    if (this.#every === 0 || this.#seen % this.#every !== 0) return
    this.#counts.verifiedChunks += 1
    if (!matchesPattern(bytes, chain, index, this.#scratch)) this.#counts.corruptChunks += 1
  }
}
