import type { ChunkHasher } from '../core/chunk-hash.ts'
import { HASH_BYTES, type HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import { type HashLane, HashQueue } from './hash-queue.ts'
import { KnownChains } from './known-chains.ts'

/** Tokens of remembered prompts, in bytes. */
const KNOWN_BYTES_MAX = 64 * 1024 * 1024
/** Longer prompts are hashed anew: to find them takes this thread longer, up to 0.7 ms, than others may wait. */
const KNOWN_TOKENS_MAX = 262_144

/** A prompt to hash. */
export interface PromptQuery {
  /** They stay as they are from now on. */
  readonly tokens: Uint32Array
  readonly chunkTokens: number
  /** Whose prompts it may be compared with; null = nobody's. */
  readonly space: SpaceId | null
  /** Who asks: see `HashQueue`. */
  readonly asker: object
}

export interface PromptHasherOptions {
  /** Chunks that are hashed in place. */
  readonly inlineChunks: number
  /** Told when a lane failed: from then on its slices are hashed in place. */
  readonly onLost?: (error: unknown) => void
}

/**
 * Turns prompts into chains. What was hashed lately is not hashed again; short rests are hashed in place, long ones by
 * other threads, in fair turns, so that the data thread never stalls.
 */
export class PromptHasher {
  readonly #hasher: ChunkHasher
  readonly #inlineChunks: number
  readonly #queue: HashQueue | null
  readonly #known = new KnownChains(KNOWN_BYTES_MAX)

  /** @param lanes none hashes everything in place. */
  constructor(
    hasher: ChunkHasher,
    lanes: readonly HashLane[],
    { inlineChunks, onLost = () => {} }: PromptHasherOptions,
  ) {
    this.#hasher = hasher
    this.#inlineChunks = inlineChunks
    const replace = (_lane: HashLane, error: unknown) => {
      onLost(error)
      return hereLane(hasher)
    }
    this.#queue = lanes.length === 0 ? null : new HashQueue(hasher.root, lanes, replace)
  }

  /** The parent of every first chunk, 32 bytes. */
  get root(): Uint8Array {
    return this.#hasher.root
  }

  /** Prompts that other threads hash, or that wait for them. */
  get waiting(): number {
    return this.#queue?.count ?? 0
  }

  /**
   * Appends to `chain` the whole chunks of a prompt that it does not hold yet; those it holds must be the prompt's first.
   * It grows meanwhile, and is right at any time.
   *
   * @returns true at once when there was little to do; else, later, whether it was done: false = cancelled.
   * @throws CacheError TOO_MANY_PROMPTS, later
   */
  extend(chain: HashChain, query: PromptQuery): true | Promise<boolean> {
    const { tokens, chunkTokens, space, asker } = query
    const chunks = Math.floor(tokens.length / chunkTokens)
    if (chain.count === 0 && space !== null && this.#isWorthKnowing(tokens, chunks)) {
      if (this.#known.recall(space, tokens, chain, chunkTokens) === chunks) return true
    }
    if (this.#queue === null || chunks - chain.count <= this.#inlineChunks) {
      this.#hasher.extend(chain, tokens, chunkTokens)
      this.#remember(chain, query)
      return true
    }
    return this.#queue.extend(chain, tokens, chunkTokens, asker).then((isWhole) => {
      if (isWhole) this.#remember(chain, query)
      return isWhole
    })
  }

  /** Ends the hashing of a chain, if it is under way. */
  cancel(chain: HashChain): void {
    this.#queue?.cancel(chain)
  }

  /** Whoever asks for prompts is gone: ends the hashing of them. */
  leave(asker: object): void {
    this.#queue?.leave(asker)
  }

  #isWorthKnowing({ length }: Uint32Array, chunks: number): boolean {
    return chunks > this.#inlineChunks && length <= KNOWN_TOKENS_MAX
  }

  #remember(chain: HashChain, { tokens, chunkTokens, space }: PromptQuery): void {
    if (space !== null && this.#isWorthKnowing(tokens, chain.count)) {
      this.#known.remember(space, tokens, chain, chunkTokens)
    }
  }
}

/** Hashes slices on this thread, one a turn of its loop. */
function hereLane(hasher: ChunkHasher): HashLane {
  return {
    async hash(parent, tokens, chunkTokens) {
      await new Promise<void>((resolve) => setImmediate(resolve))
      const hashes = new Uint8Array(Math.floor(tokens.length / chunkTokens) * HASH_BYTES)
      hasher.hashRun(parent, tokens, chunkTokens, hashes)
      return hashes
    },
  }
}
