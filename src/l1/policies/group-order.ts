import { assert } from '../../core/assert.ts'
import {
  CHUNK_WORDS,
  type ChunkTable,
  HOLDS,
  LIVE,
  META,
  NO_CHUNK,
  PARENT,
  SPACE_SHIFT,
  STATE_MASK,
  TOUCH_MS,
} from '../chunk-table.ts'
import type { EvictionPolicy } from './policy.ts'

const NO_ENTRY = 0

/**
 * The free chunks of each group of key spaces by recency, beside a policy that orders those of all. A group is a cache
 * salt, for quotas, which evict a tenant's own chunks; or a part of L1, whose room only its own chunks can give. It
 * stands in front of the policy and hears what the policy hears.
 *
 *   chunk order   entry id: newer and older neighbour among the free chunks of its group     8 bytes a chunk
 *   row of group  entry: its oldest and its newest
 *
 * A list is the piece of the order in holds.ts that belongs to one group. Parent and child are of one space, so the
 * claim there holds for each list: the oldest one has no live child.
 *
 * Without `enable` there are no lists: it makes them, in the order of the policy, or by the last touch under one that
 * keeps no order. From an empty table that costs nothing, else some 100 ns a chunk, once.
 */
export class GroupOrder implements EvictionPolicy {
  readonly name: string
  readonly #inner: EvictionPolicy
  readonly #words: Uint32Array
  /** Pairs (newer, older): of chunk id at 2 id. Of the ends of a list, NO_ENTRY. */
  #links = new Uint32Array(0)
  /** Pairs (oldest, newest): of row at 2 row. */
  #ends = new Uint32Array(32)
  /** Row of its group by space. */
  readonly #rows: Uint16Array
  #listed = new Uint8Array(0)
  readonly #table: ChunkTable
  #isOn = false

  constructor(inner: EvictionPolicy, table: ChunkTable, rows: Uint16Array) {
    this.#rows = rows
    this.name = inner.name
    this.#inner = inner
    this.#words = table.words
    this.#table = table
  }

  /** Whether the lists are kept. */
  get isOn(): boolean {
    return this.#isOn
  }

  /** Keeps the lists from now on. */
  enable(): void {
    if (this.#isOn) return
    this.#isOn = true
    this.#links = new Uint32Array(2 * (this.#words.length / CHUNK_WORDS))
    if (this.#inner.namesAll !== true) this.#listByTouch()
    else for (let id = this.next(NO_CHUNK); id !== NO_CHUNK; id = this.next(id)) this.#linkNewest(id)
  }

  get bytes(): number {
    return this.#inner.bytes + this.#links.byteLength
  }

  /** The least recent free chunk of a group, which is a leaf, or NO_CHUNK. */
  oldest(row: number): number {
    this.enable()
    return this.#ends[2 * row] ?? NO_CHUNK
  }

  /** The free chunk of the same group that is next more recent, or NO_CHUNK. The lists are kept. */
  newer(id: number): number {
    return this.#links[2 * id]!
  }

  admit(id: number): void {
    this.#inner.admit(id)
  }

  hold(id: number): void {
    if (this.#isOn) this.#unlink(id)
    this.#inner.hold(id)
  }

  free(id: number): void {
    if (this.#isOn) this.#linkNewest(id)
    this.#inner.free(id)
  }

  touch(id: number): void {
    if (this.#isOn && this.#words[id * CHUNK_WORDS + HOLDS] === 0) {
      this.#unlink(id)
      this.#linkNewest(id)
    }
    this.#inner.touch(id)
  }

  ripen(id: number): void {
    this.#inner.ripen(id)
  }

  forget(id: number, isEvicted: boolean): void {
    if (this.#isOn && this.#words[id * CHUNK_WORDS + HOLDS] === 0) this.#unlink(id)
    this.#inner.forget(id, isEvicted)
  }

  victim(): number {
    return this.#inner.victim()
  }

  next(id: number): number {
    return this.#inner.next?.(id) ?? NO_CHUNK
  }

  verify(): void {
    this.#inner.verify()
    if (!this.#isOn) return
    const seen = new Uint8Array(this.#links.length / 2)
    for (let row = 0; 2 * row < this.#ends.length; row += 1) {
      let last = NO_ENTRY
      for (let id = this.#ends[2 * row]!; id !== NO_ENTRY; id = this.#links[2 * id]!) {
        const record = id * CHUNK_WORDS
        assert(this.#rowOf(id) === row, 'a group lists a chunk of another')
        assert(this.#words[record + HOLDS] === 0, 'a group lists a held chunk')
        assert(this.#links[2 * id + 1] === last, 'the list of a group is torn')
        assert(seen[this.#words[record + PARENT]!] === 0, 'a parent is older than its child, within a group')
        assert(seen[id] === 0, 'a chunk is listed twice')
        seen[id] = 1
        last = id
      }
      assert(this.#ends[2 * row + 1] === last, 'the newest of a group is not its last')
    }
    this.#listed = seen
  }

  /** Whether the last `verify` met a chunk, while the lists are kept: for tests. */
  isListed(id: number): boolean {
    return this.#listed[id] === 1
  }

  /** Lists the free chunks by their last touch, a parent newer than its children. */
  #listByTouch(): void {
    const words = this.#words
    const isFree = (id: number) =>
      (words[id * CHUNK_WORDS + META]! & STATE_MASK) === LIVE && words[id * CHUNK_WORDS + HOLDS] === 0
    const free: number[] = []
    for (let id = this.#table.firstId; id < this.#table.endId; id += 1) if (isFree(id)) free.push(id)
    free.sort((a, b) => words[b * CHUNK_WORDS + TOUCH_MS]! - words[a * CHUNK_WORDS + TOUCH_MS]!)
    const seen = new Uint8Array(this.#table.endId)
    const newestFirst: number[] = []
    for (const id of free) {
      const start = newestFirst.length
      for (let at = id; at !== NO_CHUNK && isFree(at) && seen[at] === 0; at = words[at * CHUNK_WORDS + PARENT]!) {
        seen[at] = 1
        newestFirst.push(at)
      }
      // The way up was noted from the child on; it is the other way round that they lie.
      for (let low = start, high = newestFirst.length - 1; low < high; low += 1, high -= 1) {
        const child = newestFirst[low]!
        newestFirst[low] = newestFirst[high]!
        newestFirst[high] = child
      }
    }
    for (let at = newestFirst.length - 1; at >= 0; at -= 1) this.#linkNewest(newestFirst[at]!)
  }

  #rowOf(id: number): number {
    return this.#rows[this.#words[id * CHUNK_WORDS + META]! >>> SPACE_SHIFT]!
  }

  #linkNewest(id: number): void {
    const links = this.#links
    const end = 2 * this.#rowOf(id)
    if (end >= this.#ends.length) this.#grow(2 * end)
    const ends = this.#ends
    const newest = ends[end + 1]!
    links[2 * id] = NO_ENTRY
    links[2 * id + 1] = newest
    if (newest === NO_CHUNK) ends[end] = id
    else links[2 * newest] = id
    ends[end + 1] = id
  }

  #unlink(id: number): void {
    const links = this.#links
    const end = 2 * this.#rowOf(id)
    const newer = links[2 * id]!
    const older = links[2 * id + 1]!
    if (older === NO_ENTRY) this.#ends[end] = newer
    else links[2 * older] = newer
    if (newer === NO_ENTRY) this.#ends[end + 1] = older
    else links[2 * newer + 1] = older
  }

  #grow(length: number): void {
    const ends = new Uint32Array(length)
    ends.set(this.#ends)
    this.#ends = ends
  }
}
