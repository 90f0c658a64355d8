import { TextBlocks } from './text-blocks.ts'

/** Bytes of the longest number: a sign, 17 digits, a point and an exponent. */
const NUMBER_BYTES = 26
const BILLION = 1e9
const ZERO = 48
const NEWLINE = 10

/**
 * A text under construction, as bytes: several times cheaper than joining strings and encoding the result. It lies in
 * blocks; a line is never in two of them.
 */
export class ByteText {
  readonly #blocks: TextBlocks
  /** Full blocks since the last `take`. */
  #closed: Buffer[] = []
  #bytes: Buffer
  /** Where in the block what is to be taken begins and ends. */
  #start = 0
  #length = 0

  constructor(blocks = new TextBlocks()) {
    this.#blocks = blocks
    this.#bytes = blocks.take()
  }

  /** Adds bytes start..end-1 of a buffer, then a number as Prometheus reads it, then a new line. */
  line(from: Buffer, start: number, end: number, value: number): void {
    this.#ensureRoom(end - start + NUMBER_BYTES)
    from.copy(this.#bytes, this.#length, start, end)
    this.#length += end - start
    if (Number.isSafeInteger(value) && value >= 0) this.#digits(value)
    else this.#length += this.#bytes.write(formatNumber(value), this.#length, 'latin1')
    this.#bytes[this.#length] = NEWLINE
    this.#length += 1
  }

  text(text: string): void {
    this.#ensureRoom(Buffer.byteLength(text))
    this.#length += this.#bytes.write(text, this.#length)
  }

  /** What was added since the last call, in order, where it was written. */
  take(): Buffer[] {
    this.#close()
    const taken = this.#closed
    this.#closed = []
    return taken
  }

  #digits(value: number): void {
    if (value < BILLION) {
      this.#smallDigits(value, 1)
      return
    }
    const billions = Math.floor(value / BILLION)
    this.#smallDigits(billions, 1)
    this.#smallDigits(value - billions * BILLION, 9)
  }

  /** @param value a whole number below 2^31. @param least digits at least, zeros in front. */
  #smallDigits(value: number, least: number): void {
    let count = 1
    for (let rest = value | 0; rest >= 10; rest = (rest / 10) | 0) count += 1
    count = Math.max(count, least)
    let rest = value | 0
    for (let at = this.#length + count - 1; at >= this.#length; at -= 1) {
      const tenth = (rest / 10) | 0
      this.#bytes[at] = ZERO + rest - tenth * 10
      rest = tenth
    }
    this.#length += count
  }

  #ensureRoom(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    this.#close()
    this.#bytes = this.#blocks.take(bytes)
    this.#start = 0
    this.#length = 0
  }

  #close(): void {
    if (this.#length > this.#start) this.#closed.push(this.#bytes.subarray(this.#start, this.#length))
    this.#start = this.#length
  }
}

function formatNumber(value: number): string {
  if (Number.isFinite(value)) return `${value}`
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
