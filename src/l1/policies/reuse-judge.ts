import { ReuseHazard } from './reuse-hazard.ts'
import { ReuseSampler } from './reuse-sampler.ts'
import { ShadowCache } from './shadow-cache.ts'

/** Sampled chunks that L1 may hold: a larger L1 is sampled less. A power of two. */
const SHADOW_CHUNKS = 512
/** One of 2^2 chunks is sampled at most: what a sample costs is then little beside what all four cost. */
const SHIFT_MIN = 2
/** Touches that are observed, in sizes of a shadow cache: ages up to sixteen times the size of L1. */
const OBSERVED_SIZES = 16
/** Samples between two updates of the worth, and until old observations are halved. */
const UPDATE_SAMPLES = 256
const UPDATE_RATIO = 1 / 8
const UPDATE_SAMPLES_MAX = 4096
const FADE_SAMPLES = 32_768
/** How many hits the other order must be ahead to be followed: a share of a shadow cache, and at least some. */
const LEAD_TO_WORTH = 1 / 6
const LEAD_TO_AGE = 1 / 12
const LEAD_MIN = 12

/**
 * Decides, from a sample of the chunks that are asked for, whether to evict by worth or by age. Two shadow caches hit or
 * miss on the same chunks, each as large as the sampled part of L1 is at the moment.
 *
 *   bits of a chunk & mask = 0  -->  sampler (learns worth), shadow by worth, shadow by age
 *   L1 holds more than SHADOW_CHUNKS of these  -->  another bit in the mask: half of the sample goes on
 *
 *   lead = hits of the shadow that is not followed - hits of the other, since that was largest last
 *   lead grows to a twelfth of a cache (to leave worth; to turn to it, a sixth)  -->  the other is followed
 *
 * So what a change of the load costs until it is noticed is bounded by the size of L1, however long the one before it
 * lasted. Chance alone brings such a lead where both are as good, and there nothing is lost.
 */
export class ReuseJudge {
  readonly #hazard = new ReuseHazard()
  readonly #sampler = new ReuseSampler(SHADOW_CHUNKS * OBSERVED_SIZES, this.#hazard)
  readonly #byWorth = new ShadowCache(SHADOW_CHUNKS, this.#hazard.worth)
  readonly #byAge = new ShadowCache(SHADOW_CHUNKS, null)
  /** Sampled chunks in L1 by how many of their bits are clear, from the lowest on. */
  readonly #byClearBits = new Int32Array(33)
  #sampled = 0
  #shift = SHIFT_MIN
  #samples = 0
  #nextUpdate = UPDATE_SAMPLES
  #nextFade = FADE_SAMPLES
  #lead = 0
  #isByWorth = false

  get bytes(): number {
    return this.#hazard.bytes + this.#sampler.bytes + this.#byWorth.bytes + this.#byAge.bytes
  }

  /** Whether `worth` is to be followed. */
  get isByWorth(): boolean {
    return this.#isByWorth
  }

  /** A chunk of random bits that has none of these set is to be sampled. */
  get mask(): number {
    return (1 << this.#shift) - 1
  }

  /** By class and age bucket; see ReuseHazard. */
  get worth(): Float64Array {
    return this.#hazard.worth
  }

  /** Sampled chunks in L1. */
  get sampled(): number {
    return this.#sampled
  }

  /** A chunk to be sampled comes into L1. @param bits 32 random bits of it. */
  enter(bits: number): void {
    this.#count(bits, 1)
    while (this.#sampled > SHADOW_CHUNKS) this.#sampleLess()
  }

  /** A sampled chunk leaves L1. */
  leave(bits: number): void {
    this.#count(bits, -1)
  }

  /**
   * A chunk to be sampled is asked for, or new.
   *
   * @param print 31 random bits of it.
   * @param now a count of references, modulo 2^32.
   */
  ask(print: number, reuseClass: number, now: number): void {
    this.#sampler.touch(print, reuseClass, now)
    const size = Math.max(1, this.#sampled)
    const worthHit = this.#byWorth.ask(print, reuseClass, now, size)
    const ageHit = this.#byAge.ask(print, reuseClass, now, size)
    if (worthHit !== ageHit) this.#compare(worthHit, size)
    this.#samples += 1
    if (this.#samples >= this.#nextUpdate) this.#update(now)
  }

  #count(bits: number, change: number): void {
    const clear = bits === 0 ? 32 : 31 - Math.clz32(bits & -bits)
    this.#byClearBits[clear] = this.#byClearBits[clear]! + change
    this.#sampled += change
  }

  #compare(isWorthHit: boolean, size: number): void {
    this.#lead = Math.max(0, this.#lead + (isWorthHit === this.#isByWorth ? -1 : 1))
    const share = this.#isByWorth ? LEAD_TO_AGE : LEAD_TO_WORTH
    if (this.#lead < Math.max(LEAD_MIN, size * share)) return
    this.#lead = 0
    this.#isByWorth = !this.#isByWorth
  }

  #update(now: number): void {
    const pause = Math.min(UPDATE_SAMPLES_MAX, this.#samples * UPDATE_RATIO)
    this.#nextUpdate = this.#samples + Math.max(UPDATE_SAMPLES, Math.floor(pause))
    this.#sampler.countWaiting(now)
    this.#hazard.update()
    if (this.#samples < this.#nextFade) return
    this.#nextFade = this.#samples + FADE_SAMPLES
    this.#hazard.fade()
  }

  /** Begins anew with half of the sample. What was learnt stays. */
  #sampleLess(): void {
    this.#sampled -= this.#byClearBits[this.#shift]!
    this.#shift += 1
    this.#sampler.clear()
    this.#byWorth.clear()
    this.#byAge.clear()
  }
}
