import { connect, type Socket } from 'node:net'
import { ZmtpConnection } from '../protocol/zmtp/connection.ts'
import { encodeMessage } from '../protocol/zmtp/frames.ts'
import { HeldMemory } from '../protocol/zmtp/held-memory.ts'
import { Outbox } from '../protocol/zmtp/outbox.ts'

const ZMTP = {
  socketType: 'DEALER',
  peerTypes: ['ROUTER', 'DEALER', 'REP'],
  messageBytesMax: 256 * 1024 * 1024,
  framesMax: 65_536,
  isWelcoming: false,
}
const HELD_BYTES_MAX = 512 * 1024 * 1024
/** Requests that wait for the connection at most. */
const REQUESTS = { messages: 65_536, bytes: 512 * 1024 * 1024 }
/** Between two attempts to connect, as libzmq does it. */
const RECONNECT_MS = 100

/**
 * A DEALER of ZMTP 3 with one peer: connects, and connects again when the connection is lost. What is sent meanwhile
 * waits; what was on its way is lost. Messages are told as they come, in order.
 */
export class Dealer {
  readonly #host: string
  readonly #port: number
  readonly #identity: Uint8Array
  readonly #onMessage: (frames: readonly Uint8Array[]) => void
  readonly #memory = new HeldMemory(HELD_BYTES_MAX)
  readonly #outbox = new Outbox(REQUESTS, null)
  #socket: Socket | null = null
  #retry: NodeJS.Timeout | null = null
  #isClosed = false

  /**
   * @param address host:port. Nobody has to listen there yet.
   * @param onMessage told each message; its frames are right until it returns.
   */
  constructor(
    address: string,
    onMessage: (frames: readonly Uint8Array[]) => void,
    identity: Uint8Array = new Uint8Array(0),
  ) {
    const at = address.lastIndexOf(':')
    this.#host = address.slice(0, at).replace(/^\[(.*)\]$/, '$1')
    this.#port = Number(address.slice(at + 1))
    this.#identity = identity
    this.#onMessage = onMessage
    this.#connect()
  }

  /** @param frames left alone until they are sent. @returns false when too many wait: it is lost. */
  send(frames: readonly Uint8Array[]): boolean {
    return this.#outbox.send(encodeMessage(frames))
  }

  /** Idempotent. What waits is lost. */
  close(): void {
    this.#isClosed = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    this.#socket?.destroy()
  }

  #connect(): void {
    const connection = new ZmtpConnection(ZMTP, this.#memory, this.#identity)
    const socket = connect({ host: this.#host, port: this.#port, noDelay: true })
    this.#socket = socket
    socket.on('error', () => {}) // `close` follows
    socket.on('close', () => {
      connection.close()
      this.#outbox.attach(null)
      // It keeps the process alive, as a connection does: somebody waits for an answer.
      if (!this.#isClosed) this.#retry = setTimeout(() => this.#connect(), RECONNECT_MS)
    })
    socket.on('drain', () => this.#outbox.flush())
    socket.on('data', (chunk) => {
      connection.push(chunk)
      this.#read(connection, socket)
    })
    write(connection, socket)
  }

  #read(connection: ZmtpConnection, socket: Socket): void {
    for (;;) {
      const event = connection.next()
      write(connection, socket)
      if (event === 'none') return
      if (event === 'broken') {
        socket.destroySoon()
        return
      }
      if (event === 'ready') this.#outbox.attach(socket)
      else if (!this.#isClosed) this.#onMessage(connection.frames)
    }
  }
}

/** What the protocol has to say. */
function write(connection: ZmtpConnection, socket: Socket): void {
  for (const bytes of connection.takeOutput()) socket.write(bytes)
}
