import { HashChain } from '../../src/core/hash-chain.ts'
import { fillPattern } from '../../src/replay/chunk-pattern.ts'
import type { EngineProcess } from './engine-process.ts'
import { random } from './random.ts'

export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: each route answers its own object
  readonly body: any
}

export interface LookupBody {
  readonly hit_tokens: number
  readonly hit_chunks: number
  readonly requested_tokens: number
  readonly tiers: { readonly l0: number; readonly l1: number; readonly l2: number }
  readonly lease_id: string | null
  readonly hashes: readonly string[]
}

/** Which chunks a request is about, besides the hash. */
export interface ChunkQuery {
  readonly model: string
  readonly cache_salt?: string
  readonly ranks?: string
  readonly rank?: string
}

/** A client of one engine's HTTP API. */
export class HttpClient {
  readonly #url: string
  readonly #token: string | undefined
  /** Sent with every request. */
  headers: Readonly<Record<string, string>> = {}

  constructor(engine: EngineProcess, token?: string) {
    this.#url = engine.httpUrl
    this.#token = token
  }

  /** One request; the answer is read as JSON, or null when there is none. Never throws for a status. */
  async ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<HttpAnswer> {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const type: Record<string, string> = body === undefined || isRaw ? {} : { 'content-type': 'application/json' }
    const response = await this.raw(method, path, isRaw ? body : JSON.stringify(body), { ...type, ...headers })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) }
  }

  raw(method: string, path: string, body?: string | Uint8Array, headers: Record<string, string> = {}) {
    const authorization: Record<string, string> =
      this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
    const init = {
      method,
      headers: { ...authorization, ...this.headers, ...headers },
      ...(body === undefined ? {} : { body }),
    }
    return fetch(`${this.#url}${path}`, init as RequestInit)
  }

  /** As `ask`, of what must succeed. @throws Error with the answer. */
  // biome-ignore lint/suspicious/noExplicitAny: each route answers its own object
  async must(method: string, path: string, body?: unknown): Promise<any> {
    const answer = await this.ask(method, path, body)
    if (answer.status < 300) return answer.body
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }

  status() {
    return this.must('GET', '/status')
  }

  register(model: string, chunkBytes: number, ranks = 1): Promise<unknown> {
    return this.must('POST', '/v1/models', { model, chunk_bytes: chunkBytes, ranks })
  }

  lookup(model: string, tokens: readonly number[], more: object = {}): Promise<LookupBody> {
    return this.must('POST', '/v1/lookup', { model, tokens, ...more })
  }

  async release(lease: string | null): Promise<void> {
    if (lease !== null) await this.must('DELETE', `/v1/leases/${lease}`)
  }

  put(hash: string, query: ChunkQuery & { readonly parent: string }, bytes: Uint8Array): Promise<HttpAnswer> {
    return this.ask('PUT', chunkPath(hash, query), bytes, { 'content-type': 'application/octet-stream' })
  }

  /** The bytes of a shard; undefined when it is not there. */
  async get(hash: string, query: ChunkQuery): Promise<Uint8Array | undefined> {
    const response = await this.raw('GET', chunkPath(hash, query))
    const bytes = new Uint8Array(await response.arrayBuffer())
    if (response.status === 200) return bytes
    if (response.status === 404) return undefined
    throw new Error(`GET of ${hash}: ${response.status} ${Buffer.from(bytes).toString()}`)
  }

  /** Stores the first `count` whole chunks of a prompt, root first. @returns the hashes of the whole prompt. */
  async store(
    query: ChunkQuery,
    tokens: readonly number[],
    shardBytes: number,
    count = Number.POSITIVE_INFINITY,
  ): Promise<readonly string[]> {
    const { model, cache_salt = '' } = query
    const { hashes } = await this.lookup(model, tokens, { cache_salt, dry_run: true })
    let parent = 'root'
    for (const hash of hashes.slice(0, count)) {
      const { status, body } = await this.put(hash, { ...query, parent }, shardOf(hash, shardBytes))
      if (status >= 300) throw new Error(`PUT of ${hash}: ${status} ${JSON.stringify(body)}`)
      parent = hash
    }
    return hashes
  }

  /** Resolves once nothing is queued for L2 or on its way there. */
  async isL2Idle(): Promise<boolean> {
    const { l2 } = await this.status()
    return l2.queuedStores === 0 && l2.inflightStores === 0
  }
}

export function chunkPath(hash: string, query: object): string {
  return `/v1/chunks/${hash}?${new URLSearchParams(query as Record<string, string>)}`
}

/** What clients of tests store under a hash: nothing else has these bytes. */
export function shardOf(hash: string, bytes: number): Uint8Array {
  const shard = new Uint8Array(bytes)
  fillPattern(shard, HashChain.of(new Uint8Array(Buffer.from(hash, 'hex'))), 0)
  return shard
}

/** Tokens of a prompt that shares no chunk with one of another seed. */
export function promptOf(seed: number, tokens: number): number[] {
  const next = random(seed)
  return Array.from({ length: tokens }, () => next(100_000))
}
