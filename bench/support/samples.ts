/** Times in milliseconds, and where they lie. */
export class Samples {
  #values = new Float64Array(1024)
  #count = 0

  get count(): number {
    return this.#count
  }

  push(ms: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(this.#count * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count] = ms
    this.#count += 1
  }

  /** The value below which a share of 0..1 of the samples lies; NaN without samples. */
  at(share: number): number {
    const sorted = this.#values.slice(0, this.#count).sort()
    return sorted[Math.min(this.#count - 1, Math.floor(share * this.#count))] ?? Number.NaN
  }
}

/** Samples by name, in the order in which the names came. */
export class SampleSet {
  readonly #byName = new Map<string, Samples>()

  push(name: string, ms: number): void {
    const samples = this.#byName.get(name) ?? new Samples()
    this.#byName.set(name, samples)
    samples.push(ms)
  }

  get names(): readonly string[] {
    return [...this.#byName.keys()]
  }

  of(name: string): Samples {
    return this.#byName.get(name) ?? new Samples()
  }
}
