import { CHILDREN, CHUNK_WORDS, NO_CHUNK } from '../chunk-table.ts'
import type { ChunkClasses } from './chunk-classes.ts'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from './reuse-hazard.ts'

/** Chunks that are passed over at most in the search for the newest leaf of a class. */
const NEWEST_PASSED_MAX = 64
/** Chunks that leave from one end of a class before all ends are compared anew. */
const HAND_CHUNKS = 16
const NO_LIST = -1

/**
 * Chooses the leaf that leaves next, by age or by worth.
 *
 *   by age     of the oldest leaf of each class, the oldest
 *   by worth   of the oldest leaf of each class, and the newest, the one that is worth least
 *
 * The newest are looked at for loads that go round and round: there what was just used is needed last. The way to the
 * newest leaf of a class ends where a chunk is worth as much as what was found: what is older there is worth more.
 *
 * To compare all ends costs some hundred nanoseconds. So the end that was found, the *hand*, is asked first:
 *
 *   by age     its next leaf leaves while it is older than the second oldest was: that is exact
 *   by worth   its next leaf leaves while it is not worth more than the second least was, 16 chunks at most.
 *              At an oldest end that is the oldest leaf; at a newest end the parent of what left, if it is one
 */
export class LeafChoice {
  readonly #classes: ChunkClasses
  readonly #words: Uint32Array
  #hand = NO_LIST
  #isByWorth = false
  #isNewest = false
  #left = 0
  /** At a newest end: the parent of what left last. */
  #above = NO_CHUNK
  /** Numbers that would else be allocated: what is second in worth, and in age by its stamp. */
  readonly #secondWorth = new Float64Array(1)
  readonly #secondStamp = new Uint32Array(1)

  constructor(classes: ChunkClasses, words: Uint32Array) {
    this.#classes = classes
    this.#words = words
  }

  /** The oldest leaf, or NO_CHUNK. */
  byAge(): number {
    if (this.#hand !== NO_LIST && !this.#isByWorth) {
      const id = this.#classes.oldestLeaf(this.#hand)
      if (id !== NO_CHUNK && this.#classes.ageOf(id) >= this.#secondAge()) return id
    }
    this.#isByWorth = false
    return this.#oldest()
  }

  /** A leaf that is worth little, or NO_CHUNK. @param worth by class and age bucket; see ReuseHazard. */
  byWorth(worth: Float64Array): number {
    if (this.#hand !== NO_LIST && this.#isByWorth && this.#left > 0) {
      const id = this.#isNewest ? this.#leafAbove() : this.#classes.oldestLeaf(this.#hand)
      if (id !== NO_CHUNK) {
        const bucket = ageBucket(this.#classes.ageOf(id))
        if (worth[this.#hand * AGE_BUCKETS + bucket]! <= this.#secondWorth[0]!) return id
      }
    }
    this.#isByWorth = true
    return this.#leastWorth(worth)
  }

  /** A free chunk is about to be linked where its age belongs: it may be older than all that is listed. */
  noteRipe(id: number): void {
    if (!this.#isByWorth && this.#classes.ageOf(id) > this.#secondAge()) this.#hand = NO_LIST
  }

  /** A chunk leaves. */
  noteGone(parent: number): void {
    this.#left -= 1
    this.#above = parent
  }

  #secondAge(): number {
    return (this.#classes.now[0]! - this.#secondStamp[0]!) >>> 0
  }

  #leafAbove(): number {
    const id = this.#above
    const isLeaf = id !== NO_CHUNK && this.#words[id * CHUNK_WORDS + CHILDREN] === 0
    return isLeaf && this.#classes.isLinked(id) && this.#classes.classOf(id) === this.#hand ? id : NO_CHUNK
  }

  #oldest(): number {
    const classes = this.#classes
    let victim = NO_CHUNK
    let oldest = 0
    let second = 0
    this.#hand = NO_LIST
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      const id = classes.oldestLeaf(list)
      if (id === NO_CHUNK) continue
      const age = classes.ageOf(id)
      if (victim !== NO_CHUNK && age <= oldest) {
        second = Math.max(second, age)
        continue
      }
      second = oldest
      victim = id
      oldest = age
      this.#hand = list
    }
    this.#secondStamp[0] = classes.now[0]! - second
    return victim
  }

  /** In one function: a worth that is handed on is a number to allocate. */
  #leastWorth(worth: Float64Array): number {
    const classes = this.#classes
    const { newest } = classes.lists
    let victim = NO_CHUNK
    let least = 0
    let second = Number.POSITIVE_INFINITY
    let oldest = 0
    this.#isNewest = false
    this.#hand = NO_LIST
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      const id = classes.oldestLeaf(list)
      if (id === NO_CHUNK) continue
      const age = classes.ageOf(id)
      const value = worth[list * AGE_BUCKETS + ageBucket(age)]!
      if (victim !== NO_CHUNK && (value > least || (value === least && age <= oldest))) {
        if (value < second) second = value
        continue
      }
      if (victim !== NO_CHUNK) second = least
      victim = id
      least = value
      oldest = age
      this.#hand = list
    }
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      let id = newest[list]!
      for (let passed = 0; passed < NEWEST_PASSED_MAX && id !== NO_CHUNK; passed += 1) {
        const value = worth[list * AGE_BUCKETS + ageBucket(classes.ageOf(id))]!
        if (value >= least) break
        if (this.#words[id * CHUNK_WORDS + CHILDREN] === 0) {
          second = least
          victim = id
          least = value
          this.#hand = list
          this.#isNewest = true
          break
        }
        id = classes.lists.olderOf(id)
      }
    }
    this.#above = NO_CHUNK
    this.#left = HAND_CHUNKS
    this.#secondWorth[0] = second
    return victim
  }
}
