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
  SPACE_SHIFT,
  STATE_MASK,
} from '../chunk-table.ts'
import { ClassLists } from './class-lists.ts'
import type { EvictionPolicy } from './policy.ts'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from './reuse-hazard.ts'
import { ReuseJudge } from './reuse-judge.ts'
import { UsePrints } from './use-prints.ts'

/** One byte a chunk: asked for again (2 bits) | linked (1) | depth + 1 (5 bits; 0 = not known). */
const TIMES_MASK = 3
const LINKED = 4
const DEPTH_SHIFT = 3
const DEPTH_MAX = 31
const TIMES_MAX = 3
/** Word of the hash that says whether a chunk is sampled. */
const SAMPLED_WORD = 5
/** Prints are integers that need no allocation. */
const PRINT_MASK = 0x7fff_ffff
/** Evicted chunks that are remembered, as a share of the index. */
const REMEMBERED_RATIO = 2
/** Chunks that are passed over at most in the search for the newest leaf of a class. */
const NEWEST_PASSED_MAX = 64

/**
 * Evicts the leaf that is worth least: worth is the chance of a hit for each reference that it would stay, learnt live
 * (reuse-hazard.ts) by class and age. A class is how often a chunk was asked for again, also before it was evicted last,
 * and how deep in its prompt it lies. While the shadow caches do not show that this hits more than LRU, it is exact
 * leaf-first LRU (reuse-judge.ts).
 *
 *   classes   times asked for again 0, 1, 2, 3+   x   depth 0, 1..3, 4..15, 16+
 *   lists     of each class, its free chunks by recency
 *   victim    by worth: of the oldest leaf of each class, and the newest, the one that is worth least
 *             as LRU:   of the oldest leaf of each class, the oldest
 *
 * The newest are looked at for loads that go round and round: there what was just used is needed last. The way to the
 * newest leaf of a class ends where a chunk is worth as much as what was found: what is older there is worth more.
 *
 * Leaf first: a chunk with children that comes up as the oldest of its class is unlinked until its last child leaves
 * (`ripen`), and then linked where its age belongs. So each search is paid for by a child that left, and ages fall
 * along each list. The oldest free chunk of all has no child (../holds.ts), so that LRU is exact.
 *
 * After a restart all chunks count as not asked for again, and what was learnt is learnt anew: until then it is LRU.
 */
export class AdaptivePolicy implements EvictionPolicy {
  readonly name = 'adaptive'
  readonly judge: ReuseJudge
  readonly #table: ChunkTable
  readonly #words: Uint32Array
  readonly #lists: ClassLists
  readonly #state: Uint8Array
  readonly #evicted: UsePrints
  /** Chunks that became free so far, modulo 2^32: the time of this policy. */
  readonly #now = new Uint32Array(1)
  #live = 0

  /** @param judge decides what to go by; one of its own when absent. */
  constructor(table: ChunkTable, judge: ReuseJudge = new ReuseJudge()) {
    this.#table = table
    this.#words = table.words
    this.#lists = new ClassLists(table.words, CHUNK_WORDS, NEWER, OLDER)
    this.#state = new Uint8Array(table.words.length / CHUNK_WORDS)
    this.#evicted = new UsePrints(table.words, table.capacity * REMEMBERED_RATIO)
    this.judge = judge
  }

  get bytes(): number {
    return this.#lists.stamps.byteLength + this.#state.byteLength + this.#evicted.bytes + this.judge.bytes
  }

  admit(id: number): void {
    this.#state[id] = this.#evicted.take(id)
    this.#learnDepth(id)
    this.#live += 1
    this.#judge(id)
  }

  hold(id: number): void {
    if ((this.#state[id]! & LINKED) !== 0) this.#unlink(id)
  }

  free(id: number): void {
    this.#append(id)
  }

  touch(id: number): void {
    const isFree = this.#words[id * CHUNK_WORDS + HOLDS] === 0
    if ((this.#state[id]! & LINKED) !== 0) this.#unlink(id)
    if ((this.#state[id]! & TIMES_MASK) < TIMES_MAX) this.#state[id] = this.#state[id]! + 1
    if (isFree) this.#append(id)
    this.#judge(id)
  }

  ripen(id: number): void {
    if ((this.#state[id]! & LINKED) !== 0) return
    this.#lists.insert(this.classOf(id), id, this.#now[0]!)
    this.#state[id] = this.#state[id]! | LINKED
  }

  forget(id: number, isEvicted: boolean): void {
    if ((this.#state[id]! & LINKED) !== 0) this.#unlink(id)
    if (isEvicted) this.#evicted.add(id, Math.min(TIMES_MAX, (this.#state[id]! & TIMES_MASK) + 1))
    this.#state[id] = 0
    this.#live -= 1
  }

  victim(): number {
    return this.judge.isByWorth ? this.#leastWorth() : this.#oldest()
  }

  /** The class of a live chunk. */
  classOf(id: number): number {
    const state = this.#state[id]!
    const depth = (state >>> DEPTH_SHIFT) - 1
    const band = depth < 4 ? (depth < 1 ? 0 : 1) : depth < 16 ? 2 : 3
    return (state & TIMES_MASK) * 4 + band
  }

  verify(): void {
    const now = this.#now[0]!
    const isListed = new Uint8Array(this.#table.endId)
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      let age = 2 ** 32
      for (let id = this.#lists.oldest[list]!; id !== NO_CHUNK; id = this.#lists.newerOf(id)) {
        const older = age
        age = (now - this.#lists.stamps[id]!) >>> 0
        assert(age <= older, 'a class is not in the order of its ages')
        assert(this.classOf(id) === list && isListed[id] === 0, 'a class lists a chunk of another, or twice')
        assert(this.#words[id * CHUNK_WORDS + HOLDS] === 0, 'a class lists a held chunk')
        isListed[id] = 1
      }
    }
    let live = 0
    for (let id = this.#table.firstId; id < this.#table.endId; id += 1) {
      const record = id * CHUNK_WORDS
      const state = this.#state[id]!
      assert(
        ((state & LINKED) !== 0) === (isListed[id] === 1),
        'a chunk is linked in no list, or listed and not linked',
      )
      if (state === 0) continue
      live += 1
      const isLive = (this.#words[record + META]! & STATE_MASK) === LIVE
      const isLeaf = this.#words[record + HOLDS] === 0 && this.#words[record + CHILDREN] === 0
      assert(!isLive || !isLeaf || (state & LINKED) !== 0, 'a chunk that could be evicted is not listed')
    }
    assert(live === this.#live, 'live chunks are miscounted')
  }

  /** The oldest chunk of a class that has no children. Unlinks what lies before it. */
  #oldestLeaf(list: number): number {
    for (;;) {
      const id = this.#lists.oldest[list]!
      if (id === NO_CHUNK || this.#words[id * CHUNK_WORDS + CHILDREN] === 0) return id
      this.#unlink(id)
    }
  }

  /** The oldest leaf. */
  #oldest(): number {
    const now = this.#now[0]!
    let victim = NO_CHUNK
    let oldest = 0
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      const id = this.#oldestLeaf(list)
      if (id === NO_CHUNK) continue
      const age = (now - this.#lists.stamps[id]!) >>> 0
      if (victim !== NO_CHUNK && age <= oldest) continue
      victim = id
      oldest = age
    }
    return victim
  }

  /**
   * Of the oldest and the newest leaf of each class, the one that is worth least. In one function: a worth that is
   * handed on is a number to allocate.
   */
  #leastWorth(): number {
    const { worth } = this.judge
    const now = this.#now[0]!
    let victim = NO_CHUNK
    let least = 0
    let oldest = 0
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      const id = this.#oldestLeaf(list)
      if (id === NO_CHUNK) continue
      const age = (now - this.#lists.stamps[id]!) >>> 0
      const value = worth[list * AGE_BUCKETS + ageBucket(age)]!
      if (victim !== NO_CHUNK && (value > least || (value === least && age <= oldest))) continue
      victim = id
      least = value
      oldest = age
    }
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      let id = this.#lists.newest[list]!
      for (let passed = 0; passed < NEWEST_PASSED_MAX && id !== NO_CHUNK; passed += 1) {
        const age = (now - this.#lists.stamps[id]!) >>> 0
        const value = worth[list * AGE_BUCKETS + ageBucket(age)]!
        if (value >= least) break
        if (this.#words[id * CHUNK_WORDS + CHILDREN] === 0) {
          victim = id
          least = value
          break
        }
        id = this.#lists.olderOf(id)
      }
    }
    return victim
  }

  #append(id: number): void {
    this.#now[0] = this.#now[0]! + 1
    this.#lists.append(this.classOf(id), id, this.#now[0]!)
    this.#state[id] = this.#state[id]! | LINKED
  }

  #unlink(id: number): void {
    this.#lists.unlink(this.classOf(id), id)
    this.#state[id] = this.#state[id]! & ~LINKED
  }

  /** Notes how deep a chunk lies, and chunks above of which that is not known: after a restart, children come first. */
  #learnDepth(id: number): void {
    const parent = this.#words[id * CHUNK_WORDS + PARENT]!
    let depth = parent === NO_CHUNK ? 0 : this.#state[parent]! >>> DEPTH_SHIFT
    if (parent !== NO_CHUNK && depth === 0) {
      for (let at = parent; at !== NO_CHUNK && depth < DEPTH_MAX; at = this.#words[at * CHUNK_WORDS + PARENT]!)
        depth += 1
    }
    this.#state[id] = this.#state[id]! | (Math.min(DEPTH_MAX, depth + 1) << DEPTH_SHIFT)
  }

  #judge(id: number): void {
    const record = id * CHUNK_WORDS
    const words = this.#words
    const sampled = words[record + SAMPLED_WORD]!
    if ((sampled & this.judge.mask) !== 0) return
    const space = words[record + META]! >>> SPACE_SHIFT
    const print = Math.imul(words[record + 1]! ^ sampled ^ Math.imul(space + 1, 0x9e3779b1), 0x85ebca6b)
    this.judge.ask((print ^ (print >>> 15)) & PRINT_MASK, this.classOf(id), this.#now[0]!, this.#live)
  }
}
