import { assert } from '../core/assert.ts'
import { PartedArena, type SlotArena } from './arena-parts.ts'
import {
  CHILDREN,
  CHUNK_WORDS,
  type ChunkTable,
  GENERATION,
  GENERATION_MASK,
  HOLDS,
  INTERNAL_ONE,
  NO_CHUNK,
} from './chunk-table.ts'
import type { KeySpaces } from './key-spaces.ts'
import type { L1PolicyName } from './options.ts'
import { GroupOrder } from './policies/group-order.ts'
import { makePolicy } from './policies/make-policy.ts'

/** Instead of a part: whichever has the least room. */
export const ANY_PART = -1

/** Chunks that are passed over at most in the search for a clean victim. */
const DIRTY_PASSED_MAX = 64

export interface VictimsParts {
  readonly table: ChunkTable
  readonly arena: SlotArena
  readonly spaces: KeySpaces
  readonly policy: L1PolicyName
  readonly isClean: ((id: number, generation: number) => boolean) | undefined
  /** See `Residency.anchor`. */
  readonly anchor: (id: number) => void
}

/**
 * Says which chunk leaves L1 next: of all, of one part of L1, or of one salt.
 *
 *   policy:  by salt, for quotas --in front of--> [by part] --in front of--> the policy of the options
 *
 * Where L1 is one part, the policy decides. Where it is cut into several, only chunks of a part make room in it, so each
 * has an order of recency of its own; who asks for no part gets one of the fullest.
 */
export class Victims {
  /** Hears of every chunk. */
  readonly policy: GroupOrder
  readonly #byPart: GroupOrder | null
  readonly #parts: PartedArena | null
  readonly #partCount: number
  readonly #words: Uint32Array
  readonly #isClean: VictimsParts['isClean']
  readonly #anchor: VictimsParts['anchor']

  constructor({ table, arena, spaces, policy: name, isClean, anchor }: VictimsParts) {
    this.#parts = arena instanceof PartedArena ? arena : null
    this.#partCount = spaces.parts.count
    assert(this.#parts === null || name === 'lru', 'parts of L1 have an order of recency each')
    const policy = makePolicy(name, table)
    this.#byPart = this.#parts === null ? null : new GroupOrder(policy, table, spaces.partRows)
    this.#byPart?.enable()
    this.policy = new GroupOrder(this.#byPart ?? policy, table, spaces.saltRows)
    this.#words = table.words
    this.#isClean = isClean
    this.#anchor = anchor
  }

  /** The next chunk to evict, or NO_CHUNK. Chunks under an internal lease are anchored on the way. */
  next(part: number): number {
    const parts = this.#byPart
    if (parts === null) {
      const policy = this.policy
      return this.#cleanFrom(this.#unleased(policy, ANY_PART), policy, false)
    }
    if (part === ANY_PART) return this.#ofFullest()
    return this.#cleanFrom(this.#unleased(parts, part), parts, true)
  }

  /** The least recent leaf of a salt, or NO_CHUNK: for its quota. */
  ofSalt(saltRow: number): number {
    return this.#unleased(this.policy, saltRow)
  }

  #ofFullest(): number {
    const { parts, count } = { parts: this.#parts!, count: this.#partCount }
    const order = Array.from({ length: count }, (_, part) => part)
    order.sort((a, b) => parts.usedBytesOf(b) - parts.usedBytesOf(a))
    for (const part of order) {
      const id = this.next(part)
      if (id !== NO_CHUNK) return id
    }
    return NO_CHUNK
  }

  /** The chunk, or the next one like it that nobody needs, if there is one nearby. @param isPart of the same part only */
  #cleanFrom(first: number, order: GroupOrder, isPart: boolean): number {
    if (this.#isClean === undefined || first === NO_CHUNK || this.#isLeafClean(first)) return first
    let id = first
    for (let tried = 0; tried < DIRTY_PASSED_MAX; tried += 1) {
      id = isPart ? order.newer(id) : order.next(id)
      if (id === NO_CHUNK) break
      if (this.#isLeafClean(id)) return id
    }
    return first
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

  /** The first of an order, of one of its groups or of all, that has no internal lease. */
  #unleased(order: GroupOrder, row: number): number {
    const words = this.#words
    for (;;) {
      const id = row < 0 ? order.victim() : order.oldest(row)
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
