import type { Metric } from './define.ts'

/**
 * The distributions of one metric: for each label set a row of bucket counts and a sum, made at its first sample.
 * A row is `bounds.length + 1` counts (not cumulative, the last one for infinity), then the sum of the samples.
 */
export class Histograms {
  readonly metric: Metric
  readonly #bounds: Float64Array
  readonly #rows: (Float64Array | undefined)[] = []
  readonly #order: number[] = []
  /** Bucket of the last sample: the next one is often in the same, and a search takes longer than all the rest. */
  #last = 0

  constructor(metric: Metric) {
    this.metric = metric
    this.#bounds = Float64Array.from(metric.bounds)
  }

  /** @param row label set: the tenant row, or adapter row x tenant rows + tenant. */
  record(row: number, value: number, times = 1): void {
    this.recordAt(row, Float64Array.of(value, times))
  }

  /** As `record`: the value is `sample[0]`, and `sample[1]` how many times. Numbers passed in an array are not boxed. */
  recordAt(row: number, sample: Float64Array): void {
    let cells = this.#rows[row]
    if (cells === undefined) {
      cells = new Float64Array(this.#bounds.length + 2)
      this.#rows[row] = cells
      this.#order.push(row)
    }
    cells[this.#bucket(sample)]! += sample[1]!
    cells[this.#bounds.length + 1]! += sample[0]! * sample[1]!
  }

  /** Label sets with a sample, in order of their first one. */
  get series(): readonly number[] {
    return this.#order
  }

  /** Counts by bucket, not cumulative, then the sum; undefined before the first sample. Valid until the next one. */
  cells(row: number): Float64Array | undefined {
    return this.#rows[row]
  }

  /** Samples recorded for a label set. */
  count(row: number): number {
    const cells = this.#rows[row]
    let count = 0
    if (cells !== undefined) for (let i = 0; i <= this.#bounds.length; i += 1) count += cells[i]!
    return count
  }

  /** First bound that is not below the value: bounds are inclusive. */
  #bucket(sample: Float64Array): number {
    const value = sample[0]!
    const bounds = this.#bounds
    const last = this.#last
    if ((last === bounds.length || bounds[last]! >= value) && (last === 0 || bounds[last - 1]! < value)) return last
    let low = 0
    let high = bounds.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (bounds[middle]! >= value) high = middle
      else low = middle + 1
    }
    this.#last = low
    return low
  }
}
