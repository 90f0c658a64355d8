import { CacheError } from '../../../core/errors.ts'
import { OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_FULL, OUTCOME_OK, outcomeOfOther } from '../../adapter.ts'
import { followsNeighbour } from '../../key-words.ts'
import { HEADER_BYTES } from '../../object-format.ts'
import { isOwnAncestor } from '../../own-ancestor.ts'
import type { ObjectBatch } from './object-batch.ts'
import { setObject } from './object-commands.ts'
import { BULK_BYTES_MAX, command, type RedisCommand, type Reply, ServerError } from './redis-command.ts'
import type { RedisPool } from './redis-pool.ts'
import type { RedisServers } from './redis-servers.ts'

/** One object being written. */
interface Write {
  readonly key: number
  readonly node: number
  /** How it ends: an OUTCOME_*. */
  readonly ended: Promise<number>
  end(outcome: number): void
}

/** Begun writes of a batch, and keys that somebody else is writing. */
interface Begun {
  readonly writes: readonly Write[]
  readonly others: ReadonlyMap<number, Promise<number>>
}

/** Stores batches: room first, then SET NX of what is not there. */
export class ObjectWriter {
  readonly #servers: RedisServers
  readonly #pool: RedisPool
  readonly #alone: <T>(operation: () => Promise<T>) => Promise<T>
  /** By pending node. */
  readonly #writing = new Map<number, Write>()

  /** @param alone runs what makes room or removes, one after another. */
  constructor(servers: RedisServers, pool: RedisPool, alone: <T>(operation: () => Promise<T>) => Promise<T>) {
    this.#servers = servers
    this.#pool = pool
    this.#alone = alone
  }

  /** Fills in the outcomes of a batch. @returns the commands, with their replies: why something failed. */
  async store(work: ObjectBatch, sources: readonly Uint8Array[], signal: AbortSignal): Promise<RedisCommand[]> {
    const { batch, keys, format, outcomes } = work
    if (HEADER_BYTES + batch.space.shardBytes > BULK_BYTES_MAX) {
      outcomes.fill(OUTCOME_FULL, 0, batch.count)
      return []
    }
    const questions = await this.#confirmHeld(work, signal)
    const { writes, others } = await this.#alone(() => this.#begin(work, questions, signal))
    const commands = writes.map(({ key }) => setObject(keys[key]!, format, batch, key, sources[key]!))
    await this.#servers.run('objects', commands, signal)
    for (const [at, write] of writes.entries()) this.#end(work, write, commands[at]!.reply!)
    for (const [key, ended] of others) outcomes[key] = outcomeOfOther(await ended)
    return [...questions, ...commands]
  }

  /** Asks whether what the index holds is still there: the server evicts too. */
  async #confirmHeld(work: ObjectBatch, signal: AbortSignal): Promise<RedisCommand[]> {
    const { index } = this.#pool
    const { batch, space, hashes, keys } = work
    const held: number[] = []
    for (let key = 0; key < batch.count; key += 1) {
      if (index.isHeld(index.find(space.id, hashes, key))) held.push(key)
    }
    const commands = held.map((key) => command(keys[key]!, 'EXISTS', keys[key]!))
    await this.#servers.run('questions', commands, signal)
    for (const [at, { reply }] of commands.entries()) {
      if (reply === 0) this.#pool.forgetIfHeld(space, hashes, held[at]!)
    }
    return commands
  }

  /** Begins every object that is not there, with room made for all of them. */
  async #begin(work: ObjectBatch, questions: readonly RedisCommand[], signal: AbortSignal): Promise<Begun> {
    if (signal.aborted) return { writes: [], others: new Map() } // while it waited: evict nothing for it
    const { index } = this.#pool
    const { batch, space, hashes, parents, outcomes } = work
    const unclear = new Set(questions.filter(({ reply }) => typeof reply !== 'number').map(({ key }) => key))
    const writes: Write[] = []
    const others = new Map<number, Promise<number>>()
    const victims: string[] = []
    for (let key = 0; key < batch.count; key += 1) {
      const known = index.find(space.id, hashes, key)
      const other = this.#writing.get(known)
      if (other !== undefined) others.set(key, other.ended)
      else if (index.isHeld(known)) outcomes[key] = unclear.has(work.keys[key]!) ? OUTCOME_FAILED : OUTCOME_OK
      else if (followsNeighbour(hashes, parents, key) && outcomes[key - 1] === OUTCOME_FULL) {
        outcomes[key] = OUTCOME_FULL // a child is worth nothing without its parent
      } else if (isOwnAncestor(index, space.id, hashes, parents, key)) outcomes[key] = OUTCOME_FULL
      else {
        const node = index.begin(space.id, hashes, parents, key, HEADER_BYTES + batch.space.shardBytes)
        if (this.#pool.makeRoom(space.id, victims)) writes.push(this.#writeOf(key, node))
        else {
          index.cancel(node)
          outcomes[key] = OUTCOME_FULL
        }
      }
    }
    const { failed } = await this.#pool.unlink(victims, signal)
    if (failed === 0) return { writes, others }
    // What was to go may still be there: there may be no room.
    for (const write of writes) this.#end(work, write, new CacheError('L2_UNAVAILABLE', 'eviction failed'))
    return { writes: [], others }
  }

  #writeOf(key: number, node: number): Write {
    const { promise, resolve } = Promise.withResolvers<number>()
    const write = { key, node, ended: promise, end: resolve }
    this.#writing.set(node, write)
    return write
  }

  #end(work: ObjectBatch, write: Write, reply: Reply): void {
    const { key, node } = write
    this.#writing.delete(node)
    const outcome = outcomeOf(reply)
    if (outcome === OUTCOME_OK) this.#pool.publish(node)
    else this.#pool.index.cancel(node)
    if (reply === 'OK') work.bytes += work.batch.space.shardBytes
    if (reply instanceof CacheError && outcome !== OUTCOME_CORRUPT) this.#pool.distrust() // it may be there or not
    work.outcomes[key] = outcome
    write.end(outcome)
  }
}

function outcomeOf(reply: Reply): number {
  if (reply === 'OK' || reply === null) return OUTCOME_OK
  if (reply instanceof ServerError && reply.word === 'OOM') return OUTCOME_FULL
  return reply instanceof CacheError && reply.code === 'L2_CORRUPT' ? OUTCOME_CORRUPT : OUTCOME_FAILED
}
