import type { Clock } from '../../core/clock.ts'
import { CacheError, ERRORS } from '../../core/errors.ts'
import { cannotList, type KeyBatch, type ObjectPage } from '../adapter.ts'
import type { AdapterSet, Attached } from '../adapter-set.ts'
import { partOf } from '../scrub-objects.ts'

export interface WalkParts {
  readonly clock: Clock
  readonly adapters: AdapterSet
  readonly source: Attached
  readonly signal: AbortSignal
  /** Bytes of objects a second at most; 0 = no limit. */
  readonly rateBytes: number
  /** Bytes of the objects of one batch at most; at least one object. */
  readonly batchBytes: number
}

/** Objects of one page. */
const PAGE_OBJECTS = 512
/** Objects of one batch at most, however small they are. */
const BATCH_OBJECTS = 64
/** How often an operation is tried, and the wait before the second try; doubled for each further one. */
const TRIES = 6
const RETRY_MS = 500

/** The job was cancelled: ends it without an error. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
}

/**
 * A walk over all objects of an adapter for a job, in batches that are bounded in bytes, at a bounded rate. What the
 * backend fails for a while is tried again, so that a job outlives an open circuit.
 */
export class ObjectWalk {
  readonly #parts: WalkParts
  /** When the bytes so far have had their time. */
  #paidMs: number

  constructor(parts: WalkParts) {
    this.#parts = parts
    this.#paidMs = parts.clock.nowMs()
  }

  /** Hands every batch to `each`, one after the other. @throws Cancelled, CacheError */
  async run(each: (batch: KeyBatch) => Promise<void>): Promise<void> {
    const { source, batchBytes, signal } = this.#parts
    if (source.adapter.list === undefined) throw cannotList(source.adapter)
    let cursor: string | null = ''
    while (cursor !== null) {
      const from: string = cursor
      const list = (abort: AbortSignal) => source.adapter.list!(from, PAGE_OBJECTS, abort)
      const page: ObjectPage = await this.attempt(source, source.limits.loadDeadlineMs, list)
      for (const batch of page.batches) {
        const step = Math.min(BATCH_OBJECTS, Math.max(1, Math.floor(batchBytes / batch.space.shardBytes)))
        for (let at = 0; at < batch.count; at += step) {
          if (signal.aborted) throw new Cancelled()
          await each(partOf(batch, at, Math.min(at + step, batch.count)))
        }
      }
      cursor = page.cursor
    }
  }

  /** Waits until `bytes` more are within the rate. @throws Cancelled */
  async pace(bytes: number): Promise<void> {
    const { clock, rateBytes } = this.#parts
    if (rateBytes === 0) return
    this.#paidMs = Math.max(this.#paidMs, clock.nowMs()) + (bytes / rateBytes) * 1000
    const delayMs = this.#paidMs - clock.nowMs()
    if (delayMs >= 1) await this.wait(delayMs)
  }

  /** Runs an operation on an adapter until it succeeds. @throws Cancelled; CacheError for good, or after every try */
  async attempt<T>(on: Attached, deadlineMs: number, operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { adapters, signal } = this.#parts
    for (let failures = 1; ; failures += 1) {
      if (signal.aborted) throw new Cancelled()
      if (on.isGone) throw new CacheError('L2_DRAINING', `the adapter ${on.name} was removed or has failed`)
      let error: unknown = new CacheError('L2_UNAVAILABLE', `the adapter ${on.name} is left alone after failures`)
      const ended = await adapters.maintain(on, deadlineMs, signal, operation, (reason) => {
        error = reason ?? error
      })
      if (ended?.quiesced !== undefined) await this.#orAborted(ended.quiesced) // before its memory is used again
      if (ended?.value !== undefined) return ended.value
      if (signal.aborted) throw new Cancelled()
      if (failures === TRIES || !isRetryable(error)) throw error
      await this.wait(RETRY_MS * 2 ** (failures - 1))
    }
  }

  /** @throws Cancelled */
  async wait(delayMs: number): Promise<void> {
    const { clock, signal } = this.#parts
    if (delayMs > 0) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = clock.schedule(delayMs, resolve)
      await this.#orAborted(promise)
      timer.cancel()
    }
    if (signal.aborted) throw new Cancelled()
  }

  /** Waits for something, or for the end of the job: nobody uses its memory after that. */
  async #orAborted(promise: Promise<void>): Promise<void> {
    const { signal } = this.#parts
    const aborted = Promise.withResolvers<void>()
    const onAbort = () => aborted.resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    if (!signal.aborted) await Promise.race([promise, aborted.promise])
    signal.removeEventListener('abort', onAbort)
  }
}

function isRetryable(error: unknown): boolean {
  return error instanceof CacheError && ERRORS[error.code].retryable
}
