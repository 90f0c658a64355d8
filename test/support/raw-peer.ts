import { connect, type Socket } from 'node:net'
import { encodeMessage } from '../../src/protocol/zmtp/frames.ts'

/** A greeting of ZMTP 3.0 with the NULL mechanism. */
export const GREETING = Buffer.alloc(64)
Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]).copy(GREETING)
GREETING.write('NULL', 12)

/** The READY command of a DEALER without an identity. */
export const READY = Buffer.from(
  '\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00',
  'latin1',
)

/** Longest wait for the other side to take what was sent. */
const SEND_MS = 1_000

/**
 * A DEALER that waits for nothing: it sends its greeting, its READY and its messages at once, and does not connect again.
 * A deaf one never reads, so that answers pile up on the other side.
 */
export class RawPeer {
  readonly #socket: Socket

  constructor(address: string, isDeaf: boolean) {
    const at = address.lastIndexOf(':')
    this.#socket = connect(Number(address.slice(at + 1)), address.slice(0, at))
    this.#socket.on('error', () => {}) // `isOpen` says it
    if (!isDeaf) this.#socket.resume()
    this.#socket.write(Buffer.concat([GREETING, READY]))
  }

  get isOpen(): boolean {
    return this.#socket.writable
  }

  /** Resolves when there is room for another message; false = it was cut off, or nothing is taken from it any more. */
  async send(frames: readonly Uint8Array[]): Promise<boolean> {
    const socket = this.#socket
    if (!socket.writable) return false
    socket.cork()
    for (const piece of encodeMessage(frames)) socket.write(piece)
    socket.uncork()
    if (!socket.writableNeedDrain) return true
    return await new Promise<boolean>((resolve) => {
      const end = (isTaken: boolean) => {
        clearTimeout(timer)
        socket.off('drain', onDrain).off('close', onClose)
        resolve(isTaken)
      }
      const onDrain = () => end(true)
      const onClose = () => end(false)
      const timer = setTimeout(() => end(false), SEND_MS)
      socket.once('drain', onDrain).once('close', onClose)
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}
