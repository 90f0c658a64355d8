import { Dealer as LibzmqDealer } from 'zeromq'
import { Dealer } from '../../src/client/dealer.ts'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { CURRENT_GENERATION, idOf, type KnownOp } from '../../src/protocol/mp/generations.ts'

const ANSWER_MS = 10_000

/** A DEALER, of whoever made it. */
interface PeerSocket {
  send(frames: readonly Uint8Array[]): void
  close(): void
}
type OnMessage = (frames: readonly Uint8Array[]) => void

/** Frames by libzmq and its thread, as clients in Python send them. */
function libzmqSocket(address: string, onMessage: OnMessage): PeerSocket {
  const socket = new LibzmqDealer({ linger: 0 })
  socket.connect(`tcp://${address}`)
  const receive = async () => {
    for await (const frames of socket) onMessage(frames)
  }
  void receive()
  let tail: Promise<void> | null = null
  const send = (frames: readonly Uint8Array[]) => {
    const message = frames as Uint8Array[]
    const sent = tail === null ? socket.send(message) : tail.then(() => socket.send(message))
    const next: Promise<void> = sent.finally(() => {
      if (tail === next) tail = null
    })
    tail = next
  }
  return { send, close: () => socket.close() }
}

/**
 * One client socket that sends frames as they are: what it costs beside the engine is the least that is possible. Its
 * transport is ours, so that what is measured is the server; with the word `--libzmq` it is libzmq.
 */
export class MpPeer {
  readonly #socket: PeerSocket
  readonly #waiting = new Map<number, (payload: Buffer | null) => void>()
  #uids = 0

  constructor(address: string) {
    const onMessage: OnMessage = (frames) => this.#receive(frames)
    const isLibzmq = process.argv.includes('--libzmq')
    this.#socket = isLibzmq ? libzmqSocket(address, onMessage) : new Dealer(address, onMessage)
  }

  /** @param op the frame. @returns the payload, null when there is none. The frames stay as they are until then. */
  ask(op: Uint8Array, payload: readonly Uint8Array[]): Promise<Buffer | null> {
    this.#uids = (this.#uids + 1) >>> 0
    const uid = Buffer.allocUnsafe(5)
    uid[0] = 0xce
    uid.writeUInt32BE(this.#uids, 1)
    const answer = new Promise<Buffer | null>((resolve) => this.#waiting.set(this.#uids, resolve))
    this.#socket.send([uid, op, ...payload])
    return answer
  }

  close(): void {
    this.#socket.close()
  }

  #receive([uid, , payload]: readonly Uint8Array[]): void {
    const id = Buffer.from(uid!).readUInt32BE(1)
    const resolve = this.#waiting.get(id)
    this.#waiting.delete(id)
    resolve?.(payload === undefined ? null : Buffer.from(payload))
  }
}

/** Rejects when an answer is lost, so that a bench ends. */
export function withinTime<Value>(answer: Promise<Value>, what: string, ms = ANSWER_MS): Promise<Value> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`no end of ${what}`)), ms)
  return Promise.race([answer, late.promise]).finally(() => clearTimeout(timer))
}

/** The frame of an operation, numbered as today's clients do. */
export function opFrame(op: KnownOp): Uint8Array {
  return encodePayload.int(idOf(CURRENT_GENERATION, op)!)
}
