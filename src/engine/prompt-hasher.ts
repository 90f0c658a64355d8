import type { ChunkHasher } from '../core/chunk-hash.ts'
import { HASH_BYTES, HashChain } from '../core/hash-chain.ts'

/** Hashes prompts somewhere else: on an io worker. */
export interface HashPort {
  /** Continues the chain after `chain` (its hashes, end to end) with the chunks of `tokens` behind it. */
  hashTokens(chain: Uint8Array, tokens: Uint32Array, chunkTokens: number): Promise<Uint8Array>
}

/** The worker's side of `HashPort`. */
export class HashHost implements HashPort {
  readonly #hasher: ChunkHasher

  constructor(hasher: ChunkHasher) {
    this.#hasher = hasher
  }

  async hashTokens(known: Uint8Array, tokens: Uint32Array, chunkTokens: number): Promise<Uint8Array> {
    const chain = HashChain.of(known)
    this.#hasher.extend(chain, tokens, chunkTokens)
    return chain.bytes.slice(known.length, chain.count * HASH_BYTES)
  }
}

/** Turns prompts into chains: short ones in place, long ones on an io worker, so that the data thread never stalls. */
export class PromptHasher {
  readonly #hasher: ChunkHasher
  readonly #remote: HashPort | null
  readonly #inlineChunks: number

  /** @param remote null hashes everything in place. */
  constructor(hasher: ChunkHasher, remote: HashPort | null, inlineChunks: number) {
    this.#hasher = hasher
    this.#remote = remote
    this.#inlineChunks = inlineChunks
  }

  /** The parent of every first chunk, 32 bytes. */
  get root(): Uint8Array {
    return this.#hasher.root
  }

  /** Appends the whole chunks of `tokens` that `chain` does not hold yet; `chain` is left alone until it resolves. */
  async extend(chain: HashChain, tokens: Uint32Array, chunkTokens: number): Promise<void> {
    const chunks = Math.floor(tokens.length / chunkTokens)
    if (this.#remote === null || chunks - chain.count <= this.#inlineChunks) {
      this.#hasher.extend(chain, tokens, chunkTokens)
      return
    }
    const known = chain.bytes.slice(0, chain.count * HASH_BYTES)
    const hashes = await this.#remote.hashTokens(known, tokens, chunkTokens)
    chain.ensureCapacity(chunks)
    chain.bytes.set(hashes, known.length)
    chain.count = chunks
  }
}
