export const CIRCUIT_CLOSED = 0
export const CIRCUIT_HALF_OPEN = 1
export const CIRCUIT_OPEN = 2

/** Circuit states by number. */
export const CIRCUITS = ['closed', 'half_open', 'open'] as const

/**
 * Keeps work away from a backend that fails.
 *
 *   CLOSED --failures in a row--> OPEN --openMs later, one batch passes--> HALF OPEN --success--> CLOSED
 *      ^                            ^------------------failure-------------------|
 *      +---success---(CLOSED)       ^------------------neither: the next batch passes at once
 */
export class CircuitBreaker {
  readonly #failuresMax: number
  readonly #openMs: number
  #state: number = CIRCUIT_CLOSED
  #failures = 0
  #openUntilMs = 0

  /** @param failuresMax failures in a row that open the circuit. */
  constructor(failuresMax: number, openMs: number) {
    this.#failuresMax = failuresMax
    this.#openMs = openMs
  }

  /** CIRCUIT_* */
  get state(): number {
    return this.#state
  }

  /** Whether a batch would pass now. */
  wouldPass(nowMs: number): boolean {
    return this.#state === CIRCUIT_CLOSED || (this.#state === CIRCUIT_OPEN && nowMs >= this.#openUntilMs)
  }

  /** Lets a batch pass, or not. Each one that passed ends with `succeed`, `fail` or `leave`. */
  tryPass(nowMs: number): boolean {
    if (!this.wouldPass(nowMs)) return false
    if (this.#state === CIRCUIT_OPEN) this.#state = CIRCUIT_HALF_OPEN
    return true
  }

  succeed(): void {
    this.#state = CIRCUIT_CLOSED
    this.#failures = 0
  }

  fail(nowMs: number): void {
    this.#failures += 1
    if (this.#state === CIRCUIT_CLOSED && this.#failures < this.#failuresMax) return
    this.#state = CIRCUIT_OPEN
    this.#openUntilMs = nowMs + this.#openMs
  }

  /** The batch says nothing about the backend: its caller went away. */
  leave(): void {
    if (this.#state === CIRCUIT_HALF_OPEN) this.#state = CIRCUIT_OPEN
  }
}
