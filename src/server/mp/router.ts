import { lookup } from 'node:dns/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Clock } from '../../core/clock.ts'
import type { ZmtpFault } from '../../protocol/zmtp/connection.ts'
import { encodeMessage } from '../../protocol/zmtp/frames.ts'
import { HeldMemory } from '../../protocol/zmtp/held-memory.ts'
import { bindError } from '../bind-error.ts'
import { RouterPeer } from './router-peer.ts'

/** One message at most: 4 million tokens, packed. A peer that sends more is disconnected. */
const ZMTP = {
  socketType: 'ROUTER',
  peerTypes: ['DEALER', 'REQ', 'ROUTER'],
  messageBytesMax: 20 * 1024 * 1024,
  framesMax: 4096,
  isWelcoming: true,
}
/** Of messages that came in part, of all peers. */
const HELD_BYTES_MAX = 256 * 1024 * 1024
/** A connection whose handshake takes longer is closed. */
const HANDSHAKE_MS = 30_000
/** Of hosts that are gone without a word. */
const KEEP_ALIVE_MS = 60_000

/** Why a connection was closed: see `ZmtpFault`; its identity is another's; there are too many. */
export type Refusal = ZmtpFault | 'taken' | 'too_many'

export interface RouterParts {
  readonly clock: Clock
  /** Connections at most. */
  readonly connectionsMax: number
  /** Told each message. The frames are right until this returns. @param peer its identity, a character a byte. */
  readonly onMessage: (peer: string, frames: readonly Uint8Array[]) => void
  /** Told of an answer that a full peer did not get. */
  readonly onDropped: () => void
  /** Told of a connection that was closed for what the peer did. @param wasReady after its handshake. */
  readonly onRefused: (why: Refusal, wasReady: boolean) => void
  readonly onError: (error: unknown) => void
}

/**
 * The socket of the MP wire: a ROUTER of ZMTP 3. Each peer has an identity, its own or one that it is given, and answers
 * go to the peer of an identity, in the order they were given; without such a peer they are lost. A peer that does not
 * take its answers loses them once its queue is full; the others do not wait for it. An identity that is taken stays
 * with whoever has it: a second connection is closed, and libzmq connects again until the first one is gone.
 */
export class MpRouter {
  readonly #parts: RouterParts
  readonly #server = createServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS })
  readonly #memory = new HeldMemory(HELD_BYTES_MAX)
  /** Every connection; those that are ready also by their identity. */
  readonly #connections = new Set<RouterPeer>()
  readonly #peers = new Map<string, RouterPeer>()
  #given = 0

  constructor(parts: RouterParts) {
    this.#parts = parts
    this.#server.maxConnections = parts.connectionsMax
    this.#server.on('connection', (socket) => this.#accept(socket))
    this.#server.on('drop', () => parts.onRefused('too_many', false))
  }

  /** Starts to listen. @param port 0 = a free one. @returns host:port. @throws CacheError PORT_TAKEN, CONFIG_INVALID */
  async listen(host: string, port: number): Promise<string> {
    const server = this.#server
    try {
      const { address } = await lookup(host)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      server.once('error', reject)
      server.listen(port, address, resolve)
      await promise
      server.off('error', reject)
    } catch (error) {
      throw bindError('mp', host, port, error)
    }
    server.on('error', this.#parts.onError)
    const { port: used } = server.address() as AddressInfo
    return host.includes(':') ? `[${host}]:${used}` : `${host}:${used}`
  }

  /** Gives a message for a peer away. The caller leaves the frames alone from then on. */
  send(peer: string, frames: readonly Uint8Array[]): void {
    if (this.#peers.get(peer)?.outbox.send(encodeMessage(frames)) === false) this.#parts.onDropped()
  }

  /** Closes connections that never get through their handshake, or are silent for longer than they said. */
  sweep(): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const peer of this.#connections) {
      const silentMs = nowMs - peer.heardMs
      if (peer.isReady ? peer.ttlMs > 0 && silentMs > peer.ttlMs : silentMs > HANDSHAKE_MS) peer.destroy()
    }
  }

  /** Idempotent. What waits for peers is lost. */
  close(): void {
    this.#server.close()
    for (const peer of this.#connections) peer.destroy()
  }

  #accept(socket: Socket): void {
    const { clock } = this.#parts
    const peer = new RouterPeer(
      socket,
      ZMTP,
      this.#memory,
      {
        ready: (one) => this.#name(one),
        message: ({ key }, frames) => this.#deliver(key, frames),
        refused: (one, why) => this.#parts.onRefused(why, one.key !== ''),
        closed: (one) => this.#remove(one),
      },
      clock.nowMs(),
    )
    this.#connections.add(peer)
    socket.on('data', (chunk) => peer.read(chunk, clock.nowMs()))
  }

  #deliver(peer: string, frames: readonly Uint8Array[]): void {
    try {
      this.#parts.onMessage(peer, frames)
    } catch (error) {
      this.#parts.onError(error)
    }
  }

  /** Lets a peer have its identity, or one that nobody has: a zero and a number, as libzmq does. */
  #name(peer: RouterPeer): 'taken' | null {
    const said = peer.saidIdentity
    const { buffer, byteOffset, byteLength } = said.length > 0 ? said : this.#newIdentity()
    const key = Buffer.from(buffer, byteOffset, byteLength).toString('latin1')
    if (this.#peers.has(key)) return 'taken'
    peer.key = key
    this.#peers.set(key, peer)
    return null
  }

  #newIdentity(): Uint8Array {
    this.#given += 1
    const identity = new Uint8Array(5)
    new DataView(identity.buffer).setUint32(1, this.#given)
    return identity
  }

  #remove(peer: RouterPeer): void {
    this.#connections.delete(peer)
    if (this.#peers.get(peer.key) === peer) this.#peers.delete(peer.key)
  }
}
