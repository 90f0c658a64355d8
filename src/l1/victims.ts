import { assert } from '../core/assert.ts'
import { CHILDREN, CHUNK_WORDS, GENERATION, GENERATION_MASK, HOLDS, INTERNAL_ONE, NO_CHUNK } from './chunk-table.ts'
import type { SaltOrder } from './policies/salt-order.ts'

const ALL_SALTS = -1
/** Chunks that are passed over at most in the search for a clean victim. */
const DIRTY_PASSED_MAX = 64

/** Who leaves L1 next, by policy: a leaf that nobody holds. */
export class Victims {
  readonly #words: Uint32Array
  readonly #policy: SaltOrder
  readonly #anchor: (id: number) => void
  readonly #isClean: ((id: number, generation: number) => boolean) | undefined

  /**
   * @param anchor holds a chunk on behalf of its internal leases (holds.ts).
   * @param isClean whether nobody but L1 needs a chunk; absent = all are so.
   */
  constructor(
    words: Uint32Array,
    policy: SaltOrder,
    anchor: (id: number) => void,
    isClean?: (id: number, generation: number) => boolean,
  ) {
    this.#words = words
    this.#policy = policy
    this.#anchor = anchor
    this.#isClean = isClean
  }

  /** The next chunk to evict, or NO_CHUNK. Chunks under an internal lease are anchored on the way. */
  next(): number {
    const first = this.#oldest(ALL_SALTS)
    if (this.#isClean === undefined || first === NO_CHUNK || this.#isLeafClean(first)) return first
    let id = first
    for (let tried = 0; tried < DIRTY_PASSED_MAX; tried += 1) {
      id = this.#policy.next(id)
      if (id === NO_CHUNK) break
      if (this.#isLeafClean(id)) return id
    }
    return first
  }

  /** The least recent leaf of a salt, or NO_CHUNK: for its quota. */
  ofSalt(saltRow: number): number {
    return this.#oldest(saltRow)
  }

  /** Whether a free chunk has no children, no internal lease, and nobody needs it. */
  #isLeafClean(id: number): boolean {
    const words = this.#words
    const record = id * CHUNK_WORDS
    const generation = words[record + GENERATION]!
    return (
      words[record + CHILDREN] === 0 && generation < INTERNAL_ONE && this.#isClean!(id, generation & GENERATION_MASK)
    )
  }

  #oldest(saltRow: number): number {
    const words = this.#words
    for (;;) {
      const id = saltRow === ALL_SALTS ? this.#policy.victim() : this.#policy.oldest(saltRow)
      if (id === NO_CHUNK) return NO_CHUNK
      const record = id * CHUNK_WORDS
      if (words[record + GENERATION]! < INTERNAL_ONE) {
        assert(words[record + CHILDREN] === 0 && words[record + HOLDS] === 0, 'the victim is in use')
        return id
      }
      this.#anchor(id)
    }
  }
}
