import { assert } from '../../../core/assert.ts'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import {
  type AdapterUsage,
  type KeyBatch,
  type L2Adapter,
  type ObjectPage,
  OUTCOME_FAILED,
  type QuotaChanges,
  type TenantUsage,
} from '../../adapter.ts'
import { keyWords } from '../../key-words.ts'
import { RecordFormats } from '../../object-format.ts'
import { objectPage } from '../../object-pages.ts'
import { tenantsOf } from '../../object-room.ts'
import type { SpaceEntry } from '../../space-table.ts'
import type { ObjectBatch } from './object-batch.ts'
import { objectKey } from './object-keys.ts'
import { ObjectReader } from './object-reader.ts'
import { ObjectWriter } from './object-writer.ts'
import type { RedisAdapterOptions } from './options.ts'
import { command, type RedisCommand, type ServerError } from './redis-command.ts'
import { RedisPool } from './redis-pool.ts'
import { RedisServers } from './redis-servers.ts'

export interface RedisParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
}

/**
 * Objects as values of Redis or Valkey, one server or a Cluster, with a capacity and leaf-first LRU eviction.
 *
 *   lookup:  EXISTS of each key, pipelined. The servers are asked, so that objects of other engines are found
 *   store:   EXISTS of what should be there -> room (UNLINK) -> SET NX, header and payload as one value
 *   load:    GET, read by the socket straight into the target -> verified
 *   open:    SCAN: names say space, hash and parent; idle times give the order of eviction
 *
 * A value appears whole or not at all, because SET is atomic; a torn request is never carried out. What Redis evicts
 * by its own `maxmemory` policy is not found, and leaves the index when that is noticed; a server that is out of
 * memory makes the outcome FULL. One object is one value: at most 512 MiB, the limit of the protocol.
 * Who shares what: `RedisPool`.
 */
export class RedisAdapter implements L2Adapter {
  readonly type = 'redis'
  readonly #options: RedisAdapterOptions
  readonly #servers: RedisServers
  readonly #pool: RedisPool
  readonly #writer: ObjectWriter
  readonly #reader: ObjectReader
  readonly #formats = new RecordFormats()
  readonly #running = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()
  #last: Promise<unknown> = Promise.resolve()
  #isOpen = false

  /** @throws CacheError CONFIG_INVALID, L2_UNAVAILABLE for a file that cannot be read */
  constructor(options: RedisAdapterOptions, parts: RedisParts) {
    this.#options = options
    this.#servers = new RedisServers(options, parts)
    this.#pool = new RedisPool(options, this.#servers, parts.clock)
    this.#writer = new ObjectWriter(this.#servers, this.#pool, (operation) => this.#alone(operation))
    this.#reader = new ObjectReader(options, this.#servers, this.#pool)
  }

  /** @throws CacheError L2_UNAVAILABLE */
  async open(): Promise<void> {
    try {
      await this.#servers.open()
      await this.#pool.scan(this.#closing.signal, true)
      await this.#pool.trim(this.#closing.signal)
    } catch (error) {
      this.#servers.close()
      throw error
    }
    this.#isOpen = true
  }

  lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#run(signal, async () => {
      const space = this.#pool.open(batch.space)
      const hashes = keyWords(batch.hashes)
      const commands = this.#keysOf(batch, space).map((key) => command(key, 'EXISTS', key))
      await this.#servers.run('questions', commands, signal)
      for (const [key, { reply }] of commands.entries()) {
        found[key] = reply === 1 ? 1 : 0
        if (reply === 0) this.#pool.forgetIfHeld(space, hashes, key)
      }
      refuseWhenAllFailed(commands)
    })
  }

  store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, sources, outcomes)
      const commands = await this.#writer.store(work, sources, signal)
      this.#finish(work)
      if (outcomes.subarray(0, batch.count).every((outcome) => outcome === OUTCOME_FAILED)) {
        refuseWhenAllFailed(commands)
        if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it was written')
      }
      return work.bytes
    })
  }

  load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, targets, outcomes)
      const commands = await this.#reader.read(work, 0, targets, signal)
      this.#finish(work)
      refuseWhenAllFailed(commands)
      return work.bytes
    })
  }

  scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, [], outcomes)
      refuseWhenAllFailed(await this.#reader.scrub(work, signal))
      return work.bytes
    })
  }

  remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return this.#run(signal, () =>
      this.#alone(async () => {
        const space = this.#pool.open(batch.space)
        const hashes = keyWords(batch.hashes)
        const keys = this.#keysOf(batch, space)
        const commands = [...new Set(keys)].map((key) => command(key, 'UNLINK', key))
        await this.#servers.run('questions', commands, signal)
        const removed = new Map(commands.map(({ key, reply }) => [key, reply]))
        for (const [at, key] of keys.entries()) {
          if (typeof removed.get(key) === 'number') this.#pool.forgetIfHeld(space, hashes, at)
        }
        refuseWhenAllFailed(commands)
        return commands.reduce((sum, { reply }) => sum + (typeof reply === 'number' ? reply : 0), 0)
      }),
    )
  }

  /** @throws CacheError L2_UNAVAILABLE when objects are left that could not be removed */
  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return this.#run(signal, () =>
      this.#alone(async () => {
        const { index, spaces } = this.#pool
        await this.#pool.scan(signal) // what others stored goes as well
        const names = index.heldIn(spaces.matching(filter)).map((node) => this.#pool.take(node))
        const { removed, failed } = await this.#pool.unlink(names, signal)
        if (failed > 0) throw new CacheError('L2_UNAVAILABLE', `${failed} objects could not be removed from Redis`)
        return removed
      }),
    )
  }

  list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    return this.#run(signal, async () => {
      if (cursor === '') await this.#recount(signal)
      return objectPage(this.#pool.index, this.#pool.spaces, cursor, countMax)
    })
  }

  /** Of objects that this engine knows of; others enforce their own. */
  setQuotas(changes: QuotaChanges, signal: AbortSignal): Promise<boolean> {
    return this.#run(signal, () =>
      this.#alone(async () => {
        this.#pool.room.change(changes)
        await this.#pool.trim(signal)
        return true
      }),
    )
  }

  tenants(signal: AbortSignal): Promise<TenantUsage[]> {
    return this.#run(signal, async () => tenantsOf(this.#pool.index, this.#pool.spaces))
  }

  usage(): AdapterUsage {
    const { index, room } = this.#pool
    return {
      bytes: index.heldBytes,
      objects: index.objects,
      capacityBytes: this.#options.capacityBytes,
      evictedObjects: room.evictedObjects,
      quotaEvictedObjects: room.quotaEvictedObjects,
      checksumFailures: this.#reader.checksumFailures,
    }
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await Promise.allSettled(this.#running)
    this.#closing.abort()
    await this.#last
    this.#servers.close()
  }

  /** Checks the index: for tests. */
  verify(): void {
    this.#pool.index.verify()
  }

  /** Runs an operation that `close` waits for. */
  async #run<T>(signal: AbortSignal, operation: () => Promise<T>): Promise<T> {
    if (!this.#isOpen) throw new CacheError('L2_UNAVAILABLE', 'the redis adapter is not open')
    if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it began')
    const running = operation()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Runs what makes room or removes, one after another. */
  #alone<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#last.then(operation)
    this.#last = result.catch(() => undefined)
    return result
  }

  #keysOf(batch: KeyBatch, space: SpaceEntry): string[] {
    return Array.from({ length: batch.count }, (_, key) => objectKey(this.#options.prefix, space.digest, batch, key))
  }

  #workOf(batch: KeyBatch, buffers: readonly Uint8Array[], outcomes: Uint8Array): ObjectBatch {
    const { shardBytes } = batch.space
    for (const buffer of buffers) assert(buffer.length === shardBytes, 'bytes of another length than the space')
    const space = this.#pool.open(batch.space)
    const format = this.#formats.of(space)
    outcomes.fill(OUTCOME_FAILED, 0, batch.count) // what an abort leaves undone
    const hashes = keyWords(batch.hashes)
    const keys = this.#keysOf(batch, space)
    return { batch, space, format, hashes, parents: keyWords(batch.parents), keys, outcomes, bytes: 0 }
  }

  /** Counts anew, and evicts what others stored too much. */
  async #recount(signal: AbortSignal): Promise<void> {
    await this.#pool.scan(signal)
    if (this.#pool.isOver) await this.#alone(() => this.#pool.trim(signal))
  }

  /** Notes what was used, and counts anew when it is time. */
  #finish({ batch, space, hashes, parents }: ObjectBatch): void {
    this.#pool.index.refresh(space.id, hashes, parents, batch.count)
    const { signal } = this.#closing
    // What fails here is tried again with the next batch.
    if (this.#pool.isScanDue) this.#recount(signal).catch(() => undefined)
    else if (this.#pool.isOver) this.#alone(() => this.#pool.trim(signal)).catch(() => undefined)
  }
}

/** @throws CacheError when there are commands and none was carried out: the first reason. */
function refuseWhenAllFailed(commands: readonly RedisCommand[]): void {
  if (commands.length === 0 || !commands.every(({ reply }) => reply instanceof Error)) return
  const error = commands[0]!.reply
  if (error instanceof CacheError) throw error
  throw new CacheError('L2_UNAVAILABLE', `the Redis server refused: ${(error as ServerError).message}`)
}
