import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { crc32 } from 'node:zlib'
import type { KeyBatch } from '../../src/l2/adapter.ts'

/**
 * What a peer may do to who asks it.
 *
 *   honest      answers
 *   longer      sends a byte more than a shard has, and says so
 *   huge        says that 1 GiB follows
 *   shorter     says and sends too little
 *   cut         hangs up in the middle of a shard
 *   altered     sends other bytes than it summed
 *   unsummed    sends no checksum
 *   unframed    sends a shard without a length
 *   silent      never answers
 *   stalls      sends half a shard, then nothing
 *   babbles     sends an answer that never ends
 *   garbage     sends no JSON
 *   refuses     401
 *   fails       500
 *   mismatch    409: another layout
 */
export type PeerManner =
  | 'honest'
  | 'longer'
  | 'huge'
  | 'shorter'
  | 'cut'
  | 'altered'
  | 'unsummed'
  | 'unframed'
  | 'silent'
  | 'stalls'
  | 'babbles'
  | 'garbage'
  | 'refuses'
  | 'fails'
  | 'mismatch'

/** Another engine's HTTP interface, as far as peers use it, that behaves as it is told. */
export class PeerDouble {
  /** Of lookups and of fetches. */
  asking: PeerManner = 'honest'
  fetching: PeerManner = 'honest'
  /** Which bit `altered` turns round; undefined = one in the middle. */
  altered: { readonly at: number; readonly bit: number } | undefined
  /** Told apart by path: `lookup` or `fetch`. */
  readonly seen: {
    readonly kind: 'lookup' | 'fetch'
    readonly authorization: string | undefined
    readonly traceparent: string | undefined
  }[] = []
  /** Answers that are still to be sent whole. */
  busy = 0
  readonly url: string
  readonly #server: Server
  readonly #shards = new Map<string, Uint8Array>()

  private constructor(server: Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.#answer(request, response))
  }

  static async start(): Promise<PeerDouble> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new PeerDouble(server)
  }

  hold(batch: KeyBatch, payloads: readonly Uint8Array[]): void {
    for (const [key, payload] of payloads.entries()) {
      this.#shards.set(Buffer.from(batch.hashes.subarray(key * 32, (key + 1) * 32)).toString('hex'), payload)
    }
  }

  count(kind: 'lookup' | 'fetch'): number {
    return this.seen.filter((one) => one.kind === kind).length
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url!, this.url)
    const isLookup = pathname === '/v1/chunks/lookup'
    const { authorization, traceparent } = request.headers as Record<string, string | undefined>
    this.seen.push({ kind: isLookup ? 'lookup' : 'fetch', authorization, traceparent })
    const manner = isLookup ? this.asking : this.fetching
    if (manner === 'silent') return
    if (!['stalls', 'babbles', 'huge'].includes(manner)) {
      this.busy += 1
      response.once('close', () => {
        this.busy -= 1
      })
    }
    const status = { refuses: 401, fails: 500, mismatch: 409 }[manner as string]
    if (status !== undefined) {
      response.writeHead(status).end('{}')
      return
    }
    if (isLookup) this.#answerLookup(manner, await text(request), response)
    else this.#answerFetch(manner, this.#shards.get(pathname.slice('/v1/chunks/'.length)), response)
  }

  #answerLookup(manner: PeerManner, body: string, response: ServerResponse): void {
    const { hashes } = JSON.parse(body) as { hashes: string[] }
    if (manner === 'garbage') response.end('<html>')
    else if (manner === 'longer') response.end(JSON.stringify({ found: [...hashes, ''].map(() => true) }))
    else if (manner === 'babbles') babble(response)
    else response.end(JSON.stringify({ found: hashes.map((hash) => this.#shards.has(hash)) }))
  }

  #answerFetch(manner: PeerManner, shard: Uint8Array | undefined, response: ServerResponse): void {
    if (shard === undefined) {
      response.writeHead(404).end('{}')
      return
    }
    const sent = bodyOf(manner, Buffer.from(shard), this.altered)
    const length = manner === 'huge' ? 2 ** 30 : manner === 'cut' || manner === 'stalls' ? shard.length : sent.length
    if (manner !== 'unframed' && manner !== 'babbles') response.setHeader('content-length', length)
    if (manner !== 'unsummed') response.setHeader('x-kvtier-crc32', crc32(shard).toString(16).padStart(8, '0'))
    response.write(sent, () => {
      if (manner === 'cut') response.destroy()
    })
    if (manner === 'babbles') babble(response)
    else if (!['huge', 'cut', 'stalls'].includes(manner)) response.end()
  }
}

function bodyOf(manner: PeerManner, shard: Buffer, altered: PeerDouble['altered']): Buffer {
  if (manner === 'longer') return Buffer.concat([shard, Buffer.alloc(1)])
  if (manner === 'shorter' || manner === 'cut' || manner === 'stalls') return shard.subarray(0, shard.length >>> 1)
  if (manner === 'altered') shard[altered?.at ?? shard.length >>> 1]! ^= 1 << (altered?.bit ?? 0)
  return shard
}

/** Sends for ever, as fast as it is read. */
function babble(response: ServerResponse): void {
  const piece = Buffer.alloc(64 * 1024, 32)
  const go = () => {
    while (!response.destroyed && response.write(piece));
  }
  response.on('drain', go)
  go()
}
