import type { Socket } from 'node:net'

const BUFFER_BYTES = 64 * 1024
/** Buffers kept for the next reads. */
const FREE_MAX = 64

/**
 * Memory that sockets read into, used again. Node makes a buffer of 64 KiB for each read, and each 64 MiB of those
 * cost a full garbage collection: a third of the time of a download.
 *
 *   socket --next--> reads --push--> parser --> sink --recycle--> next
 *
 * A buffer comes back only when a sink got all of one read as one piece: then no header lies in it that the parser may
 * still look at. Others go to the collector. One that is back is not read into before its turn of the event loop is
 * over, when the parser is done with it.
 */
export class ReadBuffers {
  readonly #free: Uint8Array[] = []
  /** Bytes of the last read of a buffer, by its memory. */
  readonly #filled = new WeakMap<ArrayBufferLike, number>()

  /** For the option `onread` of `net.connect`. */
  readonly onread: { buffer: () => Uint8Array; callback: (this: Socket, length: number, buffer: Uint8Array) => boolean }

  constructor() {
    const filled = this.#filled
    this.onread = {
      buffer: () => this.#free.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES),
      callback(length, buffer) {
        filled.set(buffer.buffer, length)
        return this.push(buffer.subarray(0, length))
      },
    }
  }

  /** Takes back the memory of a piece that nobody needs any more, if it is all of one read. */
  recycle(piece: Uint8Array): void {
    const isWhole = piece.byteOffset === 0 && this.#filled.get(piece.buffer) === piece.length
    if (!isWhole || this.#free.length >= FREE_MAX) return
    this.#filled.delete(piece.buffer)
    this.#free.push(Buffer.from(piece.buffer as ArrayBuffer))
  }
}
