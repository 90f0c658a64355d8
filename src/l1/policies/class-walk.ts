import { NO_CHUNK } from '../chunk-table.ts'
import type { ChunkClasses } from './chunk-classes.ts'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from './reuse-hazard.ts'

/**
 * Names free chunks in about the order in which they will leave: of the oldest of each class that was not named yet, the
 * one that is worth least, or the oldest where worth does not count. What leaves from the newest end of a class comes late
 * here, and a chunk that is out of its list for its children does not come at all.
 *
 * Nothing may change between two steps of a walk.
 */
export class ClassWalk {
  readonly #classes: ChunkClasses
  /** The oldest chunk of each class that was not named yet. */
  readonly #at = new Uint32Array(REUSE_CLASSES)
  #skipped = NO_CHUNK
  #last = NO_CHUNK

  constructor(classes: ChunkClasses) {
    this.#classes = classes
  }

  /** Ends the walk: the next step begins another. */
  stop(): void {
    this.#last = NO_CHUNK
  }

  /**
   * The chunk after `id`, or NO_CHUNK at the end. What was not named last begins a walk, which leaves it out.
   *
   * @param worth by class and age bucket; null = the oldest first.
   */
  next(id: number, worth: Float64Array | null): number {
    if (id === NO_CHUNK || id !== this.#last) {
      this.#at.set(this.#classes.lists.oldest)
      this.#skipped = id
    }
    let next = this.#step(worth)
    if (next !== NO_CHUNK && next === this.#skipped) next = this.#step(worth)
    this.#last = next
    return next
  }

  #step(worth: Float64Array | null): number {
    const classes = this.#classes
    let from = 0
    let found = NO_CHUNK
    let least = 0
    let oldest = 0
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      const id = this.#at[list]!
      if (id === NO_CHUNK) continue
      const age = classes.ageOf(id)
      const value = worth === null ? 0 : worth[list * AGE_BUCKETS + ageBucket(age)]!
      if (found !== NO_CHUNK && (value > least || (value === least && age <= oldest))) continue
      from = list
      found = id
      least = value
      oldest = age
    }
    if (found !== NO_CHUNK) this.#at[from] = classes.lists.newerOf(found)
    return found
  }
}
