import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Agent, request } from 'undici'

const compress = promisify(gzip)

/** Bytes of an answer that are read. A collector that accepted everything answers with none or two. */
const ANSWER_BYTES_MAX = 64 * 1024

/** Answers after which the same request may succeed later, by the OTLP specification. */
const RETRYABLE = [429, 502, 503, 504]

export interface SenderOptions {
  /** Without `/v1/metrics` and `/v1/traces`. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression: 'gzip' | 'none'
  readonly timeoutMs: number
  /** PEM texts. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

/** What became of one request. */
export type SendResult =
  | { readonly outcome: 'taken'; readonly answer: Uint8Array }
  /** May succeed later; `afterMs` is what the receiver asked for, 0 when it asked for nothing. */
  | { readonly outcome: 'later'; readonly afterMs: number; readonly reason: string }
  /** Will not succeed as it is. */
  | { readonly outcome: 'refused'; readonly reason: string; readonly status?: number }

/**
 * Sends OTLP/HTTP requests to one endpoint, and says what became of each. It keeps nothing: who sends decides
 * whether, and when, to send again. The exporters of the OpenTelemetry project are not used because they hide how
 * long a receiver asks to be left alone.
 *
 * Format: OTLP 1.x specification, "OTLP/HTTP Request" and "OTLP/HTTP Throttling".
 */
export class OtlpSender {
  readonly #options: SenderOptions
  readonly #agent: Agent

  constructor(options: SenderOptions) {
    this.#options = options
    this.#agent = new Agent({
      connections: 2,
      connect: { ...options.tls, timeout: options.timeoutMs },
      headersTimeout: options.timeoutMs,
      bodyTimeout: options.timeoutMs,
    })
  }

  /**
   * @param path of the signal: `/v1/metrics`, `/v1/traces`.
   * @param nowWallMs by which a Retry-After date is told.
   */
  async send(path: string, contentType: string, body: Uint8Array, nowWallMs: number): Promise<SendResult> {
    const { endpoint, headers, compression, timeoutMs } = this.#options
    try {
      const isGzipped = compression === 'gzip'
      const response = await request(endpoint + path, {
        method: 'POST',
        dispatcher: this.#agent,
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          'content-type': contentType,
          ...(isGzipped ? { 'content-encoding': 'gzip' } : {}),
          ...headers,
        },
        body: isGzipped ? await compress(body) : body,
      })
      const answer = await readAnswer(response.body)
      return resultOf(response.statusCode, response.headers, answer, nowWallMs)
    } catch (error) {
      return { outcome: 'later', afterMs: 0, reason: failureOf(error, timeoutMs) }
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

async function readAnswer(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body) {
    if (bytes < ANSWER_BYTES_MAX) pieces.push(piece)
    bytes += piece.length
    if (bytes >= ANSWER_BYTES_MAX) break
  }
  return Buffer.concat(pieces)
}

function resultOf(
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  answer: Uint8Array,
  nowWallMs: number,
): SendResult {
  if (status >= 200 && status < 300) return { outcome: 'taken', answer }
  if (RETRYABLE.includes(status)) {
    return { outcome: 'later', afterMs: retryAfterMs(headers['retry-after'], nowWallMs), reason: `status ${status}` }
  }
  const location = headers.location
  const hint =
    status >= 300 && status < 400 && location !== undefined
      ? `: it moved to ${location}; redirects are not followed, so write that endpoint`
      : HINTS[status] === undefined
        ? ''
        : `: ${HINTS[status]}`
  return { outcome: 'refused', reason: `status ${status}${hint}`, status }
}

const HINTS: Readonly<Record<number, string>> = {
  400: 'the receiver cannot read the request; try the other --otlp-protocol',
  401: 'credentials are missing or wrong; see --otlp-headers',
  403: 'these credentials may not push; see --otlp-headers',
  404: 'nothing takes it there; the endpoint is written without /v1/metrics and /v1/traces',
  405: 'nothing takes it there; the endpoint is written without /v1/metrics and /v1/traces',
  413: 'the request is too large for the receiver',
  415: 'the receiver does not take this form; try the other --otlp-protocol',
}

/** Seconds, or a date (RFC 9110, 10.2.3); 0 when absent or unreadable. */
export function retryAfterMs(header: string | string[] | undefined, nowWallMs: number): number {
  const text = Array.isArray(header) ? header[0] : header
  if (text === undefined) return 0
  if (/^\d{1,9}$/.test(text.trim())) return Number(text) * 1000
  const date = Date.parse(text)
  return Number.isNaN(date) ? 0 : Math.max(0, date - nowWallMs)
}

function failureOf(error: unknown, timeoutMs: number): string {
  const { name, code, message } = error as { name?: string; code?: string; message?: string }
  if (name === 'TimeoutError') return `no answer within ${timeoutMs} ms`
  if (code === 'ECONNREFUSED') return 'connection refused: nothing listens there'
  return code === undefined ? (message ?? 'it failed') : `${code}${message ? ` (${message})` : ''}`
}
