export const CIRCUIT_CLOSED = 0
export const CIRCUIT_HALF_OPEN = 1
export const CIRCUIT_OPEN = 2

/** Circuit states by number. */
export const CIRCUITS = ['closed', 'half_open', 'open'] as const

/** Kinds of work whose failures are counted apart: lookups that run out of time beside stores that do not. */
export type CircuitWork = 'store' | 'load' | 'lookup' | 'other'

/**
 * Keeps work away from a backend that fails.
 *
 *   CLOSED --failures in a row--> OPEN --openMs later, one batch passes--> HALF OPEN --success--> CLOSED
 *      ^                            ^------------------failure-------------------|
 *      +---success---(CLOSED)       ^------------------neither: the next batch passes at once
 *
 *   any --hold--> OPEN, whatever time passes --release--> CLOSED
 */
export class CircuitBreaker {
  readonly #failuresMax: number
  readonly #openMs: number
  #state: number = CIRCUIT_CLOSED
  /** In a row, by kind of work. */
  readonly #failures = new Map<CircuitWork, number>()
  #openUntilMs = 0

  /** @param failuresMax failures in a row, of one kind of work, that open the circuit. */
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

  /** Opens the circuit until `release`: there is nothing yet that could be tried. */
  hold(): void {
    this.#state = CIRCUIT_OPEN
    this.#openUntilMs = Number.POSITIVE_INFINITY
  }

  release(): void {
    this.#state = CIRCUIT_CLOSED
    this.#failures.clear()
    this.#openUntilMs = 0
  }

  get isHeld(): boolean {
    return this.#openUntilMs === Number.POSITIVE_INFINITY
  }

  /** What began before the circuit opened, and ends well after it, says too little to close it. */
  succeed(work: CircuitWork): void {
    this.#failures.delete(work)
    if (this.#state === CIRCUIT_HALF_OPEN) this.#failures.clear()
    if (this.#state === CIRCUIT_HALF_OPEN) this.#state = CIRCUIT_CLOSED
  }

  fail(nowMs: number, work: CircuitWork): void {
    const failures = (this.#failures.get(work) ?? 0) + 1
    this.#failures.set(work, failures)
    if (this.#state === CIRCUIT_CLOSED && failures < this.#failuresMax) return
    this.#state = CIRCUIT_OPEN
    this.#openUntilMs = nowMs + this.#openMs
  }

  /** The batch says nothing about the backend: its caller went away. */
  leave(): void {
    if (this.#state === CIRCUIT_HALF_OPEN) this.#state = CIRCUIT_OPEN
  }
}
