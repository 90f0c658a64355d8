import type { Clock } from '../core/clock.ts'
import { CacheError, ERRORS } from '../core/errors.ts'
import type { AdapterLimits } from './options.ts'

/** Why keys of a batch failed that the adapter has no better word for. */
export type FailureCause = 'error' | 'timeout' | 'cancelled'

/** How a batch ended. */
export interface Ended<T> {
  /** What the adapter returned; undefined when it rejected or was given up. */
  readonly value: T | undefined
  /** The cause of keys that failed, or of the whole batch. */
  readonly cause: FailureCause
  readonly error: unknown
  /** Settles when the adapter no longer touches the memory of the batch; undefined when it is so already. */
  readonly quiesced: Promise<void> | undefined
}

export interface AttemptParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
  readonly limits: AdapterLimits
}

/**
 * One batch handed to an adapter: deadline, retries, cancelling.
 *
 *   try -> value
 *    ^ \-> rejected, retryable, tries and time left -> wait -> try again
 *    |  \-> rejected otherwise -> failed
 *   deadline or cancel: the adapter is told; after abandonAfterMs it is given up, `quiesced` says when it lets go
 */
export class BatchAttempt {
  readonly #parts: AttemptParts
  readonly #abort = new AbortController()
  readonly #ended = Promise.withResolvers<'given_up'>()
  #cause: FailureCause = 'error'

  constructor(parts: AttemptParts) {
    this.#parts = parts
  }

  /** Ends the batch as soon as the adapter can. */
  cancel(cause: FailureCause = 'cancelled'): void {
    if (this.#abort.signal.aborted) return
    this.#cause = cause
    this.#abort.abort()
    this.#parts.clock.schedule(this.#parts.limits.abandonAfterMs, () => this.#ended.resolve('given_up'))
  }

  /** Never rejects. @param operation may be called again after it rejected. */
  async run<T>(
    operation: (signal: AbortSignal) => Promise<T>,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Ended<T>> {
    const onCancel = () => this.cancel()
    if (signal?.aborted) onCancel()
    signal?.addEventListener('abort', onCancel, { once: true })
    const deadline = this.#parts.clock.schedule(deadlineMs, () => this.cancel('timeout'))
    try {
      return await this.#tryAll(operation)
    } finally {
      deadline.cancel()
      signal?.removeEventListener('abort', onCancel)
    }
  }

  async #tryAll<T>(operation: (signal: AbortSignal) => Promise<T>): Promise<Ended<T>> {
    const { retries } = this.#parts.limits
    for (let failures = 0; ; failures += 1) {
      const ended = await this.#tryOnce(operation)
      if (ended.value !== undefined || ended.quiesced !== undefined) return ended
      if (failures >= retries || !isRetryable(ended.error) || !(await this.#wait(failures))) return ended
    }
  }

  async #tryOnce<T>(operation: (signal: AbortSignal) => Promise<T>): Promise<Ended<T>> {
    const running = (async () => operation(this.#abort.signal))()
    const quiesced = running.then(
      () => undefined,
      () => undefined,
    )
    try {
      const first = await Promise.race([running.then((value) => ({ value })), this.#ended.promise])
      if (first !== 'given_up') return { value: first.value, cause: this.#cause, error: undefined, quiesced: undefined }
      const error = new CacheError('L2_TIMEOUT', 'the adapter did not end the batch')
      return { value: undefined, cause: this.#cause, error, quiesced }
    } catch (error) {
      return { value: undefined, cause: this.#cause, error, quiesced: undefined }
    }
  }

  /** Waits before a retry. False when the batch was ended meanwhile. */
  async #wait(failures: number): Promise<boolean> {
    const { clock, random, limits } = this.#parts
    const { signal } = this.#abort
    if (signal.aborted) return false
    const delayMs = limits.retryDelayMs * 2 ** failures * (1 - random() / 2)
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = clock.schedule(delayMs, resolve)
    const onAbort = () => resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    await promise
    timer.cancel()
    signal.removeEventListener('abort', onAbort)
    return !signal.aborted
  }
}

function isRetryable(error: unknown): boolean {
  return error instanceof CacheError && ERRORS[error.code].retryable
}
