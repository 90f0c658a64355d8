import { lookup } from 'node:dns/promises'
import { Router } from 'zeromq'
import { bindError } from '../bind-error.ts'

/** Bytes of one frame at most: 4 million tokens, packed. A peer that sends more is disconnected. */
const FRAME_BYTES_MAX = 20 * 1024 * 1024
/** Messages of one peer that wait at most on the way in: more stay with the peer. They may be as long as a frame may. */
const PEER_REQUESTS_MAX = 16
/** The same on the way out: of a peer that does not take its answers, further ones are lost. */
const PEER_ANSWERS_MAX = 1024
/** Answers that wait at most for the socket, of all peers. */
const OUTBOX_MAX = 65_536
/** Frames of the socket up to this long are copies in the heap. */
const COPIED_BYTES_MAX = 128

export interface RouterParts {
  /** Told each message: identity first. The frames of its payload are empty as soon as this returns. */
  readonly onMessage: (frames: readonly Uint8Array[]) => void
  /** Told of an answer that found the outbox full. */
  readonly onDropped: () => void
  readonly onError: (error: unknown) => void
}

/**
 * The socket of the MP wire: one loop receives, answers leave in the order they were given. A peer that does not take
 * its answers loses them once its queue is full; the others do not wait for it.
 */
export class MpRouter {
  readonly #socket = new Router({
    linger: 0,
    maxMessageSize: FRAME_BYTES_MAX,
    receiveHighWaterMark: PEER_REQUESTS_MAX,
    sendHighWaterMark: PEER_ANSWERS_MAX,
    ipv6: true,
  })
  readonly #parts: RouterParts
  #outbox: Uint8Array[][] = []
  #isSending = false

  constructor(parts: RouterParts) {
    this.#parts = parts
  }

  /** Starts to listen. @param port 0 = a free one. @returns host:port. @throws CacheError PORT_TAKEN, CONFIG_INVALID */
  async listen(host: string, port: number): Promise<string> {
    try {
      const { address, family } = await lookup(host)
      await this.#socket.bind(`tcp://${family === 6 ? `[${address}]` : address}:${port === 0 ? '*' : port}`)
    } catch (error) {
      throw bindError('mp', host, port, error)
    }
    void this.#receive()
    const used = this.#socket.lastEndpoint!.match(/:(\d+)$/)![1]
    return host.includes(':') ? `[${host}]:${used}` : `${host}:${used}`
  }

  /** Gives an answer away: identity, uid, op, and a payload or none. The caller leaves the frames alone from then on. */
  send(frames: Uint8Array[]): void {
    if (this.#outbox.length >= OUTBOX_MAX) {
      this.#parts.onDropped()
      return
    }
    this.#outbox.push(frames)
    if (!this.#isSending) void this.#drain()
  }

  /** Idempotent. What waits in the outbox is lost. */
  close(): void {
    this.#socket.close()
  }

  async #receive(): Promise<void> {
    try {
      for await (const frames of this.#socket) {
        try {
          this.#parts.onMessage(frames)
        } catch (error) {
          this.#parts.onError(error)
        }
        for (let index = 3; index < frames.length; index += 1) letGo(frames[index]!)
      }
    } catch (error) {
      if (!this.#socket.closed) this.#parts.onError(error)
    }
  }

  async #drain(): Promise<void> {
    this.#isSending = true
    try {
      while (this.#outbox.length > 0 && !this.#socket.closed) {
        const batch = this.#outbox
        this.#outbox = []
        for (const frames of batch) await this.#socket.send(frames)
      }
    } catch (error) {
      if (!this.#socket.closed) this.#parts.onError(error)
    } finally {
      this.#isSending = false
    }
  }
}

/**
 * Gives the socket its memory back at once. The collector does not see how much it is, and would run for it: a prompt
 * of 32k tokens takes 130 KB a message, and five times as long.
 */
function letGo({ buffer, length }: Buffer): void {
  const isItsOwn = length > COPIED_BYTES_MAX && buffer.byteLength === length
  if (isItsOwn && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
