import { createBLAKE3, type IHasher } from 'hash-wasm'
import { assert } from './assert.ts'
import { HASH_BYTES, type HashChain } from './hash-chain.ts'

const TOKEN_BYTES = 4

/** Does what `ChunkHasher.hashRun` does, in one call. */
export type HashRun = (parent: Uint8Array, tokens: Uint32Array, chunkTokens: number, hashes: Uint8Array) => void

/**
 * The reference chain of chunk hashes (spec/mp-wire.md, "Keys"): h(i) = blake3(h(i-1) || tokens as big-endian u32),
 * over whole chunks only; h(-1), the root, is blake3 of 12 zero bytes. A chunk of 256 tokens takes 1.7 us in WebAssembly,
 * 1.1 in native code.
 * Not reentrant: one hasher a thread.
 */
export class ChunkHasher {
  readonly #blake3: IHasher
  readonly #native: HashRun | null
  /** The parent of every first chunk, 32 bytes. */
  readonly root: Uint8Array
  #input = Buffer.alloc(0)
  /** The tokens in `#input`, behind the parent. */
  #packed = this.#input

  private constructor(blake3: IHasher, native: HashRun | null) {
    this.#blake3 = blake3
    this.#native = native
    this.root = this.#digest(new Uint8Array(12))
  }

  /** @param native hashes in place of WebAssembly, to the same bytes. */
  static async create(native: HashRun | null = null): Promise<ChunkHasher> {
    return new ChunkHasher(await createBLAKE3(), native)
  }

  /**
   * Appends to `chain` the hashes of the whole chunks of `tokens` that it does not hold yet. The first
   * `chain.count` chunks of `tokens` must be those that the chain was made of.
   *
   * @returns whole chunks of `tokens`, which is the new `chain.count`.
   */
  extend(chain: HashChain, tokens: Uint32Array, chunkTokens: number): number {
    assert(chunkTokens > 0, 'a chunk without tokens')
    const chunks = Math.floor(tokens.length / chunkTokens)
    const { count } = chain
    if (chunks <= count) return chunks
    chain.ensureCapacity(chunks)
    const parent = count === 0 ? this.root : chain.at(count - 1)
    this.hashRun(parent, tokens.subarray(count * chunkTokens), chunkTokens, chain.bytes.subarray(count * HASH_BYTES))
    chain.count = chunks
    return chunks
  }

  /** Writes to `hashes`, end to end, those of the whole chunks of `tokens` behind the chunk whose hash is `parent`. */
  hashRun(parent: Uint8Array, tokens: Uint32Array, chunkTokens: number, hashes: Uint8Array): void {
    if (this.#native !== null) {
      this.#native(parent, tokens, chunkTokens, hashes)
      return
    }
    const chunkBytes = chunkTokens * TOKEN_BYTES
    const chunks = Math.floor(tokens.length / chunkTokens)
    this.#ensureInput(HASH_BYTES + chunkBytes)
    const words = new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength)
    this.#input.set(parent)
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      this.#packed.set(words.subarray(chunk * chunkBytes, (chunk + 1) * chunkBytes))
      this.#packed.swap32()
      const hash = this.#digest(this.#input)
      hashes.set(hash, chunk * HASH_BYTES)
      this.#input.set(hash)
    }
  }

  #digest(input: Uint8Array): Uint8Array {
    return this.#blake3.init().update(input).digest('binary')
  }

  #ensureInput(bytes: number): void {
    if (this.#input.length === bytes) return
    this.#input = Buffer.alloc(bytes)
    this.#packed = this.#input.subarray(HASH_BYTES)
  }
}
