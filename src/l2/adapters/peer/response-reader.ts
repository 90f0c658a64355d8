import type { Dispatcher } from 'undici'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'

/** What the answer to one request goes into. Methods may throw a CacheError: the request ends with it. */
export interface ResponseSink {
  /** Of status 200 alone; the body of any other is dropped. */
  start(headers: Record<string, string | string[] | undefined>): void
  /** Valid during the call. */
  data(bytes: Buffer): void
}

export interface RequestParts {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Given up when nothing has come for so long. */
  readonly silenceMs: number
  /** Given up after so long, whatever comes. */
  readonly deadlineMs?: number
}

/** Bytes of an answer that is no 200 before the connection is dropped. */
const REFUSAL_BYTES_MAX = 16 * 1024

/**
 * Sends one request and hands its answer over, piece by piece.
 * Once it has settled, the sink is not called any more.
 *
 * @returns the status.
 * @throws CacheError L2_TIMEOUT, L2_UNAVAILABLE; what the sink throws.
 */
export function request(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  sink: ResponseSink,
  parts: RequestParts,
): Promise<number> {
  const reader = new ResponseReader(sink, parts)
  try {
    dispatcher.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, reader)
  } catch (error) {
    reader.fail(new CacheError('L2_UNAVAILABLE', String(error)))
  }
  return reader.done
}

class ResponseReader implements Dispatcher.DispatchHandler {
  readonly #sink: ResponseSink
  readonly #parts: RequestParts
  readonly #result = Promise.withResolvers<number>()
  readonly #onAbort = () => this.fail(new CacheError('L2_TIMEOUT', 'the batch was given up'))
  #controller: Dispatcher.DispatchController | undefined
  readonly #startMs: number
  #silence: { cancel(): void } | undefined
  #isOver = false
  #isHeard = false
  #status = 0
  #dropped = 0

  constructor(sink: ResponseSink, parts: RequestParts) {
    this.#sink = sink
    this.#parts = parts
    this.#startMs = parts.clock.nowMs()
    if (parts.signal.aborted) this.#onAbort()
    else parts.signal.addEventListener('abort', this.#onAbort, { once: true })
    this.#watch()
  }

  get done(): Promise<number> {
    return this.#result.promise
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) controller.abort(new Error('given up'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#isHeard = true
    this.#status = status
    if (status === 200) this.#guard(() => this.#sink.start(headers))
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    this.#isHeard = true
    if (this.#status === 200) {
      this.#guard(() => this.#sink.data(bytes))
      return
    }
    this.#dropped += bytes.length
    if (this.#dropped > REFUSAL_BYTES_MAX) this.#end(this.#status, true)
  }

  onResponseEnd(): void {
    this.#end(this.#status, false)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(new CacheError('L2_UNAVAILABLE', (error as NodeJS.ErrnoException).code ?? error.message))
  }

  #guard(step: () => void): void {
    if (this.#isOver) return
    try {
      step()
    } catch (error) {
      this.fail(error)
    }
  }

  /** Ends the request when a whole span passes without a sign of life. */
  #watch(): void {
    if (this.#isOver) return
    const { clock, silenceMs, deadlineMs = Number.POSITIVE_INFINITY } = this.#parts
    if (clock.nowMs() - this.#startMs >= deadlineMs) {
      this.fail(new CacheError('L2_TIMEOUT', `it did not end in ${deadlineMs} ms`))
      return
    }
    this.#silence = clock.schedule(silenceMs, () => {
      if (!this.#isHeard) this.fail(new CacheError('L2_TIMEOUT', `it said nothing for ${silenceMs} ms`))
      this.#isHeard = false
      this.#watch()
    })
  }

  #end(status: number, isCut: boolean): void {
    if (!this.#settle()) return
    if (isCut) this.#controller?.abort(new Error('not read to its end'))
    this.#result.resolve(status)
  }

  fail(error: unknown): void {
    if (!this.#settle()) return
    this.#controller?.abort(error instanceof Error ? error : new Error(String(error)))
    this.#result.reject(error)
  }

  #settle(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#silence?.cancel()
    this.#parts.signal.removeEventListener('abort', this.#onAbort)
    return true
  }
}
