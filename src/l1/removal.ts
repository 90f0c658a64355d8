import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import {
  CHILDREN,
  CHUNK_WORDS,
  DOOMED,
  LIVE,
  MARK_INSIDE,
  MARK_OUTSIDE,
  META,
  NO_CHUNK,
  PARENT,
  SPACE_SHIFT,
  STATE_MASK,
} from './chunk-table.ts'
import type { RemoveReason, Residency } from './residency.ts'
import { CHUNK, SHARD_WORDS } from './shard-table.ts'
import { ANY_PART } from './victims.ts'

const MARKS = MARK_INSIDE | MARK_OUTSIDE

/**
 * What to remove: everything, a key space, or the chunks [from, to) of a chain.
 * The descendants of a removed chunk always go with it, whoever stored them.
 */
export type RemoveFilter =
  | { readonly space?: SpaceId }
  | { readonly space: SpaceId; readonly chain: HashChain; readonly from: number; readonly to: number }

/**
 * Removals: for room, by key space, or by chain with all descendants. Chunks leave leaf first.
 *
 * Records have no list of children: it would cost 8 bytes a chunk and two cache misses at each birth and eviction, to
 * save a scan of the table in a rare case. The scan is needed only when a chunk of the chain has children that are
 * not on the chain; it reads every record once or twice, some 10 ns each.
 */
export class Removal {
  readonly #residency: Residency

  constructor(residency: Residency) {
    this.#residency = residency
  }

  /** See `L1Cache.evictTo`. */
  evictTo(targetBytes: number, maxChunks: number): number {
    const residency = this.#residency
    let evicted = 0
    while (residency.recorder.usageBytes > targetBytes && evicted < maxChunks) {
      const id = residency.victims.next(ANY_PART)
      if (id === NO_CHUNK) break
      residency.evict(id)
      evicted += 1
    }
    return evicted
  }

  /** Removes the least recent leaves of salts that are over their quota. @returns chunks removed. */
  trimSalts(maxChunks: number): number {
    const residency = this.#residency
    const { salts } = residency.spaces
    let removed = 0
    for (let row = salts.overFrom(0); row >= 0; row = salts.overFrom(row + 1)) {
      while (salts.usageBytes(row) > salts.limitBytes(row)) {
        const id = removed < maxChunks ? residency.victims.ofSalt(row) : NO_CHUNK
        if (id === NO_CHUNK) break
        residency.remove(id, 'quota')
        removed += 1
      }
    }
    return removed
  }

  /** See `L1Cache.remove`. */
  remove(filter: RemoveFilter, reason: RemoveReason): number {
    if ('chain' in filter) return this.#removeChain(filter.space, filter.chain, filter.from, filter.to, reason)
    const space = filter.space
    this.#mark((record) => space === undefined || this.#residency.table.words[record + META]! >>> SPACE_SHIFT === space)
    return this.#removeMarked(reason)
  }

  /**
   * Removes the chunk of a shard with altered bytes, if it is LIVE, and its descendants. Leases that hold it give it out
   * no more. @returns readable shards removed.
   */
  removeAltered(shard: number): number {
    const id = this.#residency.shards.words[shard * SHARD_WORDS + CHUNK]!
    if (id === NO_CHUNK || this.#residency.stateOf(id) !== LIVE) return 0
    const removed = this.#removeSubtree(id, 'corrupt')
    if (this.#residency.stateOf(id) === DOOMED) this.#residency.altered.add(id)
    return removed
  }

  #removeChain(space: SpaceId, chain: HashChain, from: number, to: number, reason: RemoveReason): number {
    const residency = this.#residency
    const words = residency.table.words
    let removed = 0
    for (let index = to - 1; index >= from; index -= 1) {
      const id = residency.findLive(space, chain.words, index * HASH_WORDS)
      if (id === NO_CHUNK) continue
      if (words[id * CHUNK_WORDS + CHILDREN] === 0) removed += residency.remove(id, reason)
      else if (index === from) removed += this.#removeSubtree(id, reason)
    }
    return removed
  }

  #removeSubtree(root: number, reason: RemoveReason): number {
    const words = this.#residency.table.words
    const rootRecord = root * CHUNK_WORDS
    words[rootRecord + META] = words[rootRecord + META]! | MARK_INSIDE
    this.#mark((record) => this.#isUnder(record))
    return this.#removeMarked(reason)
  }

  /** Whether an ancestor is marked as inside. Marks the way up, so that each record is walked over once. */
  #isUnder(start: number): boolean {
    const words = this.#residency.table.words
    let record = start
    while ((words[record + META]! & MARKS) === 0 && words[record + PARENT] !== NO_CHUNK) {
      record = words[record + PARENT]! * CHUNK_WORDS
    }
    const mark = (words[record + META]! & MARK_INSIDE) === 0 ? MARK_OUTSIDE : MARK_INSIDE
    for (record = start; (words[record + META]! & MARKS) === 0; record = words[record + PARENT]! * CHUNK_WORDS) {
      words[record + META] = words[record + META]! | mark
      if (words[record + PARENT] === NO_CHUNK) break
    }
    return mark === MARK_INSIDE
  }

  #mark(belongs: (record: number) => boolean): void {
    const { table } = this.#residency
    for (let id = table.firstId; id < table.endId; id += 1) {
      const record = id * CHUNK_WORDS
      if ((table.words[record + META]! & STATE_MASK) !== LIVE) continue
      const mark = belongs(record) ? MARK_INSIDE : MARK_OUTSIDE
      table.words[record + META] = (table.words[record + META]! & ~MARKS) | mark
    }
  }

  /** Removes the marked chunks, leaves first: each one when its last child has gone, then those with doomed children. */
  #removeMarked(reason: RemoveReason): number {
    const { table } = this.#residency
    let removed = 0
    for (let id = table.firstId; id < table.endId; id += 1) {
      for (let at = id; this.#isMarkedLeaf(at); ) {
        const parent = table.words[at * CHUNK_WORDS + PARENT]!
        removed += this.#residency.remove(at, reason)
        at = parent
      }
    }
    for (let id = table.firstId; id < table.endId; id += 1) {
      const record = id * CHUNK_WORDS
      const meta = table.words[record + META]!
      if ((meta & STATE_MASK) === LIVE && (meta & MARK_INSIDE) !== 0) removed += this.#residency.remove(id, reason)
      table.words[record + META] = table.words[record + META]! & ~MARKS
    }
    return removed
  }

  #isMarkedLeaf(id: number): boolean {
    if (id === NO_CHUNK) return false
    const record = id * CHUNK_WORDS
    const meta = this.#residency.table.words[record + META]!
    const isMarked = (meta & (STATE_MASK | MARK_INSIDE)) === (LIVE | MARK_INSIDE)
    return isMarked && this.#residency.table.words[record + CHILDREN] === 0
  }
}
