import { assert } from '../../../core/assert.ts'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import {
  type AdapterUsage,
  type KeyBatch,
  type L2Adapter,
  type ObjectPage,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_FULL,
  OUTCOME_NOT_FOUND,
  OUTCOME_OK,
} from '../../adapter.ts'
import { followsNeighbour, type KeyWords, keyWords } from '../../key-words.ts'
import { HEADER_BYTES, RecordFormat } from '../../object-format.ts'
import { objectPage } from '../../object-pages.ts'
import type { SpaceEntry } from '../../space-table.ts'
import { getObject, setObject } from './object-commands.ts'
import { objectKey, quarantineKey } from './object-keys.ts'
import type { RedisAdapterOptions } from './options.ts'
import { command, type RedisCommand, type Reply, ServerError } from './redis-command.ts'
import { RedisPool } from './redis-pool.ts'
import { RedisServers } from './redis-servers.ts'

export interface RedisParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
}

/** One store or load batch under way. */
interface Work {
  readonly batch: KeyBatch
  readonly space: SpaceEntry
  readonly format: RecordFormat
  readonly hashes: KeyWords
  readonly parents: KeyWords
  /** Names of the objects. */
  readonly keys: readonly string[]
  readonly outcomes: Uint8Array
  bytes: number
}

/** One object being written. */
interface Write {
  readonly key: number
  readonly node: number
  /** How it ends: an OUTCOME_*. */
  readonly ended: Promise<number>
  end(outcome: number): void
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
  readonly #formats = new Map<number, RecordFormat>()
  /** By pending node. */
  readonly #writing = new Map<number, Write>()
  readonly #running = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()
  #last: Promise<unknown> = Promise.resolve()
  #isOpen = false
  #checksumFailures = 0

  /** @throws CacheError CONFIG_INVALID, L2_UNAVAILABLE for a file that cannot be read */
  constructor(options: RedisAdapterOptions, parts: RedisParts) {
    this.#options = options
    this.#servers = new RedisServers(options, parts)
    this.#pool = new RedisPool(options, this.#servers, parts.clock)
  }

  /** @throws CacheError L2_UNAVAILABLE */
  async open(): Promise<void> {
    try {
      await this.#servers.open()
      await this.#pool.scan(this.#closing.signal, true)
      const victims: number[] = []
      this.#pool.chooseVictims(victims)
      await this.#pool.delete(victims, this.#closing.signal, true)
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
        if (reply === 0) this.#forgetIfHeld(space, hashes, key)
      }
      refuseWhenAllFailed(commands)
    })
  }

  store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, sources, outcomes)
      const doubts = await this.#confirmHeld(work, signal)
      const others = new Map<number, Promise<number>>()
      const begun = await this.#alone(() => this.#begin(work, doubts, others, signal))
      const commands = begun.map(({ key }) => setObject(work.keys[key]!, work.format, batch, key, sources[key]!))
      await this.#servers.run('objects', commands, signal)
      for (const [at, write] of begun.entries()) this.#endWrite(work, write, commands[at]!.reply!)
      for (const [key, ended] of others) outcomes[key] = await ended
      this.#pool.index.refresh(work.space.id, work.hashes, work.parents, batch.count)
      this.#scanWhenDue()
      if (outcomes.subarray(0, batch.count).every((outcome) => outcome === OUTCOME_FAILED)) {
        refuseWhenAllFailed([...doubts, ...commands])
      }
      return work.bytes
    })
  }

  load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, targets, outcomes)
      const commands = await this.#read(work, 0, targets, signal)
      this.#pool.index.refresh(work.space.id, work.hashes, work.parents, batch.count)
      this.#scanWhenDue()
      refuseWhenAllFailed(commands)
      return work.bytes
    })
  }

  /** As `load`, into memory of our own: as many objects at a time as one connection has in flight. */
  scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, [], outcomes)
      const { shardBytes } = batch.space
      const step = Math.min(batch.count, Math.max(1, Math.floor(this.#options.pipelineBytes / shardBytes)))
      const targets = Array.from({ length: step }, () => new Uint8Array(shardBytes))
      const commands: RedisCommand[] = []
      for (let from = 0; from < batch.count && !signal.aborted; from += step) {
        commands.push(...(await this.#read(work, from, targets.slice(0, batch.count - from), signal)))
      }
      refuseWhenAllFailed(commands)
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
          if (typeof removed.get(key) === 'number') this.#forgetIfHeld(space, hashes, at)
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
        const ids = new Set(spaces.matching(filter).map(({ id }) => id))
        const nodes = index.held().filter((node) => ids.has(index.spaceOf(node)))
        const removed = await this.#pool.delete(nodes, signal)
        const left = nodes.filter((node) => index.isHeld(node)).length
        if (left > 0) throw new CacheError('L2_UNAVAILABLE', `${left} objects could not be removed from Redis`)
        return removed
      }),
    )
  }

  list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    return this.#run(signal, async () => {
      if (cursor === '') await this.#pool.scan(signal)
      return objectPage(this.#pool.index, this.#pool.spaces, cursor, countMax)
    })
  }

  usage(): AdapterUsage {
    return {
      bytes: this.#pool.index.heldBytes,
      objects: this.#pool.index.objects,
      capacityBytes: this.#options.capacityBytes,
      evictedObjects: this.#pool.evictedObjects,
      checksumFailures: this.#checksumFailures,
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

  #workOf(batch: KeyBatch, buffers: readonly Uint8Array[], outcomes: Uint8Array): Work {
    const { shardBytes } = batch.space
    for (const buffer of buffers) assert(buffer.length === shardBytes, 'bytes of another length than the space')
    const space = this.#pool.open(batch.space)
    let format = this.#formats.get(space.id)
    if (format === undefined) {
      format = new RecordFormat(space.space)
      this.#formats.set(space.id, format)
    }
    outcomes.fill(OUTCOME_FAILED, 0, batch.count) // what an abort leaves undone
    const hashes = keyWords(batch.hashes)
    const keys = this.#keysOf(batch, space)
    return { batch, space, format, hashes, parents: keyWords(batch.parents), keys, outcomes, bytes: 0 }
  }

  #forgetIfHeld(space: SpaceEntry, hashes: KeyWords, key: number): void {
    const node = this.#pool.index.find(space.id, hashes, key)
    if (this.#pool.index.isHeld(node)) this.#pool.forget(node)
  }

  /** Asks whether what the index holds is still there: the server evicts too. @returns the questions, answered. */
  async #confirmHeld({ batch, space, hashes, keys, outcomes }: Work, signal: AbortSignal): Promise<RedisCommand[]> {
    const { index } = this.#pool
    const held: number[] = []
    for (let key = 0; key < batch.count; key += 1) {
      if (index.isHeld(index.find(space.id, hashes, key))) held.push(key)
    }
    const commands = held.map((key) => command(keys[key]!, 'EXISTS', keys[key]!))
    await this.#servers.run('questions', commands, signal)
    for (const [at, { reply }] of commands.entries()) {
      if (reply === 1) outcomes[held[at]!] = OUTCOME_OK
      if (reply === 0) this.#forgetIfHeld(space, hashes, held[at]!)
    }
    return commands
  }

  /**
   * Begins every object that is not there, with room made for all of them.
   * @param others out: keys that are being written already, and how that ends.
   */
  async #begin(
    work: Work,
    doubts: readonly RedisCommand[],
    others: Map<number, Promise<number>>,
    signal: AbortSignal,
  ): Promise<Write[]> {
    const { index } = this.#pool
    const { batch, space, hashes, parents, outcomes } = work
    const unclear = new Set(doubts.filter(({ reply }) => typeof reply !== 'number').map(({ key }) => key))
    const begun: Write[] = []
    const victims: number[] = []
    for (let key = 0; key < batch.count; key += 1) {
      const known = index.find(space.id, hashes, key)
      const other = this.#writing.get(known)
      if (other !== undefined) others.set(key, other.ended)
      else if (index.isHeld(known)) outcomes[key] = unclear.has(work.keys[key]!) ? OUTCOME_FAILED : OUTCOME_OK
      else if (followsNeighbour(hashes, parents, key) && outcomes[key - 1] === OUTCOME_FULL) {
        outcomes[key] = OUTCOME_FULL // a child is worth nothing without its parent
      } else {
        const node = index.begin(space.id, hashes, parents, key, HEADER_BYTES + batch.space.shardBytes)
        if (this.#pool.chooseVictims(victims)) begun.push(this.#writeOf(key, node))
        else {
          index.cancel(node)
          outcomes[key] = OUTCOME_FULL
        }
      }
    }
    await this.#pool.delete(victims, signal, true)
    if (this.#pool.hasRoom) return begun
    for (const write of begun) this.#endWrite(work, write, new CacheError('L2_UNAVAILABLE', 'eviction failed'))
    return []
  }

  #writeOf(key: number, node: number): Write {
    const { promise, resolve } = Promise.withResolvers<number>()
    const write = { key, node, ended: promise, end: resolve }
    this.#writing.set(node, write)
    return write
  }

  #endWrite(work: Work, write: Write, reply: Reply): void {
    const { key, node } = write
    this.#writing.delete(node)
    const outcome = reply === 'OK' || reply === null ? OUTCOME_OK : isFull(reply) ? OUTCOME_FULL : OUTCOME_FAILED
    if (outcome === OUTCOME_OK) this.#pool.publish(node)
    else this.#pool.index.cancel(node)
    if (reply === 'OK') work.bytes += work.batch.space.shardBytes
    if (reply instanceof CacheError) this.#pool.distrust() // it may be there or not
    work.outcomes[key] = outcome
    write.end(outcome)
  }

  /** Reads objects from key `from` on into targets, verifies them, and puts corrupt ones aside. */
  async #read(work: Work, from: number, targets: readonly Uint8Array[], signal: AbortSignal): Promise<RedisCommand[]> {
    const commands = targets.map((target, at) => {
      const header = Buffer.allocUnsafe(HEADER_BYTES)
      return getObject(work.keys[from + at]!, header, target, (reply) => {
        work.outcomes[from + at] = this.#judge(work, from + at, header, target, reply)
      })
    })
    await this.#servers.run('objects', commands, signal)
    await this.#quarantine(work, from, targets.length, signal)
    return commands
  }

  /** The outcome of a GET, verified. */
  #judge(work: Work, key: number, header: Buffer, target: Uint8Array, reply: Reply): number {
    const { batch, space, hashes, parents, format } = work
    if (reply === null) {
      this.#forgetIfHeld(space, hashes, key)
      return OUTCOME_NOT_FOUND
    }
    if (typeof reply !== 'object' || reply instanceof Error) return OUTCOME_FAILED
    const isWhole = reply.bytes === header.length + target.length
    if (!isWhole || format.verify(batch, key, header, target) !== undefined) {
      this.#checksumFailures += 1
      return OUTCOME_CORRUPT
    }
    this.#pool.admit(space, hashes, parents, key)
    work.bytes += target.length
    return OUTCOME_OK
  }

  /** Puts corrupt records where nobody asks for them, for a while, or deletes them. */
  async #quarantine({ space, hashes, keys, outcomes }: Work, from: number, count: number, signal: AbortSignal) {
    const commands: RedisCommand[] = []
    for (let at = from; at < from + count; at += 1) {
      if (outcomes[at] !== OUTCOME_CORRUPT) continue
      const key = keys[at]!
      const { prefix, quarantineMs } = this.#options
      if (quarantineMs === 0) commands.push(command(key, 'UNLINK', key))
      else {
        const kept = quarantineKey(prefix, key)
        commands.push(command(key, 'RENAME', key, kept), command(kept, 'PEXPIRE', kept, String(quarantineMs)))
      }
      this.#forgetIfHeld(space, hashes, at)
    }
    await this.#servers.run('questions', commands, signal)
    if (commands.some(({ reply }) => reply instanceof CacheError)) this.#pool.distrust()
  }

  #scanWhenDue(): void {
    if (!this.#pool.isScanDue) return
    this.#pool.scan(this.#closing.signal).catch(() => undefined) // tried again with the next batch
  }
}

function isFull(reply: Reply): boolean {
  return reply instanceof ServerError && reply.word === 'OOM'
}

/** @throws CacheError when there are commands and none was carried out: the first reason. */
function refuseWhenAllFailed(commands: readonly RedisCommand[]): void {
  if (commands.length === 0 || !commands.every(({ reply }) => reply instanceof Error)) return
  const error = commands[0]!.reply
  if (error instanceof CacheError) throw error
  throw new CacheError('L2_UNAVAILABLE', `the Redis server refused: ${(error as ServerError).message}`)
}
