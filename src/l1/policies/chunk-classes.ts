import { assert } from '../../core/assert.ts'
import {
  CHILDREN,
  CHUNK_WORDS,
  type ChunkTable,
  HOLDS,
  LIVE,
  META,
  NEWER,
  NO_CHUNK,
  OLDER,
  PARENT,
  STATE_MASK,
} from '../chunk-table.ts'
import { ClassLists } from './class-lists.ts'
import { REUSE_CLASSES } from './reuse-hazard.ts'

/** One byte a chunk, 0 = none. The first four bits are its class. */
const TIMES_MASK = 3
const TIMES_MAX = 3
const PAUSE_SHIFT = 2
const PAUSE_MASK = 3 << PAUSE_SHIFT
const NO_PAUSE = 3 << PAUSE_SHIFT
const CLASS_MASK = TIMES_MASK | PAUSE_MASK
const KNOWN = 16
const LINKED = 32
/** It was admitted by the request that goes on. */
const NEW = 64
/** It has had a child since it was admitted. */
const HAD_CHILD = 128

/**
 * What is known of each chunk, as its class, and the free chunks of each class by recency.
 *
 *   class    times asked for again: 0, 1, 2, 3 or more
 *          x pause before the last time: below 1/4 of what L1 holds, below 1/2, longer; or there was none
 *
 * Pauses are counted in references. How often a chunk was asked for before it was evicted is remembered by the caller.
 * A chunk that goes on where a prompt ended takes the pause of that prompt: a conversation keeps its pace. One that
 * branches off, as a question does behind a system prompt, has none.
 *
 * A free chunk with children may be out of its list: `oldestLeaf` takes those out that it meets, and `link` puts one back.
 */
export class ChunkClasses {
  readonly lists: ClassLists
  /** Chunks that became free so far, modulo 2^32: the time of the lists. */
  readonly now = new Uint32Array(1)
  readonly #table: ChunkTable
  readonly #words: Uint32Array
  readonly #state: Uint8Array
  #live = 0

  constructor(table: ChunkTable) {
    this.#table = table
    this.#words = table.words
    this.lists = new ClassLists(table.words, CHUNK_WORDS, NEWER, OLDER)
    this.#state = new Uint8Array(table.words.length / CHUNK_WORDS)
  }

  get bytes(): number {
    return this.lists.stamps.byteLength + this.#state.byteLength
  }

  /** Chunks that are known. */
  get live(): number {
    return this.#live
  }

  classOf(id: number): number {
    return this.#state[id]! & CLASS_MASK
  }

  /** How often a chunk was asked for again, 3 at most. */
  timesOf(id: number): number {
    return this.#state[id]! & TIMES_MASK
  }

  isKnown(id: number): boolean {
    return this.#state[id] !== 0
  }

  isLinked(id: number): boolean {
    return (this.#state[id]! & LINKED) !== 0
  }

  ageOf(id: number): number {
    return (this.now[0]! - this.lists.stamps[id]!) >>> 0
  }

  /** A new chunk, held. @param times how often it was asked for before it was evicted. */
  admit(id: number, times: number): void {
    const parent = this.#words[id * CHUNK_WORDS + PARENT]!
    let pause = NO_PAUSE
    const above = parent === NO_CHUNK ? 0 : this.#state[parent]!
    if ((above & KNOWN) !== 0) {
      if ((above & NEW) !== 0 || (above & HAD_CHILD) === 0) pause = above & PAUSE_MASK
      this.#state[parent] = above | HAD_CHILD
    }
    this.#state[id] = times | pause | KNOWN | NEW
    this.#live += 1
  }

  /** A chunk is asked for again. Not while it is linked. */
  touch(id: number): void {
    const state = this.#state[id]!
    const age = this.ageOf(id)
    const pause = 4 * age < this.#live ? 0 : 2 * age < this.#live ? 1 : 2
    const times = Math.min(TIMES_MAX, (state & TIMES_MASK) + 1)
    this.#state[id] = (state & ~CLASS_MASK) | times | (pause << PAUSE_SHIFT)
  }

  forget(id: number): void {
    this.#state[id] = 0
    this.#live -= 1
  }

  /** Links a chunk that became free as the newest of its class. */
  append(id: number): void {
    const now = this.now[0]! + 1
    this.now[0] = now
    this.#state[id] = (this.#state[id]! & ~NEW) | LINKED
    this.lists.append(this.classOf(id), id, now)
  }

  /** Links a free chunk where its age belongs. */
  link(id: number): void {
    this.lists.insert(this.classOf(id), id, this.now[0]!)
    this.#state[id] = this.#state[id]! | LINKED
  }

  unlink(id: number): void {
    this.lists.unlink(this.classOf(id), id)
    this.#state[id] = this.#state[id]! & ~LINKED
  }

  /** The oldest chunk of a class that has no children, or NO_CHUNK. Unlinks what lies before it. */
  oldestLeaf(list: number): number {
    for (;;) {
      const id = this.lists.oldest[list]!
      if (id === NO_CHUNK || this.#words[id * CHUNK_WORDS + CHILDREN] === 0) return id
      this.unlink(id)
    }
  }

  verify(): void {
    const isListed = this.#verifyLists()
    let live = 0
    for (let id = this.#table.firstId; id < this.#table.endId; id += 1) {
      const record = id * CHUNK_WORDS
      const state = this.#state[id]!
      assert(this.isLinked(id) === (isListed[id] === 1), 'a chunk is linked in no list, or listed and not linked')
      if (state === 0) continue
      live += 1
      const isLive = (this.#words[record + META]! & STATE_MASK) === LIVE
      const isLeaf = this.#words[record + HOLDS] === 0 && this.#words[record + CHILDREN] === 0
      assert(!isLive || !isLeaf || this.isLinked(id), 'a chunk that could be evicted is not listed')
    }
    assert(live === this.#live, 'live chunks are miscounted')
  }

  #verifyLists(): Uint8Array {
    const isListed = new Uint8Array(this.#table.endId)
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      let age = 2 ** 32
      for (let id = this.lists.oldest[list]!; id !== NO_CHUNK; id = this.lists.newerOf(id)) {
        const older = age
        age = this.ageOf(id)
        assert(age <= older, 'a class is not in the order of its ages')
        assert(this.classOf(id) === list && isListed[id] === 0, 'a class lists a chunk of another, or twice')
        assert(this.#words[id * CHUNK_WORDS + HOLDS] === 0, 'a class lists a held chunk')
        isListed[id] = 1
      }
    }
    return isListed
  }
}
