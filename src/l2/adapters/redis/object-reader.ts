import { CacheError } from '../../../core/errors.ts'
import { OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../adapter.ts'
import { HEADER_BYTES } from '../../object-format.ts'
import type { ObjectBatch } from './object-batch.ts'
import { getObject } from './object-commands.ts'
import { quarantineKey } from './object-keys.ts'
import type { RedisAdapterOptions } from './options.ts'
import { command, type RedisCommand, type Reply } from './redis-command.ts'
import type { RedisPool } from './redis-pool.ts'
import type { RedisServers } from './redis-servers.ts'

/** Reads objects by GET straight into their targets, verifies them, and puts corrupt ones aside. */
export class ObjectReader {
  readonly #options: RedisAdapterOptions
  readonly #servers: RedisServers
  readonly #pool: RedisPool
  #checksumFailures = 0

  constructor(options: RedisAdapterOptions, servers: RedisServers, pool: RedisPool) {
    this.#options = options
    this.#servers = servers
    this.#pool = pool
  }

  get checksumFailures(): number {
    return this.#checksumFailures
  }

  /** Reads keys from `from` on, one for each target. Each is verified while the next is on its way. */
  async read(work: ObjectBatch, from: number, targets: readonly Uint8Array[], signal: AbortSignal) {
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

  /** As `read` into memory of our own: as many objects at a time as one connection has in flight. */
  async scrub(work: ObjectBatch, signal: AbortSignal): Promise<RedisCommand[]> {
    const { count, space } = work.batch
    const step = Math.min(count, Math.max(1, Math.floor(this.#options.pipelineBytes / space.shardBytes)))
    const targets = Array.from({ length: step }, () => new Uint8Array(space.shardBytes))
    const commands: RedisCommand[] = []
    for (let from = 0; from < count && !signal.aborted; from += step) {
      commands.push(...(await this.read(work, from, targets.slice(0, count - from), signal)))
    }
    return commands
  }

  /** The outcome of a GET, verified. */
  #judge(work: ObjectBatch, key: number, header: Buffer, target: Uint8Array, reply: Reply): number {
    const { batch, space, hashes, parents, format } = work
    if (reply === null) {
      this.#pool.forgetIfHeld(space, hashes, key)
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
  async #quarantine({ space, hashes, keys, outcomes }: ObjectBatch, from: number, count: number, signal: AbortSignal) {
    const { prefix, quarantineMs } = this.#options
    const commands: RedisCommand[] = []
    for (let at = from; at < from + count; at += 1) {
      if (outcomes[at] !== OUTCOME_CORRUPT) continue
      const key = keys[at]!
      const kept = quarantineKey(prefix, key)
      if (quarantineMs === 0) commands.push(command(key, 'UNLINK', key))
      else commands.push(command(key, 'RENAME', key, kept), command(kept, 'PEXPIRE', kept, String(quarantineMs)))
      this.#pool.forgetIfHeld(space, hashes, at)
    }
    await this.#servers.run('questions', commands, signal)
    if (commands.some(({ reply }) => reply instanceof CacheError)) this.#pool.distrust()
  }
}
