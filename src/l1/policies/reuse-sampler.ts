import { AGE_BUCKETS, ageBucket, type ReuseHazard } from './reuse-hazard.ts'

const NO_TOUCH = 0

/**
 * Observes how soon sampled chunks are asked for again, whether they are in L1 or not: a ring of their last touches,
 * found by print.
 *
 *   ring    oldest [ print, class, stamp | ... ] newest          a touch that is followed by another is dead
 *
 * A touch is told of once: when the next one of its chunk comes, or when it falls out of the ring, so that it was not
 * asked for again within the ages that can be seen. What is still in the ring is counted by its age when it matters.
 */
export class ReuseSampler {
  readonly #hazard: ReuseHazard
  readonly #prints: Uint32Array
  readonly #stamps: Uint32Array
  readonly #classes: Uint8Array
  readonly #isLive: Uint8Array
  readonly #nextInBucket: Uint16Array
  readonly #buckets: Uint16Array
  #newest = 0

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
    return this.#prints.length * (4 + 4 + 1 + 1 + 2 + 2)
  }

  /** A sampled chunk is asked for, and from here on of a class. */
  touch(print: number, reuseClass: number, now: number): void {
    const mask = this.#prints.length - 1
    const found = this.#find(print)
    if (found !== NO_TOUCH) {
      this.#hazard.again(this.#classes[found - 1]!, ageBucket((now - this.#stamps[found - 1]!) >>> 0))
      this.#kill(found)
    }
    const place = this.#newest
    if (this.#isLive[place] === 1) {
      this.#hazard.lost(this.#classes[place]!, ageBucket((now - this.#stamps[place]!) >>> 0))
      this.#kill(place + 1)
    }
    this.#prints[place] = print
    this.#stamps[place] = now
    this.#classes[place] = reuseClass
    this.#isLive[place] = 1
    this.#nextInBucket[place + 1] = this.#buckets[print & mask]!
    this.#buckets[print & mask] = place + 1
    this.#newest = (place + 1) & mask
  }

  /** Counts the touches that wait for another one, for `ReuseHazard.update`. A nanosecond each. */
  countWaiting(now: number): void {
    const { waiting } = this.#hazard
    waiting.fill(0)
    for (let place = 0; place < this.#isLive.length; place += 1) {
      if (this.#isLive[place] === 0) continue
      const at = this.#classes[place]! * AGE_BUCKETS + ageBucket((now - this.#stamps[place]!) >>> 0)
      waiting[at] = waiting[at]! + 1
    }
  }

  clear(): void {
    this.#isLive.fill(0)
    this.#buckets.fill(NO_TOUCH)
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
