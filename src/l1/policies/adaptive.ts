import { assert } from '../../core/assert.ts'
import { CHUNK_WORDS, type ChunkTable, HOLDS, META, PARENT, SPACE_SHIFT } from '../chunk-table.ts'
import { ChunkClasses } from './chunk-classes.ts'
import { ClassWalk } from './class-walk.ts'
import { LeafChoice } from './leaf-choice.ts'
import type { EvictionPolicy } from './policy.ts'
import { ReuseJudge } from './reuse-judge.ts'
import { UsePrints } from './use-prints.ts'

/** Word of the hash that says whether a chunk is sampled. */
const SAMPLED_WORD = 5
/** Prints are integers that need no allocation. */
const PRINT_MASK = 0x7fff_ffff
/** Evicted chunks that are remembered, as a share of the index. */
const REMEMBERED_RATIO = 2
const TIMES_MAX = 3

/**
 * Evicts the leaf that is worth least: worth is the chance of a hit for each reference that it would stay, learnt live
 * (reuse-hazard.ts) by class and age. A class is how often a chunk was asked for again, also before it was evicted last,
 * and after what pause (chunk-classes.ts). While the shadow caches do not show that this hits more than LRU, it is exact
 * leaf-first LRU (reuse-judge.ts).
 *
 *   admit, touch --> classes: class and age      victim <-- leaf-choice: by worth or by age
 *        | one of four chunks, or fewer                          ^
 *        +--------> judge: sampler, shadow caches -- worth, which of the two
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
  readonly #classes: ChunkClasses
  readonly #choice: LeafChoice
  readonly #walk: ClassWalk
  readonly #evicted: UsePrints

  /** @param judge decides what to go by; one of its own when absent. */
  constructor(table: ChunkTable, judge: ReuseJudge = new ReuseJudge()) {
    this.#table = table
    this.#words = table.words
    this.#classes = new ChunkClasses(table)
    this.#choice = new LeafChoice(this.#classes, table.words)
    this.#walk = new ClassWalk(this.#classes)
    this.#evicted = new UsePrints(table.words, table.capacity * REMEMBERED_RATIO)
    this.judge = judge
  }

  get bytes(): number {
    return this.#classes.bytes + this.#evicted.bytes + this.judge.bytes
  }

  admit(id: number): void {
    this.#classes.admit(id, this.#evicted.take(id))
    const bits = this.#words[id * CHUNK_WORDS + SAMPLED_WORD]!
    if ((bits & this.judge.mask) !== 0) return
    this.judge.enter(bits)
    this.#ask(id)
  }

  hold(id: number): void {
    if (this.#classes.isLinked(id)) this.#classes.unlink(id)
  }

  free(id: number): void {
    this.#classes.append(id)
  }

  touch(id: number): void {
    if (this.#classes.isLinked(id)) this.#classes.unlink(id)
    this.#classes.touch(id)
    if (this.#words[id * CHUNK_WORDS + HOLDS] === 0) this.#classes.append(id)
    this.#ask(id)
  }

  ripen(id: number): void {
    if (this.#classes.isLinked(id)) return
    this.#choice.noteRipe(id)
    this.#classes.link(id)
  }

  forget(id: number, isEvicted: boolean): void {
    if (this.#classes.isLinked(id)) this.#classes.unlink(id)
    if (isEvicted) this.#evicted.add(id, Math.min(TIMES_MAX, this.#classes.timesOf(id) + 1))
    this.#classes.forget(id)
    this.#choice.noteGone(this.#words[id * CHUNK_WORDS + PARENT]!)
    const bits = this.#words[id * CHUNK_WORDS + SAMPLED_WORD]!
    if ((bits & this.judge.mask) === 0) this.judge.leave(bits)
  }

  victim(): number {
    this.#walk.stop()
    return this.judge.isByWorth ? this.#choice.byWorth(this.judge.worth) : this.#choice.byAge()
  }

  next(id: number): number {
    return this.#walk.next(id, this.judge.isByWorth ? this.judge.worth : null)
  }

  /** The class of a live chunk. */
  classOf(id: number): number {
    return this.#classes.classOf(id)
  }

  verify(): void {
    this.#classes.verify()
    let sampled = 0
    for (let id = this.#table.firstId; id < this.#table.endId; id += 1) {
      const bits = this.#words[id * CHUNK_WORDS + SAMPLED_WORD]!
      if (this.#classes.isKnown(id) && (bits & this.judge.mask) === 0) sampled += 1
    }
    assert(sampled === this.judge.sampled, 'sampled chunks in L1 are miscounted')
  }

  /** Tells the judge that a chunk is asked for, or new, if it is sampled. */
  #ask(id: number): void {
    const record = id * CHUNK_WORDS
    const words = this.#words
    const sampled = words[record + SAMPLED_WORD]!
    if ((sampled & this.judge.mask) !== 0) return
    const space = words[record + META]! >>> SPACE_SHIFT
    const print = Math.imul(words[record + 1]! ^ sampled ^ Math.imul(space + 1, 0x9e3779b1), 0x85ebca6b)
    this.judge.ask((print ^ (print >>> 15)) & PRINT_MASK, this.#classes.classOf(id), this.#classes.now[0]!)
  }
}
