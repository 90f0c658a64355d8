import type { Socket } from 'node:net'
import { ZmtpConnection, type ZmtpFault, type ZmtpOptions } from '../../protocol/zmtp/connection.ts'
import { free, type HeldMemory } from '../../protocol/zmtp/held-memory.ts'
import { Outbox } from '../../protocol/zmtp/outbox.ts'

/** Answers of one peer that wait at most: of a peer that does not take its answers, further ones are lost. */
const ANSWERS = { messages: 1024, bytes: 16 * 1024 * 1024 }
/** Messages of one peer in a row, before others get their turn. */
const MESSAGES_A_TURN = 64
/** Chunks of the socket from this length on are freed at once: a prompt of 32k tokens takes 165 KB. */
const FREED_BYTES_MIN = 16 * 1024

/** What a connection tells whoever has it. */
export interface PeerEvents {
  /** The handshake is over. @returns why the peer is not wanted; null = it is. */
  ready(peer: RouterPeer): 'taken' | null
  message(peer: RouterPeer, frames: readonly Uint8Array[]): void
  /** It is of no use, and being closed. */
  refused(peer: RouterPeer, why: ZmtpFault | 'taken'): void
  closed(peer: RouterPeer): void
}

/**
 * One connection of the router. Messages are handed on in place, as their bytes come; answers that are given meanwhile
 * leave together when several messages came at once, else each at once.
 */
export class RouterPeer {
  readonly outbox: Outbox
  readonly #socket: Socket
  readonly #connection: ZmtpConnection
  readonly #events: PeerEvents
  /** Its identity, a character a byte; set when it is ready. */
  key = ''
  /** When it was last heard of, or accepted. */
  heardMs: number
  #isRefused = false

  constructor(socket: Socket, options: ZmtpOptions, memory: HeldMemory, events: PeerEvents, nowMs: number) {
    this.#socket = socket
    this.#connection = new ZmtpConnection(options, memory)
    this.#events = events
    this.outbox = new Outbox(ANSWERS, socket)
    this.heardMs = nowMs
    socket.on('drain', () => this.outbox.flush())
    socket.on('error', () => {}) // a reset: `close` follows
    socket.on('close', () => {
      this.#connection.close()
      this.outbox.attach(null)
      events.closed(this)
    })
    this.#sendOutput()
  }

  get isReady(): boolean {
    return this.#connection.isReady
  }

  /** The identity that the peer says it has; empty = none. */
  get saidIdentity(): Uint8Array {
    return this.#connection.peer.identity
  }

  /** What the peer says is silence enough to take it for dead; 0 = nothing. */
  get ttlMs(): number {
    return this.#connection.ttlMs
  }

  /** Reads what came. The chunk is empty sooner or later after that. */
  read(chunk: Buffer, nowMs: number): void {
    this.heardMs = nowMs
    if (this.#isRefused) return
    this.#connection.push(chunk)
    this.#turn(chunk)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #turn(chunk: Buffer): void {
    for (let messages = 0; messages < MESSAGES_A_TURN; ) {
      const event = this.#connection.next()
      this.#sendOutput()
      if (event === 'none') {
        this.outbox.gather(false)
        if (chunk.length >= FREED_BYTES_MIN) free(chunk)
        return
      }
      if (event === 'broken') {
        this.#refuse(this.#connection.fault!)
        return
      }
      if (event === 'ready') {
        const why = this.#events.ready(this)
        if (why !== null) {
          this.#refuse(why)
          return
        }
        this.#connection.welcome()
        this.#sendOutput()
      } else {
        messages += 1
        this.outbox.gather(this.#connection.hasMore)
        this.#events.message(this, this.#connection.frames)
      }
    }
    this.outbox.gather(false)
    this.#socket.pause()
    setImmediate(() => {
      if (this.#socket.destroyed || this.#isRefused) return
      this.#turn(chunk)
      if (!this.#connection.hasMore) this.#socket.resume()
    })
  }

  /** Ends the connection, after what is to be said of it. */
  #refuse(why: ZmtpFault | 'taken'): void {
    this.#isRefused = true
    this.outbox.gather(false)
    this.#events.refused(this, why)
    this.#socket.destroySoon()
  }

  #sendOutput(): void {
    for (const bytes of this.#connection.takeOutput()) this.outbox.send([bytes])
  }
}
