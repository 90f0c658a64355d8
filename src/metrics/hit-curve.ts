/** Bins for each doubling of the distance: at most 3 % wide. */
const BIN_BITS = 5
const OCTAVES = 56
const BINS = OCTAVES << BIN_BITS

// A double is its exponent, biased by 1023, then 52 bits of mantissa: the upper word down to the first BIN_BITS bits of
// the mantissa counts octaves, and equal parts of them. That takes a few nanoseconds, a logarithm ten times as long.
const DOUBLE = new Float64Array(1)
const WORDS = new Uint32Array(DOUBLE.buffer)
DOUBLE[0] = 1
const UPPER = WORDS[0] === 0 ? 1 : 0
const SHIFT = 20 - BIN_BITS
const FIRST_BIN = WORDS[UPPER]! >>> SHIFT

/** Bin of what stands in `DOUBLE`, 1 or more. */
function binOfDouble(): number {
  return Math.min(BINS - 1, (WORDS[UPPER]! >>> SHIFT) - FIRST_BIN)
}

/** Weighted distances in bins of about equal ratio, as the share that lies within any size. */
export class HitCurve {
  readonly #weights = new Float64Array(BINS)
  // The span in use of each bin: short distances are few and far between, so that a bin holds one value.
  readonly #lowest = new Float64Array(BINS).fill(Number.POSITIVE_INFINITY)
  readonly #highest = new Float64Array(BINS)

  /** @param distance 1 or more: the smallest size that would have hit. */
  add(distance: number, weight: number): void {
    this.addAt(Float64Array.of(distance, weight), 0, 1)
  }

  /** As `add`: the distance is `values[at]`, its weight `values[weightAt]`. Numbers passed in an array are not boxed. */
  addAt(values: Float64Array, at: number, weightAt: number): void {
    const distance = Math.max(1, values[at]!)
    DOUBLE[0] = distance
    const bin = binOfDouble()
    this.#weights[bin]! += values[weightAt]!
    if (distance < this.#lowest[bin]!) this.#lowest[bin] = distance
    if (distance > this.#highest[bin]!) this.#highest[bin] = distance
  }

  /** Weight of the distances up to `size`; within the span of a bin they count as evenly spread. */
  within(size: number): number {
    if (size < 1) return 0
    DOUBLE[0] = size
    const last = binOfDouble()
    let weight = 0
    for (let bin = 0; bin < last; bin += 1) weight += this.#weights[bin]!
    const low = this.#lowest[last]!
    const high = this.#highest[last]!
    if (size >= high) return weight + this.#weights[last]!
    return size < low ? weight : weight + (this.#weights[last]! * (size - low)) / (high - low)
  }
}
