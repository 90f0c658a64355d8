/** Runs a cycle again and again, one at a time, and not while the page is hidden. */
export class Poller {
  #intervalMs
  #cycle
  #timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined)
  #isRunning = false
  #isHeld = false
  #isWanted = false // asked for while a cycle was running

  /**
   * @param {number} intervalMs from the end of one cycle to the start of the next.
   * @param {() => Promise<void>} cycle never rejects.
   */
  constructor(intervalMs, cycle) {
    this.#intervalMs = intervalMs
    this.#cycle = cycle
    document.addEventListener('visibilitychange', () => this.#next(0))
  }

  /** Starts, or goes on at once. */
  go() {
    this.#isHeld = false
    this.#isWanted = this.#isRunning
    this.#next(0)
  }

  /** Stops until `go`. */
  hold() {
    this.#isHeld = true
    clearTimeout(this.#timer)
  }

  /** @param {number} delayMs */
  #next(delayMs) {
    clearTimeout(this.#timer)
    if (this.#isHeld || document.hidden || this.#isRunning) return
    this.#timer = setTimeout(() => this.#run(), delayMs)
  }

  async #run() {
    this.#isRunning = true
    await this.#cycle()
    this.#isRunning = false
    const delayMs = this.#isWanted ? 0 : this.#intervalMs
    this.#isWanted = false
    this.#next(delayMs)
  }
}
