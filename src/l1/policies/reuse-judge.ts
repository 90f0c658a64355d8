import { ReuseHazard } from './reuse-hazard.ts'
import { ReuseSampler } from './reuse-sampler.ts'
import { ShadowCache } from './shadow-cache.ts'

/** Chunks of a shadow cache at most: a larger L1 is sampled. A power of two. */
const SHADOW_CHUNKS = 1024
/** Touches that are observed, in sizes of a shadow cache: ages up to eight times the size of L1. */
const OBSERVED_SIZES = 8
/** Samples between two updates of the worth, and until old observations are halved. */
const UPDATE_SAMPLES = 512
const UPDATE_RATIO = 1 / 8
const UPDATE_SAMPLES_MAX = 4096
const FADE_SAMPLES = 32_768
/** Difference in hits that counts, in standard deviations of one by chance. */
const SIGNIFICANCE = 2
/** A sample of few outcomes says nothing. */
const OUTCOMES_MIN = 32

/**
 * Decides, from a sample of the chunks that are asked for, whether to evict by worth or by age: two shadow caches as large
 * as L1, scaled by the sampling, hit or miss on the same chunks. The one with more hits is followed, once the difference
 * is more than chance: of outcomes in which they differ, a share of one half each has a deviation of their square root.
 *
 *   bits of a chunk & mask = 0  -->  sampler (learns worth), shadow by worth, shadow by age
 *   L1 holds more than SHADOW_CHUNKS << shift  -->  shift + 1: half of the sample goes on
 */
export class ReuseJudge {
  readonly #hazard = new ReuseHazard()
  readonly #sampler = new ReuseSampler(SHADOW_CHUNKS * OBSERVED_SIZES, this.#hazard)
  readonly #byWorth = new ShadowCache(SHADOW_CHUNKS, this.#hazard.worth)
  readonly #byAge = new ShadowCache(SHADOW_CHUNKS, null)
  #shift = 0
  #samples = 0
  #nextUpdate = UPDATE_SAMPLES
  #nextFade = FADE_SAMPLES
  /** Outcomes in which one of the shadows hit, by which one; faded. */
  readonly #wins = new Float64Array(2)
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

  /**
   * A chunk to be sampled is asked for, or new.
   *
   * @param print 31 random bits of it.
   * @param now a count of references, modulo 2^32.
   * @param live chunks in L1.
   */
  ask(print: number, reuseClass: number, now: number, live: number): void {
    if (live >>> this.#shift > SHADOW_CHUNKS) this.#sampleLess()
    this.#sampler.touch(print, reuseClass, now)
    const size = Math.max(1, Math.min(SHADOW_CHUNKS, live >>> this.#shift))
    const worthHit = this.#byWorth.ask(print, reuseClass, now, size)
    const ageHit = this.#byAge.ask(print, reuseClass, now, size)
    if (worthHit !== ageHit) this.#compare(worthHit ? 0 : 1)
    this.#samples += 1
    if (this.#samples < this.#nextUpdate) return
    const pause = Math.min(UPDATE_SAMPLES_MAX, this.#samples * UPDATE_RATIO)
    this.#nextUpdate = this.#samples + Math.max(UPDATE_SAMPLES, Math.floor(pause))
    this.#hazard.update()
    this.#decide()
    if (this.#samples < this.#nextFade) return
    this.#nextFade = this.#samples + FADE_SAMPLES
    this.#hazard.fade()
  }

  #compare(winner: 0 | 1): void {
    this.#wins[winner] = this.#wins[winner]! + 1
  }

  #decide(): void {
    const [worth, age] = [this.#wins[0]!, this.#wins[1]!]
    const outcomes = worth + age
    if (outcomes < OUTCOMES_MIN) return
    const bound = SIGNIFICANCE * Math.sqrt(outcomes)
    if (worth - age > bound) this.#isByWorth = true
    else if (age - worth > bound) this.#isByWorth = false
    if (outcomes < SHADOW_CHUNKS) return
    this.#wins[0] = worth / 2
    this.#wins[1] = age / 2
  }

  /** Begins anew with half of the sample. What was learnt stays. */
  #sampleLess(): void {
    this.#shift += 1
    this.#sampler.clear()
    this.#byWorth.clear()
    this.#byAge.clear()
  }
}
