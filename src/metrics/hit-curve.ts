/** Bins for each doubling of the distance: 2 % wide. */
const BINS_PER_OCTAVE = 32
const OCTAVES = 56
const BINS = BINS_PER_OCTAVE * OCTAVES

function binOf(distance: number): number {
  return Math.min(BINS - 1, Math.floor(Math.log2(Math.max(1, distance)) * BINS_PER_OCTAVE))
}

/** Weighted distances in bins of equal ratio, as the share that lies within any size. */
export class HitCurve {
  readonly #weights = new Float64Array(BINS)
  // The span in use of each bin: short distances are few and far between, so that a bin holds one value.
  readonly #lowest = new Float64Array(BINS).fill(Number.POSITIVE_INFINITY)
  readonly #highest = new Float64Array(BINS)

  /** @param distance 1 or more: the smallest size that would have hit. */
  add(distance: number, weight: number): void {
    const bin = binOf(distance)
    this.#weights[bin]! += weight
    if (distance < this.#lowest[bin]!) this.#lowest[bin] = distance
    if (distance > this.#highest[bin]!) this.#highest[bin] = distance
  }

  /** Weight of the distances up to `size`; within the span of a bin they count as evenly spread. */
  within(size: number): number {
    if (size < 1) return 0
    const last = binOf(size)
    let weight = 0
    for (let bin = 0; bin < last; bin += 1) weight += this.#weights[bin]!
    const low = this.#lowest[last]!
    const high = this.#highest[last]!
    if (size >= high) return weight + this.#weights[last]!
    return size < low ? weight : weight + (this.#weights[last]! * (size - low)) / (high - low)
  }
}
