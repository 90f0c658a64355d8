import { Pool } from 'undici'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import { HASH_BYTES } from '../../../core/hash-chain.ts'
import { crc32 } from '../../../native/checksum.ts'
import { type KeyBatch, OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../adapter.ts'
import { CircuitBreaker, type CircuitWork } from '../../circuit-breaker.ts'
import { type ResponseSink, request } from './response-reader.ts'

export interface PeerClientParts {
  readonly clock: Clock
  /** '' = none. */
  readonly token: () => string
  readonly connections: number
  readonly answerMs: number
  /** Name that its certificate is for, when the origin is an address. */
  readonly serverName?: string
}

/** Hashes of one question; the other side takes no more. */
export const QUESTION_SHARDS_MAX = 4096
const CIRCUIT_FAILURES = 3
const CIRCUIT_OPEN_MS = 5_000
/** A whole answer to a question may take so many times as long as a silence. */
const ANSWERS_MAX = 4
/** For questions, while all others are taken by shards. */
const SPARE_CONNECTIONS = 4
const SUM_HEADER = 'x-kvtier-crc32'

/** One other engine. It is left alone for a while after it has failed a few times in a row. */
export class PeerClient {
  readonly origin: string
  /** What it failed with last. */
  lastError: unknown
  readonly #parts: PeerClientParts
  readonly #pool: Pool
  readonly #circuit = new CircuitBreaker(CIRCUIT_FAILURES, CIRCUIT_OPEN_MS)

  constructor(origin: string, parts: PeerClientParts) {
    const { answerMs, connections, serverName } = parts
    this.origin = origin
    this.#parts = parts
    const tls = serverName === undefined ? {} : { servername: serverName }
    this.#pool = new Pool(origin, {
      connections: connections + SPARE_CONNECTIONS,
      pipelining: 1,
      connect: { timeout: answerMs, ...tls },
    })
  }

  /** Whether it would be asked now. */
  get isUsable(): boolean {
    return this.#circuit.wouldPass(this.#parts.clock.nowMs())
  }

  /** found[i] = 1 when it has chunk i. A peer with another layout has nothing. @returns undefined when it failed. */
  async lookup(batch: KeyBatch, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const found = new Uint8Array(batch.count)
    return this.#judged('lookup', signal, async () => {
      for (let from = 0; from < batch.count; from += QUESTION_SHARDS_MAX) {
        const to = Math.min(batch.count, from + QUESTION_SHARDS_MAX)
        const answer = new TextSink(64 + 8 * (to - from))
        const headers = { ...this.#headers(batch), 'content-type': 'application/json' }
        const body = questionOf(batch, from, to)
        const options = { origin: this.origin, path: '/v1/chunks/lookup', method: 'POST', headers, body } as const
        const status = await this.#request(options, answer, signal, ANSWERS_MAX * this.#parts.answerMs)
        if (status !== 200) continue
        readAnswer(answer.text, found.subarray(from, to))
      }
      return found
    })
  }

  /** Fetches and verifies chunk `key`. @returns an OUTCOME_*; unless OK, target is garbage. */
  async fetch(batch: KeyBatch, key: number, target: Uint8Array, signal: AbortSignal): Promise<number> {
    const sink = new ShardSink(target)
    const { model, salt, ranks, rank, layout } = batch.space
    const query = new URLSearchParams({ model, ranks: String(ranks), rank: String(rank), layout, checksum: 'true' })
    if (salt !== '') query.set('cache_salt', salt)
    const path = `/v1/chunks/${hexOf(batch.hashes, key)}?${query}`
    const outcome = await this.#judged('load', signal, async () => {
      try {
        const options = { origin: this.origin, path, method: 'GET', headers: this.#headers(batch) } as const
        const status = await this.#request(options, sink, signal)
        if (status !== 200) return OUTCOME_NOT_FOUND
        return sink.isWhole ? OUTCOME_OK : OUTCOME_CORRUPT
      } catch (error) {
        if (!(error instanceof CacheError) || error.code !== 'L2_CORRUPT') throw error
        this.lastError = error
        return OUTCOME_CORRUPT
      }
    })
    return outcome ?? OUTCOME_FAILED
  }

  /** Drops what is under way. */
  close(): Promise<void> {
    return this.#pool.destroy()
  }

  #headers({ traceparent }: KeyBatch): Record<string, string> {
    const token = this.#parts.token()
    return {
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
      ...(traceparent === undefined ? {} : { traceparent }),
    }
  }

  /** @returns 200, or the status of an answer that means "not here". @throws CacheError for any other. */
  async #request(
    options: Parameters<typeof request>[1],
    sink: ResponseSink,
    signal: AbortSignal,
    deadlineMs = Number.POSITIVE_INFINITY,
  ): Promise<number> {
    const { clock, answerMs } = this.#parts
    const status = await request(this.#pool, options, sink, { clock, signal, silenceMs: answerMs, deadlineMs })
    const isAnswer = status === 200 || status === 404 || status === 409
    if (!isAnswer) throw new CacheError('L2_UNAVAILABLE', `it answered ${status}`)
    return status
  }

  /** Runs one question. A failure is noted and counts against the peer, unless the caller went away. */
  async #judged<T>(work: CircuitWork, signal: AbortSignal, ask: () => Promise<T>): Promise<T | undefined> {
    const { clock } = this.#parts
    if (signal.aborted || !this.#circuit.tryPass(clock.nowMs())) return undefined
    try {
      const value = await ask()
      this.#circuit.succeed(work)
      return value
    } catch (error) {
      if (signal.aborted) {
        this.#circuit.leave()
        return undefined
      }
      this.lastError = error
      this.#circuit.fail(clock.nowMs(), work)
      return undefined
    }
  }
}

/** A short text, bounded. */
class TextSink implements ResponseSink {
  readonly #bytesMax: number
  readonly #pieces: Buffer[] = []
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get text(): string {
    return Buffer.concat(this.#pieces).toString('utf8')
  }

  start(): void {}

  data(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#bytes > this.#bytesMax) throw new CacheError('L2_UNAVAILABLE', 'its answer is too long')
    this.#pieces.push(Buffer.from(bytes))
  }
}

/** Bytes that go straight to where they belong, summed on their way. Never writes past the target. */
class ShardSink implements ResponseSink {
  readonly #target: Uint8Array
  #received = 0
  #sum = 0
  #expected = -1

  constructor(target: Uint8Array) {
    this.#target = target
  }

  get isWhole(): boolean {
    return this.#received === this.#target.length && this.#sum === this.#expected
  }

  start(headers: Record<string, string | string[] | undefined>): void {
    const sum = String(headers[SUM_HEADER])
    if (!/^[0-9a-f]{8}$/.test(sum)) throw corrupt('it sent no checksum')
    this.#expected = Number.parseInt(sum, 16)
    if (headers['content-length'] !== String(this.#target.length)) throw corrupt('it offers bytes of another length')
  }

  data(bytes: Buffer): void {
    if (this.#received + bytes.length > this.#target.length) throw corrupt('it sent more than it said')
    this.#target.set(bytes, this.#received)
    this.#received += bytes.length
    this.#sum = crc32(bytes, this.#sum)
  }
}

function questionOf({ space, hashes }: KeyBatch, from: number, to: number): string {
  const { model, salt, ranks, rank, shardBytes, layout } = space
  return JSON.stringify({
    model,
    ...(salt === '' ? {} : { cache_salt: salt }),
    ranks,
    rank,
    chunk_bytes: shardBytes,
    layout,
    hashes: Array.from({ length: to - from }, (_, at) => hexOf(hashes, from + at)),
  })
}

/** @throws CacheError L2_UNAVAILABLE when the text is no answer to a question about found.length shards. */
function readAnswer(text: string, found: Uint8Array): void {
  let answer: unknown
  try {
    answer = (JSON.parse(text) as { found?: unknown } | null)?.found
  } catch {
    answer = undefined
  }
  const isAnswer =
    Array.isArray(answer) && answer.length === found.length && answer.every((one) => typeof one === 'boolean')
  if (!isAnswer) throw new CacheError('L2_UNAVAILABLE', 'its answer cannot be read')
  for (const [at, isHeld] of (answer as boolean[]).entries()) found[at] = isHeld ? 1 : 0
}

function hexOf(hashes: Uint8Array, key: number): string {
  const at = hashes.byteOffset + key * HASH_BYTES
  return Buffer.from(hashes.buffer, at, HASH_BYTES).toString('hex')
}

function corrupt(message: string): CacheError {
  return new CacheError('L2_CORRUPT', message)
}
