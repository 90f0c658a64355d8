/** Weight of the newest batch. */
const ALPHA = 1 / 16
/** Batch sizes that vary by less than this share of their mean tell nothing of the latency. */
const SPREAD_MIN = 0.05

/**
 * How long an adapter's loads take, learned from the batches that ended: seconds = latency + bytes / throughput.
 * A line fitted to exponentially weighted means, so that it follows the adapter: some 16 batches back. Where all
 * batches are of one size the latency cannot be told apart, and the mean rate stands for both.
 */
export class LoadEstimate {
  #bytes = 0
  #seconds = 0
  #bytesSquared = 0
  #product = 0
  #samples = 0

  /** A load batch ended well. */
  note(bytes: number, seconds: number): void {
    if (bytes <= 0 || seconds <= 0) return
    this.#samples += 1
    const weight = Math.max(ALPHA, 1 / this.#samples)
    this.#bytes += weight * (bytes - this.#bytes)
    this.#seconds += weight * (seconds - this.#seconds)
    this.#bytesSquared += weight * (bytes * bytes - this.#bytesSquared)
    this.#product += weight * (bytes * seconds - this.#product)
  }

  /** Seconds that a load of so many bytes takes; undefined before the first batch. */
  secondsOf(bytes: number): number | undefined {
    if (this.#samples === 0) return undefined
    const meanRate = this.#seconds / this.#bytes
    const variance = this.#bytesSquared - this.#bytes * this.#bytes
    if (variance < (SPREAD_MIN * this.#bytes) ** 2) return meanRate * bytes
    const slope = (this.#product - this.#bytes * this.#seconds) / variance
    const rate = Math.min(meanRate, Math.max(0, slope)) // neither bytes nor the latency take time back
    return this.#seconds - rate * this.#bytes + rate * bytes
  }
}
