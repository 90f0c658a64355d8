import { once } from 'node:events'
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Bytes on their way in one direction at most; then the sender is no longer read. */
const QUEUE_BYTES = 8 * 1024 * 1024

/**
 * A TCP server of this process that passes everything on to another, until it is told to be a bad network.
 *
 *   client <--- toClient ---  proxy  <--- server
 *          --- toServer --->         --->
 *
 * What is set holds for connections that are open as well as for new ones.
 */
export class TcpProxy {
  /** Each byte arrives this much later, both ways; throughput is not bounded by it. */
  delayMs = 0
  /** Each way of each connection; 0 = no bound. */
  throttleBytesPerSecond = 0
  /** New connections are reset at once. */
  isRefusing = false
  /** Bytes passed on since the start. */
  readonly passed = { toClient: 0, toServer: 0 }
  readonly port: number
  /** Connections accepted since the start. */
  accepted = 0
  readonly #server: Server
  readonly #target: { readonly host: string; readonly port: number }
  readonly #links = new Set<Link>()
  #gate: PromiseWithResolvers<void> | undefined
  #cut: { readonly direction: Direction; left: number } | undefined

  private constructor(server: Server, target: { readonly host: string; readonly port: number }) {
    this.#server = server
    this.#target = target
    this.port = (server.address() as AddressInfo).port
    server.on('connection', (client) => this.#accept(client))
  }

  /** Listens on a free port of 127.0.0.1. */
  static async start(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new TcpProxy(server, target)
  }

  /** Connections open now. */
  get open(): number {
    return this.#links.size
  }

  /** Nothing passes any more, either way, and nobody is told. New connections are accepted and lead nowhere. */
  blackhole(): void {
    this.#gate ??= Promise.withResolvers<void>()
  }

  /** Ends a black hole: what was held back goes on. */
  heal(): void {
    this.#gate?.resolve()
    this.#gate = undefined
  }

  /** Resets every open connection now, on both sides. */
  cut(): void {
    for (const link of [...this.#links]) link.reset()
  }

  /** Resets one connection in mid-stream: the one that passes the byte number `bytes` from now in a direction. Once. */
  cutAfter(bytes: number, direction: Direction = 'toClient'): void {
    this.#cut = { direction, left: bytes }
  }

  /** Resets what is open and stops listening. */
  async close(): Promise<void> {
    this.heal()
    this.#server.close()
    this.cut()
    await once(this.#server, 'close')
  }

  #accept(client: Socket): void {
    this.accepted += 1
    if (this.isRefusing) {
      client.on('error', () => undefined).resetAndDestroy()
      return
    }
    const server = dial({ ...this.#target, allowHalfOpen: true, noDelay: true })
    const link = new Link(client, server, {
      delayMs: () => this.delayMs,
      throttle: () => this.throttleBytesPerSecond,
      gate: () => this.#gate?.promise,
      admit: (direction, bytes) => this.#admit(direction, bytes),
    })
    this.#links.add(link)
    link.closed.then(() => this.#links.delete(link))
  }

  /** How many of the next `bytes` may pass, and whether the connection is reset after them. */
  #admit(direction: Direction, bytes: number): { bytes: number; isCut: boolean } {
    const cut = this.#cut?.direction === direction ? this.#cut : undefined
    const isCut = cut !== undefined && cut.left <= bytes
    const admitted = isCut ? cut.left : bytes
    if (isCut) this.#cut = undefined
    else if (cut !== undefined) cut.left -= bytes
    this.passed[direction] += admitted
    return { bytes: admitted, isCut }
  }
}

export type Direction = 'toClient' | 'toServer'

interface Weather {
  delayMs(): number
  throttle(): number
  gate(): Promise<void> | undefined
  admit(direction: Direction, bytes: number): { bytes: number; isCut: boolean }
}

/** One connection through the proxy. */
class Link {
  /** Resolves when both sockets are gone. */
  readonly closed: Promise<unknown>
  readonly #client: Socket
  readonly #server: Socket
  readonly #weather: Weather

  constructor(client: Socket, server: Socket, weather: Weather) {
    this.#client = client
    this.#server = server
    this.#weather = weather
    this.closed = Promise.all([gone(client), gone(server)])
    client.on('error', () => this.reset())
    server.on('error', () => this.reset())
    this.#pass(client, server, 'toServer')
    this.#pass(server, client, 'toClient')
  }

  reset(): void {
    if (!this.#client.destroyed) this.#client.resetAndDestroy()
    if (!this.#server.destroyed) this.#server.resetAndDestroy()
  }

  #pass(from: Socket, to: Socket, direction: Direction): void {
    const queue: { piece: Buffer; dueMs: number }[] = []
    let queued = 0
    let wake: (() => void) | undefined
    let hasEnded = false
    from.on('data', (piece: Buffer) => {
      queue.push({ piece, dueMs: performance.now() + this.#weather.delayMs() })
      queued += piece.length
      if (queued > QUEUE_BYTES) from.pause()
      wake?.()
    })
    from.on('end', () => {
      hasEnded = true
      wake?.()
    })
    from.on('close', () => wake?.())
    const pump = async (): Promise<void> => {
      while (!to.destroyed) {
        const next = queue.shift()
        if (next !== undefined) {
          await this.#deliver(next.piece, next.dueMs, to, direction)
          queued -= next.piece.length
          if (queued <= QUEUE_BYTES) from.resume()
        } else if (hasEnded || from.destroyed) break
        else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
      if (hasEnded) to.end()
    }
    void pump()
  }

  async #deliver(piece: Buffer, dueMs: number, to: Socket, direction: Direction): Promise<void> {
    const waitMs = dueMs - performance.now()
    if (waitMs > 0) await pause(waitMs)
    await this.#weather.gate()
    const rate = this.#weather.throttle()
    if (rate > 0) await pause((1000 * piece.length) / rate)
    if (to.destroyed) return
    const { bytes, isCut } = this.#weather.admit(direction, piece.length)
    await new Promise<void>((resolve) => to.write(piece.subarray(0, bytes), () => resolve()))
    if (isCut) this.reset()
  }
}

function gone(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve()
    else socket.once('close', () => resolve())
  })
}
