import { HEADER_BYTES, payloadSum } from '../../object-format.ts'

/** Takes the body of one answer, piece by piece. */
export interface BodySink {
  /** A body begins; an earlier one, of a try that failed, counts no more. */
  start(): void
  /** False when no more is wanted. The piece is the caller's again afterwards. */
  take(piece: Uint8Array): boolean
}

/**
 * Splits the body of a stored object into its header and its payload, written straight where they belong. The payload
 * is summed piece by piece, while the processor's cache has it.
 */
export class RecordSink implements BodySink {
  readonly #header: Uint8Array
  readonly #target: Uint8Array
  #length = 0
  #sum = 0

  /** @param header HEADER_BYTES of memory. @param target memory of the payload. */
  constructor(header: Uint8Array, target: Uint8Array) {
    this.#header = header
    this.#target = target
  }

  /** Whether as many bytes came as an object has. */
  get isWhole(): boolean {
    return this.#length === HEADER_BYTES + this.#target.length
  }

  /** The checksum of what is in the target. */
  get sum(): number {
    return this.#sum
  }

  start(): void {
    this.#length = 0
    this.#sum = 0
  }

  take(piece: Uint8Array): boolean {
    const at = this.#length
    this.#length += piece.length
    if (this.#length > HEADER_BYTES + this.#target.length) return false
    const ofHeader = Math.max(0, Math.min(piece.length, HEADER_BYTES - at))
    if (ofHeader > 0) this.#header.set(piece.subarray(0, ofHeader), at)
    if (piece.length === ofHeader) return true
    const from = at + ofHeader - HEADER_BYTES
    this.#target.set(piece.subarray(ofHeader), from)
    this.#sum = payloadSum(this.#target.subarray(from, from + piece.length - ofHeader), this.#sum)
    return true
  }
}
