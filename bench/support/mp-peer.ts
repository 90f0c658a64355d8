import { Dealer } from 'zeromq'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { CURRENT_GENERATION, idOf, type KnownOp } from '../../src/protocol/mp/generations.ts'

const ANSWER_MS = 10_000

/** One client socket that sends frames as they are: what it costs beside the engine is the least that is possible. */
export class MpPeer {
  readonly #socket = new Dealer({ linger: 0 })
  readonly #waiting = new Map<number, (payload: Buffer | null) => void>()
  #tail: Promise<void> | null = null
  #uids = 0

  constructor(address: string) {
    this.#socket.connect(`tcp://${address}`)
    void this.#receive()
  }

  /** @param op the frame. @returns the payload, null when there is none. The frames stay as they are until then. */
  ask(op: Uint8Array, payload: readonly Uint8Array[]): Promise<Buffer | null> {
    this.#uids = (this.#uids + 1) >>> 0
    const uid = Buffer.allocUnsafe(5)
    uid[0] = 0xce
    uid.writeUInt32BE(this.#uids, 1)
    const answer = new Promise<Buffer | null>((resolve) => this.#waiting.set(this.#uids, resolve))
    const frames = [uid, op, ...payload]
    const sent = this.#tail === null ? this.#socket.send(frames) : this.#tail.then(() => this.#socket.send(frames))
    const tail: Promise<void> = sent.finally(() => {
      if (this.#tail === tail) this.#tail = null
    })
    this.#tail = tail
    return answer
  }

  close(): void {
    this.#socket.close()
  }

  async #receive(): Promise<void> {
    for await (const [uid, , payload] of this.#socket) {
      const id = uid!.readUInt32BE(1)
      const resolve = this.#waiting.get(id)
      this.#waiting.delete(id)
      resolve?.(payload ?? null)
    }
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
