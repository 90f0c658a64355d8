/** Longest wait between two tries while a receiver is down, and longest that one may ask to be left alone. */
const BACK_OFF_MAX_MS = 300_000
const RETRY_AFTER_MAX_MS = 3_600_000

/**
 * When to push next: every interval while it works; after failures in a row the wait doubles up to five minutes, with
 * a fifth of jitter, and is never shorter than what the receiver asked for.
 *
 *   healthy -- failure --> backing off (interval, 2x, 4x, ...) -- success --> healthy
 */
export class PushSchedule {
  readonly #intervalMs: number
  readonly #random: () => number
  #failures = 0

  /** @param random 0 <= x < 1. */
  constructor(intervalMs: number, random: () => number) {
    this.#intervalMs = intervalMs
    this.#random = random
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#failures
  }

  /** @returns time until the next push. */
  succeeded(): number {
    this.#failures = 0
    return this.#intervalMs
  }

  /** @returns time until the next push. */
  failed(retryAfterMs: number): number {
    this.#failures += 1
    const doubled = this.#intervalMs * 2 ** Math.min(this.#failures - 1, 30)
    const backOff = Math.max(this.#intervalMs, Math.min(doubled, BACK_OFF_MAX_MS)) * (0.9 + 0.2 * this.#random())
    return Math.max(backOff, Math.min(retryAfterMs, RETRY_AFTER_MAX_MS))
  }
}
