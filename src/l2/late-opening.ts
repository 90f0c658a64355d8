import type { Clock, Timer } from '../core/clock.ts'
import { CacheError, ERRORS } from '../core/errors.ts'
import type { Attached } from './attached.ts'

export interface LateOpeningParts {
  readonly clock: Clock
  readonly attached: Attached
  /** It is open, and its circuit closed. */
  readonly onReached: () => void
  /** It failed with something that no further try mends. */
  readonly onGivenUp: (error: unknown) => void
  /** Why it cannot be reached: the first reason, and each other one. */
  readonly onAway: (error: unknown) => void
}

/**
 * Opens an adapter whose backend was away when it was attached, as soon as it is there.
 *
 *   AWAY --circuitOpenMs--> opening --done--> REACHED
 *    ^                         |---rejected, retryable---> AWAY
 *    |                         '---rejected otherwise----> given up
 *
 * Its circuit is held open until then (`CircuitBreaker.hold`, by who attached it), so that nothing is asked of it and no lookup waits. One opening at a time,
 * however long it takes. The adapter must bear to be opened again after a rejection: a `RemoteAdapter` does.
 */
export class LateOpening {
  readonly #parts: LateOpeningParts
  #timer: Timer | undefined
  #lastReason = ''
  #isStopped = false

  /** @param opening under way, or rejected already. */
  constructor(parts: LateOpeningParts, opening: Promise<void>) {
    this.#parts = parts
    void this.#follow(opening)
  }

  /** Tries no more. An opening under way goes on: who closes the adapter ends what comes of it. */
  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  async #follow(opening: Promise<void>): Promise<void> {
    const { attached, onReached, onGivenUp } = this.#parts
    try {
      await opening
    } catch (error) {
      if (this.#isStopped) return
      if (isAway(error)) this.#again(error)
      else onGivenUp(error)
      return
    }
    if (this.#isStopped) return
    attached.lastError = ''
    attached.circuit.release()
    attached.refresh()
    onReached()
  }

  #again(error: unknown): void {
    const { attached, clock, onAway } = this.#parts
    attached.lastError = error instanceof Error ? error.message : String(error)
    if (attached.lastError !== this.#lastReason) onAway(error)
    this.#lastReason = attached.lastError
    this.#timer = clock.schedule(attached.limits.circuitOpenMs, () => {
      if (!this.#isStopped) void this.#follow(attached.adapter.open())
    })
  }
}

/** Whether an opening failed for a reason that may pass: a server that is down, rather than an option that is wrong. */
export function isAway(error: unknown): boolean {
  return error instanceof CacheError && ERRORS[error.code].retryable
}
