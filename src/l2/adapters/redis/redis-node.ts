import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import type { RedisAddress } from './options.ts'
import type { RedisCommand } from './redis-command.ts'
import { type ConnectionParts, RedisConnection } from './redis-connection.ts'

const BACKOFF_FIRST_MS = 100
const BACKOFF_MAX_MS = 5_000

/** Which connections a batch takes: questions never wait behind objects. */
export type Lane = 'questions' | 'objects'

export interface NodeParts extends ConnectionParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
  /** For objects; one more is for questions. */
  readonly connections: number
}

/** A place for one connection: open, being opened, or not to be tried before a time. */
interface Seat {
  connection: RedisConnection | undefined
  opening: Promise<RedisConnection> | undefined
}

/**
 * The connections to one server. They are opened when they are needed. After a failure the server is left alone for a
 * while, twice as long each time, and everything is refused at once meanwhile.
 */
export class RedisNode {
  readonly address: RedisAddress
  readonly #parts: NodeParts
  readonly #questions: Seat = { connection: undefined, opening: undefined }
  readonly #objects: readonly Seat[]
  #failures = 0
  #retryAtMs = 0
  #lastError: unknown
  #isClosed = false

  constructor(address: RedisAddress, parts: NodeParts) {
    this.address = address
    this.#parts = parts
    this.#objects = Array.from({ length: parts.connections }, () => ({ connection: undefined, opening: undefined }))
  }

  /** Resolves when every command has its reply. Never rejects. */
  async run(lane: Lane, commands: readonly RedisCommand[], signal: AbortSignal | undefined): Promise<void> {
    let connection: RedisConnection
    try {
      const opening = this.#connection(lane === 'questions' ? this.#questions : this.#leastLoaded())
      connection = signal === undefined ? await opening : await untilAbort(opening, signal)
    } catch (error) {
      const reply = error instanceof CacheError ? error : new CacheError('L2_UNAVAILABLE', String(error), {}, error)
      for (const one of commands) {
        one.reply = reply
        one.onReply?.(reply)
      }
      return
    }
    await connection.run(commands, signal)
  }

  close(): void {
    this.#isClosed = true
    for (const seat of [this.#questions, ...this.#objects]) seat.connection?.destroy('the adapter is closed')
  }

  #leastLoaded(): Seat {
    let best = this.#objects[0]!
    for (const seat of this.#objects) if ((seat.connection?.load ?? 0) < (best.connection?.load ?? 0)) best = seat
    return best
  }

  async #connection(seat: Seat): Promise<RedisConnection> {
    if (seat.connection !== undefined && !seat.connection.isLost) return seat.connection
    if (seat.opening === undefined) {
      if (this.#parts.clock.nowMs() < this.#retryAtMs) throw this.#lastError
      seat.opening = this.#open(seat).finally(() => {
        seat.opening = undefined
      })
    }
    return await seat.opening
  }

  async #open(seat: Seat): Promise<RedisConnection> {
    try {
      const connection = await RedisConnection.open(this.address, this.#parts)
      if (this.#isClosed) connection.destroy('the adapter is closed')
      seat.connection = connection
      this.#failures = 0
      return connection
    } catch (error) {
      const waitMs = Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** this.#failures)
      this.#failures += 1
      this.#retryAtMs = this.#parts.clock.nowMs() + waitMs * (1 - this.#parts.random() / 2)
      this.#lastError = error
      throw error
    }
  }
}

/** Rejects with L2_TIMEOUT at an abort; what comes later is passed over. */
export async function untilAbort<T>(pending: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(new CacheError('L2_TIMEOUT', 'the batch was given up before the server answered'))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([pending, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
    pending.catch(() => undefined)
  }
}
