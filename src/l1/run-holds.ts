import { CHUNK_WORDS, NO_CHUNK, PARENT } from './chunk-table.ts'
import type { HoldTree } from './holds.ts'

/**
 * The holds of leases on runs. A chunk that is held holds its parent (holds.ts), so a run is held by its last chunk:
 *
 *   lease on   A <- B <- C    X <- Y        (<- : is the parent of)
 *   holds                C         Y
 *
 * Which chunks those are follows from the parents, which stay while their children are held. So it need not be written
 * down, and the same ones are let go.
 */
export class RunHolds {
  readonly #words: Uint32Array
  readonly #tree: HoldTree

  constructor(words: Uint32Array, tree: HoldTree) {
    this.#words = words
    this.#tree = tree
  }

  /** Holds chunks ids[0, count), root first. */
  hold(ids: Uint32Array, count: number): void {
    for (let at = 0; at < count; at += 1) {
      if (isRunEnd(this.#words, ids, at, count)) this.#tree.hold(ids[at]!)
    }
  }

  /** Lets go of what `hold` held, the deepest first. Clears `ids` in part. */
  drop(ids: Uint32Array, count: number): void {
    for (let at = 0; at < count; at += 1) {
      if (!isRunEnd(this.#words, ids, at, count)) ids[at] = NO_CHUNK
    }
    for (let at = count - 1; at >= 0; at -= 1) if (ids[at] !== NO_CHUNK) this.#tree.drop(ids[at]!)
  }
}

/** Whether chunk `at` of a lease is held for itself, and not by the one behind it. */
export function isRunEnd(words: Uint32Array, ids: Uint32Array, at: number, count: number): boolean {
  return at + 1 === count || words[ids[at + 1]! * CHUNK_WORDS + PARENT] !== ids[at]
}
