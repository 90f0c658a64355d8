import { assert } from '../core/assert.ts'
import { SAMPLE_ALL, sampleValue } from '../events/chunk-tag.ts'
import { NO_ENTRY, TagIndex } from './tag-index.ts'
import { TimeCounts } from './time-counts.ts'

// How it works. Time is a counter of touches; every chunk in the history has the time of its last touch, which is taken in
// `TimeCounts`. The distance of a chunk is how many times are taken after its own: the distinct chunks touched since. When
// times run out, the chunks are renumbered in order. As long as all chunks have the same length, bytes follow from counts;
// from the second length on, a Fenwick tree over times holds them.
//
// The history is a spatial sample (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015): a chunk is
// followed when `sampleValue(tag) < threshold`, and distances are divided by the rate. At first every chunk is. When the
// history is full the threshold falls and what is above it leaves. Once the history reaches as deep as anybody asks,
// the rate stays: then the chunk touched longest ago leaves instead, and counts as never seen when it comes again.
//
//   time      0  1  2  3  4  5  6  7        b's distance: c, e and d were touched after it = 3
//   chunk     a  .  b  .  c  e  .  d        touched now: b moves to time 8
//   count     1  0  1  0  1  1  0  1

const TIMES_PER_CHUNK = 4
/** All chunks are followed until there are so many, whatever the depth: small histories are exact, and told of early. */
const FIRST_CHUNKS = 1_024
/** The rate falls to this share of itself at least, so that a sweep over the history pays. */
const RATE_STEP = 7 / 8
const TOTAL = 0
const MARKED = 1

/** Places in `StackDistance.measured`. */
export const CHUNKS = 0
export const BYTES = 1
export const WEIGHT = 2

/** LRU stack distances over a bounded, spatially sampled history. Nothing is allocated after the constructor. */
export class StackDistance {
  /** After any `touch`: the chunk was in the history. */
  isSeen = false
  /** Samples that left the history for room. */
  dropped = 0
  /** How far back distances are asked for, in bytes, rescaled; 0 = any distance. */
  depthBytes = 0

  /**
   * The last distance, as in `chunks` and `bytes`, and for how many chunks a followed one stands. In an array, because a
   * number in a field, an argument or a result may be boxed anew each time.
   */
  readonly measured = Float64Array.of(0, 0, 1)

  readonly #given = new Float64Array(2)
  readonly #capacity: number
  readonly #times: number
  readonly #index: TagIndex
  readonly #tags: Float64Array
  readonly #sizes: Float64Array // meaningless as long as all chunks have the same length
  readonly #timeOf: Int32Array
  readonly #entryAt: Int32Array // by time: entry + 1, 0 = none
  readonly #counts: TimeCounts
  readonly #bytesTree: Float64Array // 1-based
  readonly #free: Int32Array // entries from `size` on
  #size = 0
  #limit: number
  #now = 0
  /** When the chunk that was found last had been touched before, and where its prompt goes on from there: 1 or -1. */
  #foundTime = 0
  #step = 1
  /** No chunk has an earlier time. */
  #oldest = 0
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
    this.#limit = Math.min(capacityChunks, FIRST_CHUNKS)
    this.#times = capacityChunks * TIMES_PER_CHUNK
    const entries = capacityChunks + 1 // one more for the tag that is looked for
    this.#tags = new Float64Array(entries)
    this.#sizes = new Float64Array(entries)
    this.#timeOf = new Int32Array(entries)
    this.#free = Int32Array.from({ length: entries }, (_, i) => i)
    this.#index = new TagIndex(this.#tags)
    this.#entryAt = new Int32Array(this.#times + 1) // one more than there are times, for a guess past the end
    this.#counts = new TimeCounts(this.#times)
    this.#bytesTree = new Float64Array(this.#times + 1)
  }

  /** After a `touch` that found the chunk: distinct chunks above it, rescaled. */
  get chunks(): number {
    return this.measured[CHUNKS]!
  }

  /** The same in bytes. */
  get bytes(): number {
    return this.measured[BYTES]!
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
    const spare = this.#free[this.#size]!
    this.#tags[spare] = tag
    let entry = this.#find(spare)
    this.isSeen = entry !== NO_ENTRY
    if (this.isSeen) {
      this.#measure(entry, isBatch)
      this.#unplace(entry)
    } else {
      if (this.#size === this.#limit) {
        this.#makeRoom()
        if (sampleValue(tag) >= this.#threshold) return false
      }
      entry = this.#free[this.#size]!
      this.#tags[entry] = tag
      this.#index.insert(entry)
      this.#size += 1
    }
    if (!this.#isUniform) this.#sizes[entry] = bytes
    this.#place(entry)
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
      bytes += this.#isUniform ? this.#eachBytes : this.#sizes[entry]!
      assert(this.#counts.upTo(time) === count, 'times are miscounted')
    }
    assert(count === this.#size && this.#size <= this.#capacity, 'history of another size')
    const expected = this.#isUniform ? this.#size * this.#eachBytes : this.#sums[TOTAL]!
    assert(Math.abs(bytes - expected) < 1, 'bytes of the history are wrong')
  }

  /**
   * The chunk whose tag stands at `spare`: looked for beside the one that was found last, where its prompt goes on, and
   * only then by hash.
   */
  #find(spare: number): number {
    const guess = this.#foundTime + this.#step
    const guessed = guess < 0 ? NO_ENTRY : this.#entryAt[guess]! - 1
    if (guessed !== NO_ENTRY && this.#tags[guessed] === this.#tags[spare]) return guessed
    const entry = this.#index.find(spare)
    if (entry !== NO_ENTRY) this.#step = this.#timeOf[entry] === this.#foundTime - 1 ? -1 : 1
    return entry
  }

  #measure(entry: number, isBatch: boolean): void {
    const time = this.#timeOf[entry]!
    this.#foundTime = time
    const above = Math.max(0, this.#size - this.#counts.upTo(time) - (isBatch ? this.#markCount : 0))
    const { measured } = this
    const bytes = this.#isUniform ? above * this.#eachBytes : this.#bytesAbove(time, isBatch)
    measured[CHUNKS] = above * measured[WEIGHT]!
    measured[BYTES] = bytes * measured[WEIGHT]!
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
    this.#sizes.fill(this.#eachBytes)
    this.#sums[TOTAL] = this.#size * this.#eachBytes
    this.#sums[MARKED] = this.#markCount * this.#eachBytes
    this.#growBytesTree()
  }

  /** The bytes of a chunk come to a time (sign 1) or leave it (sign -1); only where lengths differ. */
  #addBytes(time: number, sign: 1 | -1, entry: number): void {
    const bytes = sign * this.#sizes[entry]!
    for (let i = time + 1; i <= this.#times; i += i & -i) this.#bytesTree[i]! += bytes
    this.#sums[TOTAL]! += bytes
    if (time >= this.#markTime) this.#sums[MARKED]! += bytes
  }

  #place(entry: number): void {
    const time = this.#now
    this.#now += 1
    this.#timeOf[entry] = time
    this.#entryAt[time] = entry + 1
    this.#counts.take(time)
    this.#markCount += 1 // the newest time is never before the mark
    if (!this.#isUniform) this.#addBytes(time, 1, entry)
  }

  #unplace(entry: number): void {
    const time = this.#timeOf[entry]!
    this.#entryAt[time] = 0
    this.#counts.give(time)
    if (time >= this.#markTime) this.#markCount -= 1
    if (!this.#isUniform) this.#addBytes(time, -1, entry)
  }

  /** Moves all times together, in order, and counts them again. */
  #renumber(): void {
    let next = 0
    let mark = this.#size
    for (let time = 0; time < this.#now; time += 1) {
      if (time === this.#markTime) mark = next
      const held = this.#entryAt[time]!
      if (held === 0) continue
      this.#entryAt[time] = 0
      this.#entryAt[next] = held
      this.#timeOf[held - 1] = next
      next += 1
    }
    this.#now = next
    this.#oldest = 0
    this.#markTime = mark
    this.#markCount = next - mark
    this.#counts.takeFirst(next)
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

  /** The history is full: it gets thinner, or shorter when it is deep enough. */
  #makeRoom(): void {
    const isFirst = this.#limit < this.#capacity
    this.#limit = this.#capacity
    const heldBytes = this.#isUniform ? this.#size * this.#eachBytes : this.#sums[TOTAL]!
    // The rate at which a full history reaches as deep as is wanted; 0 = it never does.
    const wanted = this.depthBytes > 0 ? (this.#capacity * heldBytes) / (this.#size * this.depthBytes) : 0
    if (isFirst) {
      if (wanted > 0 && wanted < this.rate) this.#lowerRate(wanted)
    } else if (this.rate <= wanted) this.#dropOldest()
    else while (this.#size === this.#limit) this.#lowerRate(Math.min(this.rate * RATE_STEP, wanted > 0 ? wanted : 1))
  }

  #dropOldest(): void {
    while (this.#entryAt[this.#oldest] === 0) this.#oldest += 1
    const entry = this.#entryAt[this.#oldest]! - 1
    this.#unplace(entry)
    this.#drop(entry)
  }

  /** What is not in the smaller sample leaves. */
  #lowerRate(rate: number): void {
    this.#threshold = Math.max(1, Math.floor(rate * SAMPLE_ALL))
    this.measured[WEIGHT] = SAMPLE_ALL / this.#threshold
    for (let time = this.#oldest; time < this.#now; time += 1) {
      const entry = this.#entryAt[time]! - 1
      if (entry === NO_ENTRY || sampleValue(this.#tags[entry]!) < this.#threshold) continue
      if (!this.#isUniform) this.#sums[TOTAL]! -= this.#sizes[entry]!
      if (!this.#isUniform && time >= this.#markTime) this.#sums[MARKED]! -= this.#sizes[entry]!
      this.#entryAt[time] = 0
      this.#drop(entry)
    }
    this.#renumber()
  }

  /** Forgets a chunk that has no time any more. */
  #drop(entry: number): void {
    this.#index.remove(entry)
    this.#size -= 1
    this.#free[this.#size] = entry
    this.dropped += 1
  }
}
