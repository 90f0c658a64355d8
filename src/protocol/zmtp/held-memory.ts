/** Buffers up to this length are kept for the next message. */
const SPARE_BYTES_MAX = 1024 * 1024
const SPARES_MAX = 8
const LEAST_BYTES = 4096

/**
 * Memory for messages that have come in part, of all connections of one socket: bounded, and used again. A prompt of 32k
 * tokens does not come in one piece, so that every second message would leave 200 KB to the collector otherwise.
 */
export class HeldMemory {
  readonly #bytesMax: number
  readonly #spares: Buffer[] = []
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Bytes that are lent. */
  get bytes(): number {
    return this.#bytes
  }

  /** @returns a buffer of at least `bytes`; null when so much is not to be had. */
  take(bytes: number): Buffer | null {
    const spare = this.#spares.findIndex(({ length }) => length >= bytes)
    const size = spare >= 0 ? this.#spares[spare]!.length : sizeFor(bytes)
    if (this.#bytes + size > this.#bytesMax) return null
    this.#bytes += size
    return spare >= 0 ? this.#spares.splice(spare, 1)[0]! : Buffer.allocUnsafeSlow(size)
  }

  /** Takes back what `take` gave. Nobody looks at it any more: it is used again, or freed at once. */
  give(buffer: Buffer): void {
    this.#bytes -= buffer.length
    if (buffer.length <= SPARE_BYTES_MAX && this.#spares.length < SPARES_MAX) this.#spares.push(buffer)
    else free(buffer)
  }
}

/** Powers of two where a buffer is used again. */
function sizeFor(bytes: number): number {
  return bytes > SPARE_BYTES_MAX ? bytes : 2 ** Math.ceil(Math.log2(Math.max(bytes, LEAST_BYTES)))
}

/**
 * Frees the memory of a buffer that has it for itself. The collector would: but it does not see how much that is, and
 * runs for it.
 */
export function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}
