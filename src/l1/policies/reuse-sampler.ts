import { AGE_BUCKETS, ageBucket, bucketStart, type ReuseHazard } from './reuse-hazard.ts'

const NO_TOUCH = 0
/** Touches between two rounds of the marks. */
const ROUND_TOUCHES = 16

/**
 * Observes how soon sampled chunks are asked for again, whether they are in L1 or not: a ring of their last touches,
 * found by print.
 *
 *   ring    oldest [ print, class, stamp | ... ] newest          a touch that is followed by another is dead
 *   marks   for each age bucket: how far into the ring touches have got that old; a live one that a mark passes
 *           has reached the bucket. Marks move every 16 touches; a touch that dies before counts by its age
 *
 * A touch that falls out of the ring was not asked for again within the ages that can be seen.
 */
export class ReuseSampler {
  readonly #hazard: ReuseHazard
  readonly #prints: Uint32Array
  readonly #stamps: Uint32Array
  readonly #classes: Uint8Array
  readonly #isLive: Uint8Array
  readonly #nextInBucket: Uint16Array
  readonly #buckets: Uint16Array
  /** Touches since the start, by mark: that of a bucket is at ring position mark % length. */
  readonly #marks = new Float64Array(AGE_BUCKETS)
  readonly #starts = Float64Array.from({ length: AGE_BUCKETS }, (_, bucket) => bucketStart(bucket))
  readonly #touches = new Float64Array(1)

  /** @param capacity touches; a power of two below 2^16. */
  constructor(capacity: number, hazard: ReuseHazard) {
    this.#hazard = hazard
    this.#prints = new Uint32Array(capacity)
    this.#stamps = new Uint32Array(capacity)
    this.#classes = new Uint8Array(capacity)
    this.#isLive = new Uint8Array(capacity)
    this.#nextInBucket = new Uint16Array(capacity + 1)
    this.#buckets = new Uint16Array(capacity)
  }

  get bytes(): number {
    return this.#prints.length * (4 + 4 + 1 + 1 + 2 + 2) + 2 * 8 * AGE_BUCKETS
  }

  /** A sampled chunk is asked for, and from here on of a class. */
  touch(print: number, reuseClass: number, now: number): void {
    const found = this.#find(print)
    if (found !== NO_TOUCH) {
      const age = (now - this.#stamps[found - 1]!) >>> 0
      this.#askedAgain(found - 1, ageBucket(age))
      this.#kill(found)
    }
    const mask = this.#prints.length - 1
    const place = this.#touches[0]! & mask
    if (this.#isLive[place] === 1) this.#kill(place + 1)
    this.#prints[place] = print
    this.#stamps[place] = now
    this.#classes[place] = reuseClass
    this.#isLive[place] = 1
    this.#nextInBucket[place + 1] = this.#buckets[print & mask]!
    this.#buckets[print & mask] = place + 1
    this.#touches[0] = this.#touches[0]! + 1
    this.#hazard.reached(reuseClass, 0)
    if (this.#touches[0]! % ROUND_TOUCHES === 0) this.#advanceMarks(now)
  }

  clear(): void {
    this.#isLive.fill(0)
    this.#buckets.fill(NO_TOUCH)
    this.#marks.fill(this.#touches[0]!)
  }

  #askedAgain(place: number, bucket: number): void {
    const reuseClass = this.#classes[place]!
    const touches = this.#touches[0]!
    const mask = this.#prints.length - 1
    const touch = touches - 1 - ((touches - 1 - place) & mask)
    this.#hazard.again(reuseClass, bucket)
    for (let other = bucket; other > 0 && this.#marks[other]! <= touch; other -= 1) {
      this.#hazard.reached(reuseClass, other)
    }
  }

  #advanceMarks(now: number): void {
    const mask = this.#prints.length - 1
    const touches = this.#touches[0]!
    for (let bucket = 1; bucket < AGE_BUCKETS; bucket += 1) {
      let mark = Math.max(this.#marks[bucket]!, touches - mask - 1)
      const start = this.#starts[bucket]!
      while (mark < touches && (now - this.#stamps[mark & mask]!) >>> 0 >= start) {
        if (this.#isLive[mark & mask] === 1) this.#hazard.reached(this.#classes[mark & mask]!, bucket)
        mark += 1
      }
      this.#marks[bucket] = mark
      if (mark === touches - mask - 1 || start > 2 ** 31) break // nothing is that old
    }
  }

  #find(print: number): number {
    let touch = this.#buckets[print & (this.#prints.length - 1)]!
    while (touch !== NO_TOUCH && this.#prints[touch - 1] !== print) touch = this.#nextInBucket[touch]!
    return touch
  }

  #kill(touch: number): void {
    const bucket = this.#prints[touch - 1]! & (this.#prints.length - 1)
    this.#isLive[touch - 1] = 0
    if (this.#buckets[bucket] === touch) {
      this.#buckets[bucket] = this.#nextInBucket[touch]!
      return
    }
    let other = this.#buckets[bucket]!
    while (this.#nextInBucket[other] !== touch) other = this.#nextInBucket[other]!
    this.#nextInBucket[other] = this.#nextInBucket[touch]!
  }
}
