import { readFileSync } from 'node:fs'
import type { LookupFunction } from 'node:net'
import { Pool } from 'undici'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import { CredentialSource } from './credentials.ts'
import { type Answer, type Connections, exchange } from './exchange.ts'
import type { S3AdapterOptions } from './options.ts'
import { ReadBuffers } from './read-buffers.ts'
import type { BodySink } from './record-sink.ts'
import { isAbsence, isBusy, retryAfterMs, serviceCode, serviceError } from './service-error.ts'
import { encodeKey, encodeQuery, payloadHashOf, RequestSigner, UNSIGNED_PAYLOAD } from './sigv4.ts'

/** What an s3 adapter has from outside. */
export interface S3Parts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
  /** Resolves host names; the machine's resolver when absent. */
  readonly lookup?: LookupFunction
}

export interface S3Request {
  /** Of the operation, for errors. */
  readonly what: string
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Name of the object; '' for the bucket. */
  readonly key: string
  readonly query?: readonly (readonly [string, string])[]
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** The body, in pieces that stay as they are until the request has ended. */
  readonly pieces?: readonly Uint8Array[]
  readonly sink?: BodySink
  /** Further statuses to give back; others below 200 or from 300 on are errors. 404: only that of an absent object. */
  readonly expected?: readonly number[]
}

/** Tries of one request, when the server is busy or broke the connection. */
const TRIES = 3
const BUSY_DELAY_MS = 100
/** A server that wants a longer pause is reported as it is. */
const RETRY_AFTER_MAX_MS = 30_000
const CONNECT_TIMEOUT_MS = 5_000

/**
 * Requests to one bucket: signed, with bounded tries, over two bounded pools of connections, so that loads never
 * queue behind stores.
 *
 * Every request of this adapter may be sent twice: objects are written whole under names that say what they hold.
 * A busy server (429, 5xx) is asked again after its Retry-After, or a growing pause; a connection that broke is
 * replaced once at once, for the server may have closed it while it was idle.
 */
export class S3Client {
  readonly #options: S3AdapterOptions
  readonly #parts: S3Parts
  readonly #signer: RequestSigner
  readonly #credentials: CredentialSource
  readonly #base: URL
  readonly #isSigned: boolean
  #reads: (Connections & { readonly pool: Pool }) | undefined
  #writes: (Connections & { readonly pool: Pool }) | undefined

  constructor(options: S3AdapterOptions, parts: S3Parts) {
    this.#options = options
    this.#parts = parts
    this.#signer = new RequestSigner(options.region)
    this.#credentials = new CredentialSource(options)
    this.#base = baseOf(options)
    const isPlain = this.#base.protocol === 'http:'
    this.#isSigned = options.payload === 'signed' || (options.payload === 'auto' && isPlain)
  }

  /** Makes the pools. @throws CacheError CONFIG_INVALID for credentials or a CA file that cannot be had. */
  open(): void {
    this.#credentials.current()
    const { caFile, parallelism } = this.#options
    const { lookup } = this.#parts
    const connect = {
      timeout: CONNECT_TIMEOUT_MS,
      ...(caFile === '' ? {} : { ca: readCa(caFile) }),
      ...(lookup === undefined ? {} : { lookup }),
    }
    // The signal of each call is its time limit. HTTP/1.1: with HTTP/2 an abort would not free the connection.
    const options = { connections: parallelism, allowH2: false, connect, headersTimeout: 0, bodyTimeout: 0 }
    const buffers = new ReadBuffers()
    const reading = this.#base.protocol === 'http:' ? { ...connect, onread: buffers.onread } : connect
    const pool = new Pool(this.#base.origin, { ...options, connect: reading })
    this.#reads = { pool, recycle: (piece) => buffers.recycle(piece) }
    this.#writes = { pool: new Pool(this.#base.origin, options) }
  }

  async close(): Promise<void> {
    await Promise.all([this.#reads?.pool.destroy(), this.#writes?.pool.destroy()])
  }

  /** A time limit for what nobody else limits. `done` ends it. */
  limit(ms: number, signal?: AbortSignal): { readonly signal: AbortSignal; done(): void } {
    const abort = new AbortController()
    const timer = this.#parts.clock.schedule(ms, () => abort.abort())
    const joined = signal === undefined ? abort.signal : AbortSignal.any([abort.signal, signal])
    return { signal: joined, done: () => timer.cancel() }
  }

  /** Lets time pass, until the signal at most. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#parts.clock.schedule(ms, resolve)
    const onAbort = () => resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) resolve()
    await promise
    timer.cancel()
    signal.removeEventListener('abort', onAbort)
  }

  /**
   * @throws CacheError L2_TIMEOUT when the signal fires, L2_UNAVAILABLE when the server cannot be reached or stays
   * busy, CONFIG_INVALID for what no retry mends.
   */
  async send(request: S3Request, signal: AbortSignal): Promise<Answer> {
    const pieces = request.pieces ?? []
    // Objects alone go unsigned: what is asked for in a body is always signed.
    const isUnsigned = request.method === 'PUT' && pieces.length > 0 && !this.#isSigned
    const payloadHash = isUnsigned ? UNSIGNED_PAYLOAD : payloadHashOf(pieces)
    let hasRefreshed = false
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#try(request, pieces, payloadHash, tries, signal)
      if (answer === undefined) continue
      const { status } = answer
      const isExpected = request.expected?.includes(status) && (status !== 404 || isAbsence(answer))
      if ((status >= 200 && status < 300) || isExpected) return answer
      if (isBusy(answer) && tries < TRIES && (await this.#waitBusy(answer, tries, signal))) continue
      if (!hasRefreshed && isRefusedKey(answer) && this.#credentials.refresh()) {
        hasRefreshed = true
        continue
      }
      throw this.#errorOf(request.what, answer)
    }
  }

  /** The error that an answer means. */
  #errorOf(what: string, answer: Answer): CacheError {
    const { bucket, region } = this.#options
    const place = { endpoint: this.#base.origin, bucket, region }
    return serviceError(what, answer, place, this.#parts.clock.wallMs())
  }

  /** Undefined when the connection broke and the request is to be sent again. */
  async #try(
    request: S3Request,
    pieces: readonly Uint8Array[],
    payloadHash: string,
    tries: number,
    signal: AbortSignal,
  ): Promise<Answer | undefined> {
    const { method, key, query = [], sink } = request
    const connections = method === 'GET' || method === 'HEAD' ? this.#reads : this.#writes
    if (connections === undefined) throw new CacheError('L2_UNAVAILABLE', 'the s3 adapter is not open')
    const path = `${this.#base.pathname}${encodeKey(key)}`
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    const own = length === 0 ? {} : { 'content-length': String(length) }
    const headers = { ...request.headers, ...own }
    const parts = { method, host: this.#base.host, path, query, headers, payloadHash }
    const signed = this.#signer.sign(parts, this.#credentials.current(), this.#parts.clock.wallMs())
    const search = encodeQuery(query)
    const wire = { method, path: search === '' ? path : `${path}?${search}`, headers: signed, pieces }
    try {
      return await exchange(connections, wire, sink, signal)
    } catch (error) {
      if (signal.aborted) throw givenUp(request.what)
      if (tries < 2 && isBrokenConnection(error)) return undefined
      throw this.#unreachable(request.what, error)
    }
  }

  /** False when the server wants more patience than there is. */
  async #waitBusy(answer: Answer, tries: number, signal: AbortSignal): Promise<boolean> {
    const { clock, random } = this.#parts
    const ownMs = BUSY_DELAY_MS * 2 ** (tries - 1) * (1 - random() / 2)
    const delayMs = retryAfterMs(answer, clock.wallMs()) ?? ownMs
    if (delayMs > RETRY_AFTER_MAX_MS || signal.aborted) return false
    await this.pause(delayMs, signal)
    return !signal.aborted
  }

  #unreachable(what: string, error: unknown): CacheError {
    const { code = '', message = '' } = error as NodeJS.ErrnoException
    const reason = code === '' ? message : code
    const isTls = /CERT|SELF_SIGNED|UNABLE_TO/.test(code)
    const fix = isTls ? ': write tls-ca=FILE with the certificate of its authority' : ''
    const field = isTls ? { field: 'tls-ca' } : {}
    return new CacheError(
      'L2_UNAVAILABLE',
      `S3 at ${this.#base.origin} cannot be reached (${what}, ${reason})${fix}`,
      field,
      error,
    )
  }
}

/** Origin and path that objects' names are appended to. */
function baseOf({ endpoint, bucket, region, addressing }: S3AdapterOptions): URL {
  const service = new URL(endpoint === '' ? `https://s3.${region}.amazonaws.com` : endpoint)
  if (addressing === 'path') return new URL(`${service.origin}/${bucket}/`)
  return new URL(`${service.protocol}//${bucket}.${service.host}/`)
}

function readCa(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error'
    const message = `the file ${path} of tls-ca cannot be read (${code})`
    throw new CacheError('CONFIG_INVALID', message, { field: 'tls-ca' }, error)
  }
}

export function givenUp(what: string): CacheError {
  return new CacheError('L2_TIMEOUT', `${what} was given up: S3 did not answer in time`)
}

/** The connection ended in the middle of something: it may have been closed while it was idle. */
function isBrokenConnection(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE'
}

function isRefusedKey(answer: Answer): boolean {
  if (answer.status !== 403 && answer.status !== 400) return false
  return ['ExpiredToken', 'InvalidAccessKeyId', 'SignatureDoesNotMatch', 'InvalidToken', ''].includes(
    serviceCode(answer),
  )
}
