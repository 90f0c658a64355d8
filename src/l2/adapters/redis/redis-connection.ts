import { connect as dial, type Socket } from 'node:net'
import { connect as dialTls } from 'node:tls'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import type { RedisAddress } from './options.ts'
import { command, type RedisCommand, type Reply } from './redis-command.ts'
import { ReplyReader } from './reply-reader.ts'

/** What every connection to a server is made with. */
export interface ConnectionParts {
  readonly clock: Clock
  readonly connectTimeoutMs: number
  /** Bytes sent or asked for and not yet answered, at most; one command always passes. */
  readonly windowBytes: number
  readonly database: number
  /** Certificates, or null without TLS. Asked for at every connect. @throws CacheError */
  readonly tls: () => { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | null
  /** Asked for at every connect. An empty password = no authentication. @throws CacheError */
  readonly credentials: () => { readonly username: string; readonly password: string }
}

interface Sent {
  readonly command: RedisCommand
  /** The last byte was handed to the system. */
  isFlushed: boolean
}

/**
 * One connection to a Redis server: commands in, answers out, in order. A new connection replaces one that was lost.
 *
 *   run -> waiting --(window has room)--> sent --(answer)--> reply
 *            |                             |
 *            +---------- abort ------------+--> L2_TIMEOUT. The connection is destroyed where the socket may still
 *            |                             |    read into a place, or write from a part; or is silent
 *            +------- lost, destroyed -----+--> L2_UNAVAILABLE
 *
 * Once a command has its reply, neither its parts nor its places are touched: a destroyed socket reads and writes no more.
 */
export class RedisConnection {
  readonly #parts: ConnectionParts
  readonly #socket: Socket
  readonly #where: string
  readonly #reader: ReplyReader
  #waiting: RedisCommand[] = []
  readonly #sent: Sent[] = []
  #windowBytes = 0
  #lost: CacheError | undefined
  /** Counts reads, to tell a silent server. */
  #reads = 0

  private constructor(address: RedisAddress, parts: ConnectionParts) {
    this.#parts = parts
    this.#where = `${address.host}:${address.port}`
    this.#reader = new ReplyReader(
      () => this.#head(),
      (answered, reply) => this.#answer(answered, reply),
    )
    const onread = {
      buffer: () => this.#reader.buffer() as Buffer,
      callback: (count: number) => this.#take(count),
    }
    const tls = parts.tls()
    // `onread` has no place in the types of `tls.connect`, which hands it on to its socket all the same.
    const options = { ...address, noDelay: true, keepAlive: true, onread }
    this.#socket =
      tls === null ? dial(options) : dialTls({ ...options, ...tls, servername: serverName(address.host) } as object)
    this.#socket.on('error', (error) => this.destroy(error.message))
    this.#socket.on('close', () => this.destroy('the server closed the connection'))
  }

  /** A connection that is logged in and answers. @throws CacheError L2_UNAVAILABLE */
  static async open(address: RedisAddress, parts: ConnectionParts): Promise<RedisConnection> {
    const { username, password } = parts.credentials()
    const connection = new RedisConnection(address, parts)
    const timer = parts.clock.schedule(parts.connectTimeoutMs, () => connection.destroy('it did not answer in time'))
    const greetings = [
      ...(password === ''
        ? []
        : [username === '' ? command('', 'AUTH', password) : command('', 'AUTH', username, password)]),
      ...(parts.database === 0 ? [] : [command('', 'SELECT', String(parts.database))]),
      command('', 'PING'),
    ]
    await connection.run(greetings, undefined)
    timer.cancel()
    for (const { reply } of greetings) {
      // A server that wants a password says so to PING as well: the first complaint is the best.
      if (!(reply instanceof Error)) continue
      if (reply instanceof CacheError) throw reply
      connection.destroy(reply.message)
      throw unavailable(connection.#where, reply.message)
    }
    return connection
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  /** Bytes sent or asked for and not yet answered, or waiting to be. */
  get load(): number {
    return this.#windowBytes + this.#waiting.length
  }

  /** Resolves when every command has its reply. Never rejects: see `reply`. */
  run(commands: readonly RedisCommand[], signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) {
      for (const one of commands) end(one, gaveUp())
      return Promise.resolve()
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    let left = commands.length
    const counted = commands.map((one): RedisCommand => {
      const onReply = (reply: Reply) => {
        one.reply = reply
        one.onReply?.(reply)
        left -= 1
        if (left === 0) resolve()
      }
      return { key: one.key, parts: one.parts, bytes: one.bytes, places: one.places, onReply, reply: undefined }
    })
    if (left === 0) resolve()
    const reads = this.#reads
    const onAbort = () => this.#giveUp(new Set(counted), reads)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (this.#lost !== undefined) for (const one of counted) end(one, this.#lost)
    else {
      this.#waiting.push(...counted)
      this.#pump()
    }
    return promise.finally(() => signal?.removeEventListener('abort', onAbort))
  }

  /** Ends the connection and every command on it. */
  destroy(reason: string): void {
    if (this.#lost !== undefined) return
    this.#lost = unavailable(this.#where, reason)
    this.#socket.destroy()
    const unanswered = [...this.#sent.splice(0).map((sent) => sent.command), ...this.#waiting.splice(0)]
    for (const one of unanswered) end(one, this.#lost)
  }

  /** Sends what the window has room for: questions in one go, each object at once, while the next is being summed. */
  #pump(): void {
    if (this.#waiting.length === 0 || !this.#hasRoom(this.#waiting[0]!)) return
    this.#socket.cork()
    let count = 0
    for (const one of this.#waiting) {
      if (!this.#hasRoom(one)) break
      count += 1
      this.#windowBytes += one.bytes
      this.#write(one)
    }
    this.#waiting.splice(0, count)
    this.#socket.uncork()
  }

  #write(one: RedisCommand): void {
    const parts = one.parts()
    if (parts instanceof CacheError) {
      this.#windowBytes -= one.bytes
      end(one, parts)
      return
    }
    const sent = { command: one, isFlushed: false }
    this.#sent.push(sent)
    for (let at = 0; at < parts.length - 1; at += 1) this.#socket.write(parts[at]!)
    this.#socket.write(parts.at(-1)!, () => {
      sent.isFlushed = true
    })
    if (parts.length === 1) return
    this.#socket.uncork()
    this.#socket.cork()
  }

  #hasRoom({ bytes }: RedisCommand): boolean {
    return this.#windowBytes === 0 || this.#windowBytes + bytes <= this.#parts.windowBytes
  }

  #take(count: number): boolean {
    if (this.#lost !== undefined) return false
    this.#reads += 1
    try {
      this.#reader.take(count)
    } catch (error) {
      this.destroy(error instanceof Error ? error.message : String(error))
      return false
    }
    this.#pump()
    return this.#lost === undefined
  }

  #head(): RedisCommand {
    const first = this.#sent[0]
    if (first === undefined) throw new Error('the server answered a question that was not asked')
    return first.command
  }

  #answer(answered: RedisCommand, reply: Reply): void {
    this.#sent.shift()
    this.#windowBytes -= answered.bytes
    end(answered, reply)
  }

  /** Ends commands that nobody waits for any more. @param reads of the connection when they were handed in. */
  #giveUp(commands: ReadonlySet<RedisCommand>, reads: number): void {
    if (this.#lost !== undefined) return
    this.#waiting = this.#waiting.filter((one) => !commands.has(one))
    const sent = this.#sent.filter(({ command: one }) => commands.has(one) && one.reply === undefined)
    const isTouched = sent.some(({ command: one, isFlushed }) => !isFlushed || this.#reader.isFilling(one))
    const isSilent = sent.length > 0 && this.#reads === reads
    for (const one of commands) end(one, gaveUp())
    // Commands of others on this connection are lost with it, and tried again by their owners.
    if (isTouched || isSilent) this.destroy('it did not answer in time')
  }
}

function end(one: RedisCommand, reply: Reply): void {
  if (one.reply !== undefined) return
  one.reply = reply
  one.onReply?.(reply)
}

function gaveUp(): CacheError {
  return new CacheError('L2_TIMEOUT', 'the batch was given up before the server answered')
}

function unavailable(where: string, reason: string): CacheError {
  return new CacheError('L2_UNAVAILABLE', `the Redis server ${where} cannot be used: ${reason}`)
}

/** An address has no name that a certificate could be checked against by. */
function serverName(host: string): string | undefined {
  return /^[\d.]+$|:/.test(host) ? undefined : host
}
