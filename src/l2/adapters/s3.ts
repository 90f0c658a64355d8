import { assert } from '../../core/assert.ts'
import type { Timer } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import { HASH_WORDS } from '../../core/hash-chain.ts'
import type { AdapterUsage, KeyBatch, L2Adapter, ObjectPage, QuotaChanges, TenantUsage } from '../adapter.ts'
import { followsNeighbour, type KeyWords, keyWords } from '../key-words.ts'
import { HEADER_BYTES, type RecordFormat, RecordFormats } from '../object-format.ts'
import { objectPage } from '../object-pages.ts'
import { tenantsOf } from '../object-room.ts'
import type { SpaceEntry } from '../space-table.ts'
import { Lanes } from './lanes.ts'
import { Bucket } from './s3/bucket.ts'
import { BucketIndex, type Condemned } from './s3/bucket-index.ts'
import { ObjectNames } from './s3/object-names.ts'
import { ObjectReader } from './s3/object-reader.ts'
import { ObjectWriter } from './s3/object-writer.ts'
import type { S3AdapterOptions } from './s3/options.ts'
import { givenUp, S3Client, type S3Parts } from './s3/s3-client.ts'

/** Uploads in parts that began so long ago have no writer any more: no store may take as long. */
const UPLOAD_AGE_MS = 2 * 3_600_000
const REQUEST_LIMIT_MS = 30_000

/**
 * Objects of a bucket of S3, or of anything that speaks its protocol, with a capacity and leaf-first LRU eviction.
 *
 *   open:   list -> index -> drop uploads that were left -> evict down to the capacity
 *   lookup: the index; with `lookup: 'head'` also a HEAD for each key that it lacks, up to the first absent one
 *   store:  room (evict: DeleteObjects) -> PUT, or parts when it is large -> in the index
 *   load:   GET, written where it belongs as it comes -> verified
 *
 * A miss costs no request with `lookup: 'index'`. What other engines store in the same place is then seen after the
 * next listing; with 'head' at once, for a round trip a miss. What they delete is found out by a load.
 * Recency is that of this engine: after a restart it is the time of writing. S3 keeps no other.
 */
export class S3Adapter implements L2Adapter {
  readonly type = 's3'
  readonly #options: S3AdapterOptions
  readonly #parts: S3Parts
  readonly #client: S3Client
  readonly #bucket: Bucket
  readonly #names: ObjectNames
  readonly #held: BucketIndex
  readonly #writer: ObjectWriter
  readonly #reader: ObjectReader
  readonly #lookupLanes: Lanes
  readonly #formats = new RecordFormats()
  readonly #running = new Set<Promise<unknown>>()
  #listing: Timer | undefined
  #closing = new AbortController()
  #isOpen = false

  constructor(options: S3AdapterOptions, parts: S3Parts) {
    const { prefix, capacityBytes, parallelism } = options
    const wallMs = () => parts.clock.wallMs()
    this.#options = options
    this.#parts = parts
    this.#client = new S3Client(options, parts)
    this.#bucket = new Bucket(this.#client)
    this.#names = new ObjectNames(prefix)
    this.#held = new BucketIndex({ capacityBytes, bucket: this.#bucket, names: this.#names, wallMs })
    const background = (work: Promise<unknown>) => this.#background(work)
    const shared = {
      options,
      held: this.#held,
      bucket: this.#bucket,
      names: this.#names,
      wallMs,
      background,
      closing: () => this.#closing.signal,
    }
    this.#writer = new ObjectWriter(shared)
    this.#reader = new ObjectReader(shared)
    this.#lookupLanes = new Lanes(parallelism)
  }

  /** @throws CacheError CONFIG_INVALID, L2_UNAVAILABLE, L2_TIMEOUT */
  async open(): Promise<void> {
    this.#closing = new AbortController()
    this.#client.open()
    try {
      await this.#relist()
      await this.#sweepUploads()
    } catch (error) {
      await this.#client.close()
      throw error
    }
    this.#isOpen = true
    this.#scheduleListing()
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    this.#check(signal)
    const { index, spaces } = this.#held
    const space = this.#options.lookup === 'head' ? spaces.open(batch.space) : spaces.find(batch.space)
    const hashes = keyWords(batch.hashes)
    for (let key = 0; key < batch.count; key += 1) {
      found[key] = space !== undefined && index.isHeld(index.find(space.id, hashes, key)) ? 1 : 0
    }
    if (this.#options.lookup === 'head') await this.#run(signal, () => this.#ask(batch, space!, found, signal))
  }

  store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    return this.#run(signal, () => {
      const { space, format } = this.#spaceOf(batch, sources)
      return this.#writer.store(batch, space, format, sources, outcomes, signal)
    })
  }

  load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    return this.#run(signal, async () => {
      const { space, format } = this.#spaceOf(batch, targets)
      const bytes = await this.#reader.load(batch, space, format, targets, outcomes, signal)
      this.#held.index.refresh(space.id, keyWords(batch.hashes), keyWords(batch.parents), batch.count)
      return bytes
    })
  }

  scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal) {
    return this.#run(signal, () => {
      const { space, format } = this.#spaceOf(batch, [])
      return this.#reader.scrub(batch, space, format, outcomes, signal)
    })
  }

  remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const { index, spaces } = this.#held
      const space = spaces.find(batch.space)
      if (space === undefined) return 0
      const hashes = keyWords(batch.hashes)
      return this.#removeAll(signal, () =>
        Array.from({ length: batch.count }, (_, key) => index.find(space.id, hashes, key)).filter((node) =>
          index.isHeld(node),
        ),
      )
    })
  }

  /** Lists before it deletes: what other engines stored goes, too. */
  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      await this.#held.refresh(signal)
      return this.#removeAll(signal, () => {
        const { index, spaces } = this.#held
        return index.heldIn(spaces.matching(filter))
      })
    })
  }

  async list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    this.#check(signal)
    return objectPage(this.#held.index, this.#held.spaces, cursor, countMax)
  }

  setQuotas(changes: QuotaChanges, signal: AbortSignal): Promise<boolean> {
    return this.#run(signal, () =>
      this.#held.alone(async () => {
        this.#held.room.change(changes)
        const condemned: Condemned[] = []
        this.#held.trimQuotas(condemned)
        await this.#held.remove(condemned, signal)
        return true
      }),
    )
  }

  async tenants(): Promise<TenantUsage[]> {
    return tenantsOf(this.#held.index, this.#held.spaces)
  }

  usage(): AdapterUsage {
    return {
      bytes: this.#held.bytes,
      objects: this.#held.objects,
      capacityBytes: this.#options.capacityBytes,
      evictedObjects: this.#held.room.evictedObjects,
      quotaEvictedObjects: this.#held.room.quotaEvictedObjects,
      checksumFailures: this.#reader.checksumFailures + this.#held.brokenObjects,
    }
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#listing?.cancel()
    this.#closing.abort()
    while (this.#running.size > 0) await Promise.allSettled(this.#running) // what ends may leave work in the background
    await this.#held.idle()
    await this.#client.close()
  }

  /** Makes the index what the bucket has, and evicts down to the capacity. */
  async relist(signal: AbortSignal): Promise<void> {
    await this.#run(signal, () => this.#relist(signal))
  }

  /** Checks the index: for tests. */
  verify(): void {
    this.#held.index.verify()
  }

  #check(signal: AbortSignal): void {
    if (!this.#isOpen) throw new CacheError('L2_UNAVAILABLE', 'the s3 adapter is not open')
    if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it began')
  }

  /** Runs an operation that `close` waits for. */
  async #run<T>(signal: AbortSignal, operation: () => Promise<T>): Promise<T> {
    this.#check(signal)
    const running = operation()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  #spaceOf(batch: KeyBatch, buffers: readonly Uint8Array[]): { space: SpaceEntry; format: RecordFormat } {
    for (const { length } of buffers)
      assert(length === batch.space.shardBytes, 'bytes of another length than the space')
    const space = this.#held.spaces.open(batch.space)
    return { space, format: this.#formats.of(space) }
  }

  /** Asks the bucket for what the index lacks. A key is not asked for when the one before it in the chain is absent. */
  async #ask(batch: KeyBatch, space: SpaceEntry, found: Uint8Array, signal: AbortSignal): Promise<void> {
    const { index } = this.#held
    const hashes = keyWords(batch.hashes)
    const parents = keyWords(batch.parents)
    const absent = new Uint8Array(batch.count)
    let error: unknown
    await this.#lookupLanes.run(batch.count, signal, async (key) => {
      if (found[key] === 1 || error !== undefined) return
      if (absent[key - 1] === 1 && followsNeighbour(hashes, parents, key)) {
        absent[key] = 1
        return
      }
      const name = this.#names.objectOf(space.digest, wordsAt(hashes, key), wordsAt(parents, key))
      try {
        const bytes = await this.#bucket.head(name, signal)
        if (bytes !== HEADER_BYTES + batch.space.shardBytes) {
          absent[key] = 1
          return
        }
        const node = index.find(space.id, hashes, key)
        if (index.isPending(node)) return
        if (!index.isHeld(node)) index.raise(this.#held.add(space, hashes, parents, key, this.#parts.clock.wallMs()))
        found[key] = 1
      } catch (cause) {
        error ??= cause
      }
    })
    if (error !== undefined) throw error
    if (signal.aborted) throw givenUp('the lookup')
  }

  /** @param choose the held nodes to delete, when the turn has come. */
  #removeAll(signal: AbortSignal, choose: () => number[]): Promise<number> {
    return this.#held.alone(() => {
      if (signal.aborted) throw givenUp('the removal')
      const condemned = [...new Set(choose())].map((node) => this.#held.condemn(node))
      return this.#held.remove(condemned, signal)
    })
  }

  async #relist(signal = this.#closing.signal): Promise<void> {
    await this.#held.refresh(signal)
    await this.#held.alone(async () => {
      const condemned: Condemned[] = []
      this.#held.makeRoom(condemned)
      await this.#bucket.within(REQUEST_LIMIT_MS, signal, (limited) => this.#held.remove(condemned, limited))
    })
  }

  /** Drops uploads that nobody ended: of crashed engines, or whose start had no answer. Those of running ones are younger. */
  async #sweepUploads(): Promise<void> {
    const { signal } = this.#closing // a close does not wait for a server that hangs
    const uploads = await this.#bucket.uploads(this.#names.objects, REQUEST_LIMIT_MS, signal).catch(() => [])
    for (const { key, id, startedMs } of uploads) {
      if (signal.aborted) return
      if (startedMs > this.#parts.clock.wallMs() - UPLOAD_AGE_MS) continue
      await this.#bucket.abortUpload(key, id, REQUEST_LIMIT_MS, signal).catch(() => undefined)
    }
  }

  #scheduleListing(): void {
    const { relistMs } = this.#options
    if (relistMs === 0) return
    this.#listing = this.#parts.clock.schedule(relistMs, () => {
      const done = () => {
        if (this.#isOpen) this.#scheduleListing()
      }
      const work = this.#relist().then(() => this.#sweepUploads())
      this.#background(work.then(done, done)) // after an error the next one may go well
    })
  }

  /** Work that nobody waits for but `close`. */
  #background(work: Promise<unknown>): void {
    this.#running.add(work)
    void work.catch(() => undefined).finally(() => this.#running.delete(work))
  }
}

function wordsAt(words: KeyWords, key: number): KeyWords {
  return words.subarray(key * HASH_WORDS, (key + 1) * HASH_WORDS)
}
