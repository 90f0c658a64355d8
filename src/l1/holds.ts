import {
  CHUNK_WORDS,
  type ChunkTable,
  FIRST_SHARD,
  HOLDS,
  LIVE,
  META,
  NO_CHUNK,
  PARENT,
  STATE_MASK,
} from './chunk-table.ts'
import type { EvictionPolicy } from './policies/policy.ts'

/**
 * The holds that keep chunks from leaving, and through them the order in which they may: leaf first, in O(1).
 *
 *   holds(c) = leases on c (read, pin, write) + children of c that are held
 *   c is *free* when it is live and holds(c) = 0. Free chunks are the policy's, in a list by recency.
 *
 *   hold(c): 0 -> 1 takes c off the list and holds its parent; an ancestor that is held already ends the walk.
 *   drop(c): 1 -> 0 puts c on the list as the newest, and only then drops its hold on its parent.
 *   touch(c), c free: c becomes the newest, then its parent if that is free, and so on up.
 *
 *       held:  A(1) <- B(1) <- C(1, leased)         list:  oldest [ x  y ] newest
 *       drop C: C is listed, B drops to 0 and is listed, then A:  [ x  y  C  B  A ]
 *
 * Claim: the parent of a listed chunk is held, or listed and newer. So the oldest listed chunk has no live child: its
 * child would be held (then its parent is, too), or listed and older. Popping the oldest is leaf-first by itself.
 *
 * Proof, by what can change the order. Let p be the parent of c.
 *   c gets listed by drop(c): p still has the hold of c, so p is held at that moment. When that hold goes and p falls
 *     to 0, p is listed after c: newer. Otherwise p stays held, and whenever it is listed later, it is as the newest.
 *   c is touched: p is held, or free and moved right after c: newer.
 *   p is touched or listed: it only gets newer.
 *   p is created after c: cannot be, a chunk is created under a live parent, and born held (it is being written).
 *   p leaves: eviction takes the oldest only, and p is newer than c; a removal takes the descendants along.
 *
 * Internal leases (L1 to L2) are not counted here, for a store to L2 must not make a chunk recent. They are in the high
 * byte of GENERATION. Eviction that meets such a chunk *anchors* it: holds it until those leases end.
 */
export class HoldTree {
  readonly #words: Uint32Array
  readonly #policy: EvictionPolicy
  readonly #leave: (id: number) => void

  /** @param leave called for a chunk that lost its last hold and is doomed or has no shard. It unlinks it. */
  constructor(table: ChunkTable, policy: EvictionPolicy, leave: (id: number) => void) {
    this.#words = table.words
    this.#policy = policy
    this.#leave = leave
  }

  hold(id: number): void {
    const words = this.#words
    for (let at = id; at !== NO_CHUNK; ) {
      const record = at * CHUNK_WORDS
      const holds = words[record + HOLDS]!
      words[record + HOLDS] = holds + 1
      if (holds !== 0) return
      this.#policy.hold(at)
      at = words[record + PARENT]!
    }
  }

  /** The first hold of a new chunk: its parent is held with it. */
  bear(id: number, parent: number): void {
    const record = id * CHUNK_WORDS
    this.#words[record + PARENT] = parent
    this.#words[record + HOLDS] = 1
    this.#policy.admit(id)
    if (parent !== NO_CHUNK) this.hold(parent)
  }

  drop(id: number): void {
    const words = this.#words
    for (let at = id; at !== NO_CHUNK; ) {
      const record = at * CHUNK_WORDS
      const holds = words[record + HOLDS]! - 1
      words[record + HOLDS] = holds
      if (holds !== 0) return
      const parent = words[record + PARENT]!
      if ((words[record + META]! & STATE_MASK) === LIVE && words[record + FIRST_SHARD] !== 0) this.#policy.free(at)
      else this.#leave(at)
      at = parent
    }
  }

  /** A client asked again for a chunk without taking a lease. */
  touch(id: number): void {
    const words = this.#words
    for (let at = id; at !== NO_CHUNK && words[at * CHUNK_WORDS + HOLDS] === 0; ) {
      this.#policy.touch(at)
      at = words[at * CHUNK_WORDS + PARENT]!
    }
  }
}
