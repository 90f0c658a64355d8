import { createBLAKE3, type IHasher } from 'hash-wasm'
import { assert } from './assert.ts'
import { HASH_BYTES, type HashChain } from './hash-chain.ts'

const TOKEN_BYTES = 4

/**
 * The reference chain of chunk hashes (spec/mp-wire.md, "Keys"): h(i) = blake3(h(i-1) || tokens as big-endian u32),
 * over whole chunks only; h(-1), the root, is blake3 of 12 zero bytes. About 1.4 us a chunk of 256 tokens.
 * Not reentrant: one hasher a thread.
 */
export class ChunkHasher {
  readonly #blake3: IHasher
  /** The parent of every first chunk, 32 bytes. */
  readonly root: Uint8Array
  #input = new Uint8Array(0)
  #view = new DataView(this.#input.buffer)

  private constructor(blake3: IHasher) {
    this.#blake3 = blake3
    this.root = this.#digest(new Uint8Array(12))
  }

  static async create(): Promise<ChunkHasher> {
    return new ChunkHasher(await createBLAKE3())
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
    chain.ensureCapacity(chunks)
    this.#ensureInput(HASH_BYTES + chunkTokens * TOKEN_BYTES)
    for (let chunk = chain.count; chunk < chunks; chunk += 1) {
      this.#input.set(chunk === 0 ? this.root : chain.at(chunk - 1))
      const first = chunk * chunkTokens
      for (let token = 0; token < chunkTokens; token += 1) {
        this.#view.setUint32(HASH_BYTES + token * TOKEN_BYTES, tokens[first + token]!)
      }
      chain.bytes.set(this.#digest(this.#input), chunk * HASH_BYTES)
      chain.count = chunk + 1
    }
    return chunks
  }

  #digest(input: Uint8Array): Uint8Array {
    return this.#blake3.init().update(input).digest('binary')
  }

  #ensureInput(bytes: number): void {
    if (this.#input.length === bytes) return
    this.#input = new Uint8Array(bytes)
    this.#view = new DataView(this.#input.buffer)
  }
}
