import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SegmentFile } from '../../src/native/segment-file.ts'
import type { WireKey } from '../../src/protocol/mp/messages.ts'
import type { EngineProcess } from './engine-process.ts'
import { type HttpClient, promptOf, shardOf } from './http-client.ts'
import { zipf } from './model-traffic.ts'
import { contextOf, found } from './mp.ts'
import { random } from './random.ts'
import { isStamped, stampOf } from './stamp.ts'

/** Tokens of a chunk of the engine under soak. */
export const SOAK_CHUNK = 256
/** Bytes of a shard, on both ways. */
export const SOAK_SHARD_BYTES = 16 * 1024

const MP_PROMPTS = 600
const HTTP_PROMPTS = 200

/** One of those that ask an engine for prompts, popular ones more often, compare what it gives and store the rest. */
export interface SoakClient {
  readonly name: string
  /** Chunks so far. */
  readonly counts: { asked: number; hit: number; compared: number; stored: number }
  /** One request, from the lookup to the end. Throws at a wrong byte, and at an error that is none of the load. */
  cycle(): Promise<void>
  close(): Promise<void>
}

/** A worker and its scheduler, over the MP wire and shared memory. */
export class MpSoakClient implements SoakClient {
  readonly name: string
  readonly counts = { asked: 0, hit: 0, compared: 0, stored: 0 }
  readonly #client: MpClient
  readonly #instance: bigint
  readonly #segment: SegmentFile
  readonly #draw: () => number
  #requests = 0

  private constructor(client: MpClient, instance: bigint, segment: SegmentFile, seed: number) {
    this.name = `mp ${seed}`
    this.#client = client
    this.#instance = instance
    this.#segment = segment
    this.#draw = zipf(MP_PROMPTS, random(seed))
  }

  static async open(engine: EngineProcess, seed: number): Promise<MpSoakClient> {
    const client = new MpClient(engine.addresses.mp!, { clock: new SystemClock(), timeoutMs: 60_000 })
    const instance = 2n ** 62n + BigInt(seed)
    await client.chunkTokens()
    const { name } = await client.register(contextOf(instance, { model: 'soak', slots: SOAK_CHUNK, blockTokens: 16 }))
    return new MpSoakClient(client, instance, SegmentFile.open(name), seed)
  }

  async cycle(): Promise<void> {
    const prompt = this.#draw()
    const chunks = 1 + ((prompt * 7) % 12)
    const tokens = Uint32Array.from({ length: chunks * SOAK_CHUNK }, (_, at) => prompt * 100_000 + at)
    const requestId = `soak ${this.#instance} ${++this.#requests}`
    const key: WireKey = {
      ...{ model: 'soak', salt: `s${prompt % 10}`, worldSize: 1, workerId: 0, tokens, requestId, readers: 1 },
      ...{ start: 0, end: tokens.length },
    }
    const hits = await found(this.#client, key)
    this.counts.asked += chunks
    this.counts.hit += hits
    if (hits > 0) await this.#read({ ...key, end: hits * SOAK_CHUNK }, prompt)
    if (hits < chunks) await this.#store({ ...key, start: hits * SOAK_CHUNK }, prompt, hits)
    await this.#client.endSession(requestId)
  }

  async close(): Promise<void> {
    await this.#client.unregister(this.#instance)
    this.#client.close()
    this.#segment.close()
  }

  async #read(key: WireKey, prompt: number): Promise<void> {
    const slots = await this.#client.prepareRetrieve(key, this.#instance)
    if (slots === null) return // others hold too much, or the lease ran out
    const wrong = slots.findIndex((slot, chunk) => {
      const place = { offset: 0, length: slot.length, rank: 0 }
      return !isStamped(this.#segment.read(slot.offset, slot.length), { ...slot, ...place }, `${prompt} ${chunk}`)
    })
    const isInTime = await this.#client.commitRetrieve(key, this.#instance)
    if (!isInTime) return
    if (wrong >= 0) throw new Error(`chunk ${wrong} of prompt ${prompt} has wrong bytes`)
    this.counts.compared += slots.length
  }

  async #store(key: WireKey, prompt: number, from: number): Promise<void> {
    const { slots, chunkIndices } = await this.#client.prepareStore(key, this.#instance)
    for (const [row, { offset, length }] of slots.entries()) {
      this.#segment.write(offset, stampOf(`${prompt} ${from + chunkIndices[row]!}`, length))
    }
    if (slots.length > 0 && (await this.#client.commitStore(key, this.#instance))) this.counts.stored += slots.length
  }
}

/** A plain client of the HTTP API. */
export class HttpSoakClient implements SoakClient {
  readonly name = 'http'
  readonly counts = { asked: 0, hit: 0, compared: 0, stored: 0 }
  readonly #http: HttpClient
  readonly #draw: () => number

  private constructor(http: HttpClient, seed: number) {
    this.#http = http
    this.#draw = zipf(HTTP_PROMPTS, random(seed))
  }

  static async open(http: HttpClient, seed: number): Promise<HttpSoakClient> {
    await http.register('soak-http', SOAK_SHARD_BYTES)
    return new HttpSoakClient(http, seed)
  }

  async cycle(): Promise<void> {
    const prompt = this.#draw()
    const tokens = promptOf(prompt + 1, SOAK_CHUNK * (1 + (prompt % 4)))
    const query = { model: 'soak-http', cache_salt: `s${prompt % 10}` }
    const { hashes, hit_chunks: hits, lease_id: lease } = await this.#http.lookup(query.model, tokens, query)
    this.counts.asked += hashes.length
    this.counts.hit += hits
    for (const hash of hashes.slice(0, hits)) {
      const bytes = await this.#http.get(hash, query)
      if (bytes === undefined) break // the lease ran out
      if (Buffer.compare(bytes, shardOf(hash, SOAK_SHARD_BYTES)) !== 0) throw new Error(`${hash} has wrong bytes`)
      this.counts.compared += 1
    }
    for (let at = hits; at < hashes.length; at += 1) if (!(await this.#put(hashes, at, query))) break
    if (lease !== null) await this.#http.ask('DELETE', `/v1/leases/${lease}`)
  }

  async close(): Promise<void> {}

  /** False when L1 has no room, or another client or eviction was quicker. */
  async #put(hashes: readonly string[], at: number, query: { model: string; cache_salt: string }): Promise<boolean> {
    const hash = hashes[at]!
    const parent = at === 0 ? 'root' : hashes[at - 1]!
    const { status, body } = await this.#http.put(hash, { ...query, parent }, shardOf(hash, SOAK_SHARD_BYTES))
    if (status >= 500 && status !== 503 && status !== 507) throw new Error(`PUT: ${status} ${JSON.stringify(body)}`)
    if (status < 300) this.counts.stored += 1
    return status < 300
  }
}
