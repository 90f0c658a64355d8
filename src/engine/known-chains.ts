import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'

const FACTOR = 0x9e37_79b1
/** Remembered prompts at most that one prompt is compared with: fingerprints may be made to collide. */
const COMPARED_MAX = 4

interface Known {
  readonly space: SpaceId
  readonly tokens: Uint32Array
  readonly chain: HashChain
  /** Chunks of `chain` that are those of `tokens`. */
  readonly chunks: number
  readonly keys: readonly number[]
}

/**
 * The chains of prompts that were hashed lately. The next turn of a conversation begins with the one before, and many
 * conversations begin with one system prompt: what they share is compared, which is ten times as fast as hashing.
 *
 *     remembered    |----|----|---------|-------------------|--------|      found by fingerprints of its first
 *                   1    2    4         8                  16       20      1, 2, 4, 8, ... chunks, and of all
 *     asked         |===============================================-----|
 *                    equal tokens: their hashes are taken over       hashed
 *
 * A fingerprint only says what to compare; tokens decide. Spaces never meet: nobody learns from the time of an answer
 * what another tenant asked. Bounded in bytes of tokens: the prompt that was of use longest ago is forgotten.
 */
export class KnownChains {
  readonly #bytesMax: number
  readonly #prompts = new Map<HashChain, Known>()
  readonly #byKey = new Map<number, Known>()
  /** Of the first 1, 2, 3, ... chunks of the prompt at hand. */
  #prints = new Uint32Array(64)
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get count(): number {
    return this.#prompts.size
  }

  /** Bytes of the tokens that are kept. */
  get bytes(): number {
    return this.#bytes
  }

  /** Remembers what `chain` was made of; the tokens stay as they are from now on. Replaces what it was made of before. */
  remember(space: SpaceId, tokens: Uint32Array, chain: HashChain, chunkTokens: number): void {
    this.#forget(chain)
    this.#print(space, tokens, chain.count, chunkTokens)
    const keys: number[] = []
    for (let chunks = 1; chunks < chain.count; chunks *= 2) keys.push(this.#keyOf(chunks))
    if (chain.count > 0) keys.push(this.#keyOf(chain.count))
    const known = { space, tokens, chain, chunks: chain.count, keys }
    this.#prompts.set(chain, known)
    this.#bytes += tokens.buffer.byteLength
    for (const key of keys) this.#byKey.set(key, known)
    while (this.#bytes > this.#bytesMax) this.#forget(this.#prompts.keys().next().value!)
  }

  /** Takes over into an empty `chain` the hashes of the longest known beginning of `tokens`. @returns its chunks. */
  recall(space: SpaceId, tokens: Uint32Array, chain: HashChain, chunkTokens: number): number {
    let best: Known | null = null
    let shared = 0
    let compared = 0
    const whole = Math.floor(tokens.length / chunkTokens)
    this.#print(space, tokens, whole, chunkTokens)
    for (let chunks = whole; chunks > shared; chunks -= 1) {
      const known = this.#byKey.get(this.#keyOf(chunks))
      if (known === undefined || known.space !== space || known.chunks < chunks) continue
      const run = sharedChunks(known, tokens, chunks, chunkTokens)
      if (run > shared) [best, shared] = [known, run]
      compared += 1
      if (compared === COMPARED_MAX) break
    }
    if (best === null) return 0
    this.#prompts.delete(best.chain)
    this.#prompts.set(best.chain, best)
    chain.ensureCapacity(shared)
    chain.words.set(best.chain.words.subarray(0, shared * HASH_WORDS))
    chain.count = shared
    return shared
  }

  /** A safe integer. */
  #keyOf(chunks: number): number {
    return (chunks % 2 ** 21) * 2 ** 32 + this.#prints[chunks - 1]!
  }

  /** Four tokens at a time: a processor does them side by side. */
  #print(space: SpaceId, tokens: Uint32Array, chunks: number, chunkTokens: number): void {
    if (this.#prints.length < chunks) this.#prints = new Uint32Array(2 * chunks)
    let print = space | 0
    for (let chunk = 0, at = 0; chunk < chunks; chunk += 1) {
      const end = at + chunkTokens
      let [a, b, c, d] = [print, 1, 2, 3]
      for (; at + 4 <= end; at += 4) {
        a = Math.imul(a ^ tokens[at]!, FACTOR)
        b = Math.imul(b ^ tokens[at + 1]!, FACTOR)
        c = Math.imul(c ^ tokens[at + 2]!, FACTOR)
        d = Math.imul(d ^ tokens[at + 3]!, FACTOR)
      }
      for (; at < end; at += 1) a = Math.imul(a ^ tokens[at]!, FACTOR)
      print = Math.imul(a ^ (b >>> 5) ^ (c << 7) ^ (d >>> 11), FACTOR)
      print ^= print >>> 15
      this.#prints[chunk] = print
    }
  }

  #forget(chain: HashChain): void {
    const known = this.#prompts.get(chain)
    if (known === undefined) return
    this.#prompts.delete(chain)
    this.#bytes -= known.tokens.buffer.byteLength
    for (const key of known.keys) if (this.#byKey.get(key) === known) this.#byKey.delete(key)
  }
}

/** Whole chunks from the first on that are equal; `likely` are so in all likelihood. */
function sharedChunks(known: Known, tokens: Uint32Array, likely: number, chunkTokens: number): number {
  const most = Math.min(known.chunks, Math.floor(tokens.length / chunkTokens))
  const chunkBytes = 4 * chunkTokens
  const [one, other] = [bytesOf(known.tokens), bytesOf(tokens)]
  const isEqual = (from: number, to: number) => one.compare(other, from, to, from, to) === 0
  let shared = isEqual(0, likely * chunkBytes) ? likely : 0
  while (shared < most && isEqual(shared * chunkBytes, (shared + 1) * chunkBytes)) shared += 1
  return shared
}

function bytesOf(words: Uint32Array): Buffer {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength)
}
