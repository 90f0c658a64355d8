import { assert } from '../../core/assert.ts'
import { CHUNK_WORDS, type ChunkTable, HOLDS, META, NO_CHUNK, PARENT, SPACE_SHIFT } from '../chunk-table.ts'
import type { EvictionPolicy } from './policy.ts'

const NO_ENTRY = 0

/**
 * The free chunks of each cache salt by recency, beside a policy that orders those of all salts: for quotas, which
 * evict a tenant's own chunks, leaf first. It stands in front of the policy and hears what the policy hears.
 *
 *   chunk order   entry id: newer and older neighbour among the free chunks of its salt     8 bytes a chunk
 *   salt row      entry: its oldest and its newest
 *
 * A list is the part of the order in holds.ts that belongs to one salt. Parent and child are of one salt, so the claim
 * there holds for each list: the oldest one has no live child.
 */
export class SaltOrder implements EvictionPolicy {
  readonly name: string
  readonly #inner: EvictionPolicy
  readonly #words: Uint32Array
  /** Pairs (newer, older): of chunk id at 2 id. Of the ends of a list, NO_ENTRY. */
  readonly #links: Uint32Array
  /** Pairs (oldest, newest): of row at 2 row. */
  #ends = new Uint32Array(32)
  /** Salt row by space. */
  readonly #saltRows: Uint16Array
  #listed = new Uint8Array(0)

  constructor(inner: EvictionPolicy, table: ChunkTable, saltRows: Uint16Array) {
    this.#saltRows = saltRows
    this.name = inner.name
    this.#inner = inner
    this.#words = table.words
    this.#links = new Uint32Array(2 * (table.words.length / CHUNK_WORDS))
  }

  get bytes(): number {
    return this.#inner.bytes + this.#links.byteLength
  }

  /** The least recent free chunk of a salt, which is a leaf, or NO_CHUNK. */
  oldest(row: number): number {
    return this.#ends[2 * row] ?? NO_CHUNK
  }

  admit(id: number): void {
    this.#inner.admit(id)
  }

  hold(id: number): void {
    this.#unlink(id)
    this.#inner.hold(id)
  }

  free(id: number): void {
    this.#linkNewest(id)
    this.#inner.free(id)
  }

  touch(id: number): void {
    if (this.#words[id * CHUNK_WORDS + HOLDS] === 0) {
      this.#unlink(id)
      this.#linkNewest(id)
    }
    this.#inner.touch(id)
  }

  ripen(id: number): void {
    this.#inner.ripen(id)
  }

  forget(id: number, isEvicted: boolean): void {
    if (this.#words[id * CHUNK_WORDS + HOLDS] === 0) this.#unlink(id)
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
    const seen = new Uint8Array(this.#links.length / 2)
    for (let row = 0; 2 * row < this.#ends.length; row += 1) {
      let last = NO_ENTRY
      for (let id = this.#ends[2 * row]!; id !== NO_ENTRY; id = this.#links[2 * id]!) {
        const record = id * CHUNK_WORDS
        assert(this.#rowOf(id) === row, 'a salt lists a chunk of another')
        assert(this.#words[record + HOLDS] === 0, 'a salt lists a held chunk')
        assert(this.#links[2 * id + 1] === last, 'the list of a salt is torn')
        assert(seen[this.#words[record + PARENT]!] === 0, 'a parent is older than its child, within a salt')
        assert(seen[id] === 0, 'a chunk is listed twice')
        seen[id] = 1
        last = id
      }
      assert(this.#ends[2 * row + 1] === last, 'the newest of a salt is not its last')
    }
    this.#listed = seen
  }

  /** Whether the last `verify` met a chunk: for tests. */
  isListed(id: number): boolean {
    return this.#listed[id] === 1
  }

  #rowOf(id: number): number {
    return this.#saltRows[this.#words[id * CHUNK_WORDS + META]! >>> SPACE_SHIFT]!
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
