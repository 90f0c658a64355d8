import { assert } from '../../core/assert.ts'
import {
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
import type { EvictionPolicy } from './policy.ts'

/**
 * Leaf-first least recently used: a list of the free chunks, linked through their own records; record 0 is the
 * sentinel. Nothing has to look for leaves, the order provides them (proof in ../holds.ts): the oldest
 * free chunk has no child.
 */
export class LruPolicy implements EvictionPolicy {
  readonly name = 'lru'
  readonly bytes = 0
  readonly namesAll = true
  readonly #words: Uint32Array
  readonly #table: ChunkTable
  #count = 0

  constructor(table: ChunkTable) {
    this.#table = table
    this.#words = table.words
  }

  admit(_id: number): void {}

  ripen(_id: number): void {}

  hold(id: number): void {
    this.#unlink(id)
    this.#count -= 1
  }

  free(id: number): void {
    this.#linkNewest(id)
    this.#count += 1
  }

  touch(id: number): void {
    if (this.#words[id * CHUNK_WORDS + HOLDS] !== 0) return // becomes the newest when it is let go
    this.#unlink(id)
    this.#linkNewest(id)
  }

  forget(id: number, _isEvicted: boolean): void {
    if (this.#words[id * CHUNK_WORDS + HOLDS] === 0) this.hold(id)
  }

  victim(): number {
    return this.#words[NEWER]!
  }

  next(id: number): number {
    return this.#words[id * CHUNK_WORDS + NEWER]! // NO_CHUNK is the sentinel
  }

  verify(): void {
    const words = this.#words
    let walked = 0
    const seen = new Uint8Array(this.#table.endId)
    for (let id = words[NEWER]!; id !== NO_CHUNK; id = words[id * CHUNK_WORDS + NEWER]!) {
      const record = id * CHUNK_WORDS
      assert((words[record + META]! & STATE_MASK) === LIVE, 'the recency list holds a chunk that is not live')
      assert(words[record + HOLDS] === 0, 'the recency list holds a held chunk')
      assert(words[words[record + NEWER]! * CHUNK_WORDS + OLDER] === id, 'the recency list is torn')
      assert(seen[words[record + PARENT]!] === 0, 'a parent is older than its child')
      seen[id] = 1
      walked += 1
    }
    assert(walked === this.#count, 'free chunks are miscounted')
  }

  #unlink(id: number): void {
    const words = this.#words
    const record = id * CHUNK_WORDS
    const newer = words[record + NEWER]!
    const older = words[record + OLDER]!
    words[older * CHUNK_WORDS + NEWER] = newer
    words[newer * CHUNK_WORDS + OLDER] = older
  }

  #linkNewest(id: number): void {
    const words = this.#words
    const record = id * CHUNK_WORDS
    const newest = words[OLDER]!
    words[newest * CHUNK_WORDS + NEWER] = id
    words[record + OLDER] = newest
    words[record + NEWER] = NO_CHUNK
    words[OLDER] = id
  }
}
