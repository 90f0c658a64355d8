import type { Dispatcher } from 'undici'
import type { BodySink } from './record-sink.ts'

/** A request that is ready to go. */
export interface WireRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** The body, in pieces that are read where they lie until the exchange ends. */
  readonly pieces: readonly Uint8Array[]
}

/** A pool of connections, and who takes back the memory of what they read. */
export interface Connections {
  readonly pool: Dispatcher
  readonly recycle?: (piece: Uint8Array) => void
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The body, unless a sink took it. */
  readonly text: string
}

/** Texts that S3 answers: a page of a listing is below 1 MiB. */
const TEXT_BYTES_MAX = 8 * 1024 * 1024

/**
 * One request and its answer over a pool of connections. When the promise settles, no byte of `request.pieces` is read
 * any more and nothing is handed to `sink`: a request that is given up takes its connection along.
 *
 * @param sink takes the body of an answer of status 2xx; without one, and for others, the body is the answer's text.
 * @throws the client's error, or the signal's reason.
 */
export function exchange(
  { pool, recycle }: Connections,
  request: WireRequest,
  sink: BodySink | undefined,
  signal: AbortSignal,
): Promise<Answer> {
  const one = new Exchange(request, sink, signal, recycle)
  const { method, path, headers, pieces } = request
  const body = pieces.length === 0 ? null : one.body()
  // undici closes the connection after each HEAD, unless it is told that the server is sane.
  pool.dispatch({ method: method as Dispatcher.HttpMethod, path, headers, body, reset: false } as never, one)
  return one.ended
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly ended: Promise<Answer>
  readonly #request: WireRequest
  readonly #signal: AbortSignal
  readonly #sink: BodySink | undefined
  readonly #recycle: Connections['recycle']
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (error: unknown) => void
  readonly #onAbort = () => this.#end(() => this.#reject(this.#signal.reason))
  #controller: Dispatcher.DispatchController | undefined
  #isOver = false
  #status = 0
  #headers: Record<string, string> = {}
  #texts: Buffer[] = []
  #textBytes = 0

  constructor(request: WireRequest, sink: BodySink | undefined, signal: AbortSignal, recycle: Connections['recycle']) {
    this.#recycle = recycle
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    this.ended = promise
    this.#resolve = resolve
    this.#reject = reject
    this.#request = request
    this.#sink = sink
    this.#signal = signal
    if (signal.aborted) this.#onAbort()
    else signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** The pieces, as long as they are wanted. */
  *body(): Generator<Uint8Array> {
    for (const piece of this.#request.pieces) {
      if (this.#isOver) return
      yield piece
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) controller.abort(new Error('given up before it began'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#isOver || status < 200) return
    this.#status = status
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.#headers[name.toLowerCase()] = String(value)
    }
    this.#sink?.start()
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#take(piece)
    this.#recycle?.(piece)
  }

  #take(piece: Buffer): void {
    if (this.#isOver) return
    if (this.#sink !== undefined && this.#status < 300) {
      if (!this.#sink.take(piece)) this.#finish(true)
      return
    }
    this.#textBytes += piece.length
    if (this.#textBytes > TEXT_BYTES_MAX) this.#finish(true)
    else this.#texts.push(Buffer.from(piece))
  }

  onResponseEnd(): void {
    this.#finish(false)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(() => this.#reject(error))
  }

  #finish(isCut: boolean): void {
    const answer = { status: this.#status, headers: this.#headers, text: Buffer.concat(this.#texts).toString() }
    this.#end(() => this.#resolve(answer), isCut)
  }

  /** Ends the exchange once. The connection goes unless the answer is whole. */
  #end(settle: () => void, isCut = true): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#signal.removeEventListener('abort', this.#onAbort)
    if (isCut) this.#controller?.abort(new Error('given up'))
    settle()
  }
}
