import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { Clock } from '../../core/clock.ts'
import type { Rendering } from '../../metrics/exposition.ts'
import { CONTENT_TYPES, type TextFormat } from '../../metrics/prometheus.ts'
import { bindError } from '../bind-error.ts'
import { formatFor, takesGzip } from './accept.ts'
import { mayScrape, type ScrapeFiles } from './scrape-files.ts'

const HEADER_BYTES_MAX = 8_192
const REQUEST_TIMEOUT_MS = 10_000
/** A client that reads nothing for so long is cut off. */
const SOCKET_IDLE_MS = 30_000
const KEEP_ALIVE_MS = 75_000
const CONNECTIONS_MAX = 128
/** An answer that is not read to its end by then is cut off, however steadily a client sips at it. */
const ANSWER_MS = 30_000
/** Renderings that are being sent at most. The next one cuts off the readers of the oldest. */
const RENDERINGS_MAX = 8

export interface MetricsServerOptions {
  readonly host: string
  /** 0 = any free port. */
  readonly port: number
  readonly clock: Clock
  readonly render: (format: TextFormat) => Promise<Rendering>
  /** Default: everybody may scrape, by plain HTTP. */
  readonly files?: ScrapeFiles
  /** Told why a scrape was answered with status 500. */
  readonly onError: (error: unknown) => void
  /** Time in which an answer must be read; absent = half a minute. */
  readonly answerMs?: number
}

const OPEN: ScrapeFiles = { token: null, tls: null }

/**
 * Serves `GET /metrics`, and nothing else. Memory and connections stay bounded however slowly clients read: few renderings
 * are kept for them, and none for long.
 */
export class MetricsServer {
  readonly #options: MetricsServerOptions
  readonly #files: ScrapeFiles
  readonly #server: Server | TlsServer
  #pair: readonly [cert: string, key: string] | undefined
  /** Who is being sent what, oldest rendering first. */
  readonly #readers = new Map<Rendering, Set<ServerResponse>>()

  constructor(options: MetricsServerOptions) {
    this.#options = options
    this.#files = options.files ?? OPEN
    const { tls } = this.#files
    const limits = {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: REQUEST_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    }
    const answer = (request: IncomingMessage, response: ServerResponse) => void this.#answer(request, response)
    if (tls === null) this.#server = createServer(limits, answer)
    else {
      this.#pair = [tls.cert.value(), tls.key.value()]
      this.#server = createTlsServer({ ...limits, cert: this.#pair[0], key: this.#pair[1] }, answer)
    }
    this.#server.maxConnections = CONNECTIONS_MAX
    this.#server.setTimeout(SOCKET_IDLE_MS)
  }

  /**
   * Starts to listen.
   *
   * @returns where it listens.
   * @throws CacheError PORT_TAKEN, CONFIG_INVALID
   */
  async listen(): Promise<{ host: string; port: number }> {
    const { host, port } = this.#options
    await new Promise<void>((resolve, reject) => {
      const fail = (error: NodeJS.ErrnoException) => reject(bindError('prometheus', host, port, error))
      this.#server.once('error', fail)
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', fail)
        this.#server.on('error', this.#options.onError)
        resolve()
      })
    })
    return { host, port: (this.#server.address() as AddressInfo).port }
  }

  /** Stops listening and ends all connections. */
  async close(): Promise<void> {
    if (!this.#server.listening) return
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await closed
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#renewCertificate()
    if (!mayScrape(this.#files, request.headers.authorization)) {
      response.setHeader('www-authenticate', 'Bearer realm="kvtier metrics"')
      return plain(response, 401, 'send the token of --prometheus-token-file: Authorization: Bearer ...\n')
    }
    const [path] = (request.url ?? '').split('?')
    if (path !== '/metrics') return plain(response, 404, 'not found: metrics are at /metrics\n')
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD')
      return plain(response, 405, 'method not allowed: use GET\n')
    }
    try {
      await this.#scrape(request, response)
    } catch (error) {
      this.#options.onError(error)
      if (response.headersSent) response.destroy()
      else plain(response, 500, 'the metrics could not be rendered\n')
    }
  }

  /** Connections from now on see the new certificate. */
  #renewCertificate(): void {
    const { tls } = this.#files
    if (tls === null || this.#pair === undefined || !('setSecureContext' in this.#server)) return
    const [cert, key] = [tls.cert.value(), tls.key.value()]
    if (cert === this.#pair[0] && key === this.#pair[1]) return
    try {
      this.#server.setSecureContext({ cert, key })
      this.#pair = [cert, key]
    } catch (error) {
      this.#options.onError(error) // one of the two is still the old one
    }
  }

  async #scrape(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const format = formatFor(request.headers.accept)
    const rendering = await this.#options.render(format)
    const isGzipped = takesGzip(request.headers['accept-encoding'] as string | undefined)
    this.#keep(rendering, response)
    const pieces = isGzipped ? await rendering.gzipped() : rendering.pieces
    response.writeHead(200, {
      'content-type': CONTENT_TYPES[format],
      'content-length': pieces.reduce((sum, { length }) => sum + length, 0),
      'cache-control': 'no-store',
      vary: 'accept, accept-encoding',
      'x-content-type-options': 'nosniff',
      ...(isGzipped ? { 'content-encoding': 'gzip' } : {}),
    })
    if (request.method === 'HEAD') response.end()
    else Readable.from(pieces).pipe(response)
  }

  /** Notes who is sent a rendering until the answer has left, or is cut off. */
  #keep(rendering: Rendering, response: ServerResponse): void {
    if (response.destroyed) return // its client left while the rendering was made
    const readers = this.#readers.get(rendering) ?? new Set()
    this.#readers.set(rendering, readers.add(response))
    const { clock, answerMs = ANSWER_MS } = this.#options
    const deadline = clock.schedule(answerMs, () => response.destroy())
    response.once('close', () => {
      deadline.cancel()
      readers.delete(response)
      if (readers.size > 0) return
      this.#readers.delete(rendering)
      rendering.release()
    })
    const [oldest] = this.#readers.values()
    if (this.#readers.size > RENDERINGS_MAX) for (const late of oldest!) late.destroy()
  }
}

/** A short answer; the connection ends, so that a request body is never read. */
function plain(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
  response.end(text)
}
