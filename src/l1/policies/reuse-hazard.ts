/** Age buckets: two an octave, of ages in references. */
export const AGE_BUCKETS = 64
/** Classes that are told apart; what makes one is the policy's choice. */
export const REUSE_CLASSES = 16

/** Weight of what all classes have in common, in observations of a class. */
const COMMON_WEIGHT = 8
/** A count below which a bucket says nothing. */
const REACHED_MIN = 0.5

/** The bucket of an age of 0 .. 2^32-1 references: 2 log2(age + 1), rounded down. */
export function ageBucket(age: number): number {
  const octave = 31 - Math.clz32(age + 1)
  if (octave < 1) return 2 * Math.max(0, octave)
  return 2 * octave + (((age + 1) >>> (octave - 1)) & 1)
}

/** The least age of a bucket. */
export function bucketStart(bucket: number): number {
  const octave = bucket >> 1
  return (bucket & 1) === 0 ? 2 ** octave - 1 : Math.ceil(1.5 * 2 ** octave) - 1
}

const STARTS = Float64Array.from({ length: AGE_BUCKETS + 1 }, (_, bucket) => bucketStart(bucket))

/**
 * How soon chunks of a class are asked for again, learnt from observations, as the worth of keeping one by its age.
 *
 *   hazard(class, bucket) = asked for again in the bucket / reached the bucket
 *   worth(class, bucket)  = the best, over all ages until which one could wait, of
 *                           P(asked for again until then) / references that pass until it is, or until then
 *
 * That is the Gittins index of keeping a chunk: hits a place earns a reference. To evict what is worth least is LRU
 * where the hazard falls with age alike in all classes, and something else where it does not. A class of which little is
 * known has the hazard of all. Old observations fade: `fade` halves them.
 */
export class ReuseHazard {
  readonly worth = new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
  /** Chunks that are still watched, by class and by the bucket that they have reached. Filled in before an update. */
  readonly waiting = new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
  readonly #again = new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
  readonly #lost = new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
  readonly #reached = new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
  readonly #hazard = new Float64Array(AGE_BUCKETS)
  readonly #common = new Float64Array(AGE_BUCKETS)

  get bytes(): number {
    return 5 * this.worth.byteLength + 2 * this.#hazard.byteLength
  }

  /** A chunk of a class was asked for again at an age. */
  again(reuseClass: number, bucket: number): void {
    const at = reuseClass * AGE_BUCKETS + bucket
    this.#again[at] = this.#again[at]! + 1
  }

  /** A chunk of a class was not asked for until an age, and is watched no longer. */
  lost(reuseClass: number, bucket: number): void {
    const at = reuseClass * AGE_BUCKETS + bucket
    this.#lost[at] = this.#lost[at]! + 1
  }

  fade(): void {
    for (let at = 0; at < this.#again.length; at += 1) {
      this.#again[at] = this.#again[at]! / 2
      this.#lost[at] = this.#lost[at]! / 2
    }
  }

  /** Makes `worth` follow from what has been observed. Some twenty microseconds. */
  update(): void {
    for (let last = AGE_BUCKETS - 1; last < this.#reached.length; last += AGE_BUCKETS) {
      let reached = 0
      for (let at = last; at > last - AGE_BUCKETS; at -= 1) {
        reached += this.#again[at]! + this.#lost[at]! + this.waiting[at]!
        this.#reached[at] = reached
      }
    }
    const end = this.#poolClasses()
    for (let reuseClass = 0; reuseClass < REUSE_CLASSES; reuseClass += 1) this.#updateClass(reuseClass, end)
  }

  /** The hazard over all classes. @returns the bucket after the last that anything reached. */
  #poolClasses(): number {
    let end = 0
    for (let bucket = 0; bucket < AGE_BUCKETS; bucket += 1) {
      let again = 0
      let reached = 0
      for (let at = bucket; at < this.#again.length; at += AGE_BUCKETS) {
        again += this.#again[at]!
        reached += this.#reached[at]!
      }
      this.#common[bucket] = reached < REACHED_MIN ? 0 : Math.min(1, again / reached)
      if (reached >= REACHED_MIN) end = bucket + 1
    }
    return end
  }

  #updateClass(reuseClass: number, end: number): void {
    const first = reuseClass * AGE_BUCKETS
    for (let bucket = 0; bucket < end; bucket += 1) {
      const again = this.#again[first + bucket]! + COMMON_WEIGHT * this.#common[bucket]!
      this.#hazard[bucket] = Math.min(1, again / (this.#reached[first + bucket]! + COMMON_WEIGHT))
    }
    this.worth.fill(0, first + end, first + AGE_BUCKETS)
    for (let from = 0; from < end; from += 1) {
      let survival = 1
      let hits = 0
      let references = 0
      let best = 0
      for (let bucket = from; bucket < end; bucket += 1) {
        const hit = survival * this.#hazard[bucket]!
        hits += hit
        references += (survival - hit / 2) * (STARTS[bucket + 1]! - STARTS[bucket]!)
        survival -= hit
        if (hits > best * references) best = hits / references
      }
      this.worth[first + from] = best
    }
  }
}
