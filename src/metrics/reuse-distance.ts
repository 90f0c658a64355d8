import { assert } from '../core/assert.ts'
import { SAMPLE_ALL, sampleValue } from '../events/chunk-tag.ts'
import { NO_ENTRY, TagIndex } from './tag-index.ts'

// How it works. Time is a counter of touches; every chunk in the history has the time of its last touch, and two
// Fenwick trees over times hold a 1 and the chunk's bytes there. The distance of a chunk is what the trees hold
// after its time: the distinct chunks touched since. When times run out, the chunks are renumbered in order. As long
// as all chunks have the same length, bytes follow from counts, and their tree is left alone.
//
// The history is a spatial sample with a fixed maximum (Waldspurger et al., "Efficient MRC Construction with SHARDS",
// FAST 2015): a chunk is followed when `sampleValue(tag) < threshold`. At first every chunk is; when the history is
// full, the chunk of the highest value leaves and the threshold falls to it. Distances are divided by the rate.
//
//   time      0  1  2  3  4  5  6  7        b's distance: c, e and d were touched after it = 3
//   chunk     a  .  b  .  c  e  .  d        touched now: b moves to time 8
//   count     1  0  1  0  1  1  0  1

const TIMES_PER_CHUNK = 4
const TOTAL = 0
const MARKED = 1

/** LRU stack distances over a bounded, spatially sampled history. Nothing is allocated after the constructor. */
export class StackDistance {
  /** After a `touch` that found the chunk: distinct chunks above it and their bytes, rescaled. */
  chunks = 0
  bytes = 0
  /** After any `touch`: the chunk was in the history. */
  isSeen = false
  /** Samples that left the history for room. */
  dropped = 0

  readonly #given = new Float64Array(2)
  readonly #capacity: number
  readonly #times: number
  readonly #index: TagIndex
  readonly #tags: Float64Array
  readonly #sizes: Float64Array
  readonly #timeOf: Int32Array
  readonly #entryAt: Int32Array // by time: entry + 1, 0 = none
  readonly #countTree: Int32Array // 1-based
  readonly #bytesTree: Float64Array
  readonly #heap: Int32Array // entries, the highest sample value on top
  readonly #free: Int32Array
  #size = 0
  #now = 0
  #threshold = SAMPLE_ALL
  /** Bytes of every chunk; meaningless once there are two lengths. */
  #eachBytes = 0
  #isUniform = true
  /** Of mixed lengths only: bytes of all, and of the batch. In an array, because a number in a field is boxed anew. */
  readonly #sums = new Float64Array(2)
  #markTime = 0
  #markCount = 0

  constructor(capacityChunks: number) {
    assert(capacityChunks > 0, 'no history')
    this.#capacity = capacityChunks
    this.#times = capacityChunks * TIMES_PER_CHUNK
    const entries = capacityChunks + 1 // one more while a chunk comes in and another leaves
    this.#tags = new Float64Array(entries)
    this.#sizes = new Float64Array(entries)
    this.#timeOf = new Int32Array(entries)
    this.#heap = new Int32Array(entries)
    this.#free = Int32Array.from({ length: entries }, (_, i) => i)
    this.#index = new TagIndex(this.#tags)
    this.#entryAt = new Int32Array(this.#times)
    this.#countTree = new Int32Array(this.#times + 1)
    this.#bytesTree = new Float64Array(this.#times + 1)
  }

  /** Tags whose `sampleValue` is below this are followed; 2^32 = all. Only falls. */
  get threshold(): number {
    return this.#threshold
  }

  /** Share of all chunks that is followed, 0..1. */
  get rate(): number {
    return this.#threshold / SAMPLE_ALL
  }

  /** Chunks in the history. */
  get size(): number {
    return this.#size
  }

  /**
   * Starts a batch: until the next call, distances are against the history as it is now. That is exact when a batch
   * touches the deepest chunks first and none twice, which holds for a prompt touched tail first: a chunk's ancestors
   * are touched after it each time, so its own distance is never below theirs.
   */
  startBatch(): void {
    this.#markTime = this.#now
    this.#markCount = 0
    this.#sums[MARKED] = 0
  }

  /**
   * Takes the distance of a chunk, then makes it the most recent one.
   *
   * @param isBatch the batch's own chunks do not count (see `startBatch`).
   * @returns false when the chunk is not in the sample; then nothing changed.
   */
  touch(tag: number, bytes: number, isBatch = false): boolean {
    this.#given[0] = tag
    this.#given[1] = bytes
    return this.touchAt(this.#given, 0, isBatch)
  }

  /** As `touch`: the tag is `values[at]`, its bytes `values[at + 1]`. Numbers passed in an array are not boxed. */
  touchAt(values: Float64Array, at: number, isBatch: boolean): boolean {
    const tag = values[at]!
    const bytes = values[at + 1]!
    if (sampleValue(tag) >= this.#threshold) return false
    if (this.#now === this.#times) this.#renumber()
    if (this.#isUniform && bytes !== this.#eachBytes) this.#noteBytes(bytes)
    const fresh = this.#free[this.#size]!
    this.#tags[fresh] = tag
    let entry = this.#index.find(fresh)
    this.isSeen = entry !== NO_ENTRY
    if (this.isSeen) {
      this.#measure(entry, isBatch)
      this.#unplace(entry)
    } else {
      entry = fresh
      this.#index.insert(entry)
      this.#push(entry)
    }
    this.#sizes[entry] = bytes
    this.#place(entry)
    if (this.#size > this.#capacity) this.#lowerThreshold()
    return true
  }

  /** Whole-structure check for tests. */
  verify(): void {
    let count = 0
    let bytes = 0
    for (let time = 0; time < this.#times; time += 1) {
      const entry = this.#entryAt[time]! - 1
      if (entry === NO_ENTRY) continue
      assert(time < this.#now && this.#timeOf[entry] === time, 'chunk at another time')
      assert(this.#index.find(entry) === entry, 'chunk missing from the index')
      assert(sampleValue(this.#tags[entry]!) < this.#threshold, 'chunk over the threshold')
      count += 1
      bytes += this.#sizes[entry]!
      assert(this.#countUpTo(time) === count, 'count tree is wrong')
    }
    assert(count === this.#size && this.#size <= this.#capacity, 'history of another size')
    const expected = this.#isUniform ? this.#size * this.#eachBytes : this.#sums[TOTAL]!
    assert(Math.abs(bytes - expected) < 1, 'bytes of the history are wrong')
    for (let i = 1; i < this.#size; i += 1) {
      assert(this.#value(i) <= this.#value((i - 1) >> 1), 'heap out of order')
    }
  }

  #measure(entry: number, isBatch: boolean): void {
    const time = this.#timeOf[entry]!
    const above = Math.max(0, this.#size - this.#countUpTo(time) - (isBatch ? this.#markCount : 0))
    this.chunks = above / this.rate
    this.bytes = (this.#isUniform ? above * this.#eachBytes : this.#bytesAbove(time, isBatch)) / this.rate
  }

  #bytesAbove(time: number, isBatch: boolean): number {
    let bytes = 0
    for (let i = time + 1; i > 0; i &= i - 1) bytes += this.#bytesTree[i]!
    return Math.max(0, this.#sums[TOTAL]! - bytes - (isBatch ? this.#sums[MARKED]! : 0))
  }

  /** A chunk of another length than all so far. */
  #noteBytes(bytes: number): void {
    if (this.#size === 0) {
      this.#eachBytes = bytes
      return
    }
    this.#isUniform = false
    this.#sums[TOTAL] = this.#size * this.#eachBytes
    this.#sums[MARKED] = this.#markCount * this.#eachBytes
    this.#growBytesTree()
  }

  #countUpTo(time: number): number {
    let count = 0
    for (let i = time + 1; i > 0; i &= i - 1) count += this.#countTree[i]!
    return count
  }

  #add(time: number, count: number, bytes: number): void {
    const tree = this.#countTree
    for (let i = time + 1; i < tree.length; i += i & -i) tree[i]! += count
    if (time >= this.#markTime) this.#markCount += count
    if (this.#isUniform) return
    for (let i = time + 1; i <= this.#times; i += i & -i) this.#bytesTree[i]! += bytes
    this.#sums[TOTAL]! += bytes
    if (time >= this.#markTime) this.#sums[MARKED]! += bytes
  }

  #place(entry: number): void {
    const time = this.#now
    this.#now += 1
    this.#timeOf[entry] = time
    this.#entryAt[time] = entry + 1
    this.#add(time, 1, this.#sizes[entry]!)
  }

  #unplace(entry: number): void {
    const time = this.#timeOf[entry]!
    this.#entryAt[time] = 0
    this.#add(time, -1, -this.#sizes[entry]!)
  }

  /** Moves all times together, in order, and builds both trees again. */
  #renumber(): void {
    let next = 0
    let mark = this.#size
    for (let time = 0; time < this.#times; time += 1) {
      if (time === this.#markTime) mark = next
      const held = this.#entryAt[time]!
      if (held === 0) continue
      this.#entryAt[time] = 0
      this.#entryAt[next] = held
      this.#timeOf[held - 1] = next
      next += 1
    }
    this.#now = next
    this.#markTime = mark
    this.#countTree.fill(0)
    for (let i = 1; i <= this.#times; i += 1) {
      if (this.#entryAt[i - 1] !== 0) this.#countTree[i]! += 1
      const parent = i + (i & -i)
      if (parent <= this.#times) this.#countTree[parent]! += this.#countTree[i]!
    }
    if (!this.#isUniform) this.#growBytesTree()
  }

  #growBytesTree(): void {
    this.#bytesTree.fill(0)
    for (let i = 1; i <= this.#times; i += 1) {
      const held = this.#entryAt[i - 1]!
      if (held !== 0) this.#bytesTree[i]! += this.#sizes[held - 1]!
      const parent = i + (i & -i)
      if (parent <= this.#times) this.#bytesTree[parent]! += this.#bytesTree[i]!
    }
  }

  /** The chunks of the highest value leave; the threshold falls to that value. */
  #lowerThreshold(): void {
    this.#threshold = this.#value(0)
    while (this.#size > 0 && this.#value(0) >= this.#threshold) {
      const entry = this.#heap[0]!
      this.#unplace(entry)
      this.#index.remove(entry)
      this.#pop()
      this.#free[this.#size] = entry
      this.dropped += 1
    }
  }

  #value(place: number): number {
    return sampleValue(this.#tags[this.#heap[place]!]!)
  }

  #swap(a: number, b: number): void {
    const held = this.#heap[a]!
    this.#heap[a] = this.#heap[b]!
    this.#heap[b] = held
  }

  #push(entry: number): void {
    let at = this.#size
    this.#heap[at] = entry
    this.#size += 1
    while (at > 0 && this.#value(at) > this.#value((at - 1) >> 1)) {
      this.#swap(at, (at - 1) >> 1)
      at = (at - 1) >> 1
    }
  }

  #pop(): void {
    this.#size -= 1
    this.#heap[0] = this.#heap[this.#size]!
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.#size) return
      if (child + 1 < this.#size && this.#value(child + 1) > this.#value(child)) child += 1
      if (this.#value(at) >= this.#value(child)) return
      this.#swap(at, child)
      at = child
    }
  }
}
