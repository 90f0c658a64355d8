import { assert } from '../../core/assert.ts'

/**
 * Builds one MessagePack message, shortest forms throughout. Reusable: `finish` gives a copy of what was written and
 * starts anew. The caller writes as many values as the arrays and maps announce.
 */
export class MsgpackWriter {
  #bytes: Buffer
  #at = 0

  constructor(capacityBytes = 1024) {
    this.#bytes = Buffer.allocUnsafeSlow(capacityBytes)
  }

  nil(): this {
    return this.#byte(0xc0)
  }

  bool(value: boolean): this {
    return this.#byte(value ? 0xc3 : 0xc2)
  }

  /** A whole number of 64 bits. */
  int(value: number | bigint): this {
    if (typeof value === 'bigint') return this.#big(value)
    assert(Number.isSafeInteger(value), 'not a whole number')
    if (value >= 0) {
      if (value < 0x80) return this.#byte(value)
      if (value < 0x100) return this.#sized(0xcc, value, 1)
      if (value < 0x1_0000) return this.#sized(0xcd, value, 2)
      if (value < 0x1_0000_0000) return this.#sized(0xce, value, 4)
      return this.#big(BigInt(value))
    }
    return value >= -32 ? this.#byte(value & 0xff) : this.#big(BigInt(value))
  }

  float(value: number): this {
    const at = this.#grow(9)
    this.#bytes[at] = 0xcb
    this.#bytes.writeDoubleBE(value, at + 1)
    return this
  }

  str(value: string): this {
    const length = Buffer.byteLength(value)
    if (length < 32) this.#byte(0xa0 | length)
    else this.#lengthHead(0xd9, length)
    const at = this.#grow(length)
    this.#bytes.write(value, at, length, 'utf8')
    return this
  }

  bin(value: Uint8Array): this {
    this.#lengthHead(0xc4, value.length)
    return this.raw(value)
  }

  /** Opens an array of `count` values. */
  array(count: number): this {
    if (count < 16) return this.#byte(0x90 | count)
    return count < 0x1_0000 ? this.#sized(0xdc, count, 2) : this.#sized(0xdd, count, 4)
  }

  /** Opens a map of `count` pairs. */
  map(count: number): this {
    if (count < 16) return this.#byte(0x80 | count)
    return count < 0x1_0000 ? this.#sized(0xde, count, 2) : this.#sized(0xdf, count, 4)
  }

  /** An array of whole numbers of 32 bits. */
  words(values: Uint32Array): this {
    this.array(values.length)
    const start = this.#grow(5 * values.length)
    const bytes = this.#bytes
    let at = start
    for (const value of values) {
      if (value < 0x80) bytes[at++] = value
      else if (value < 0x100) {
        bytes[at++] = 0xcc
        bytes[at++] = value
      } else {
        const width = value < 0x1_0000 ? 2 : 4
        bytes[at++] = width === 2 ? 0xcd : 0xce
        for (let shift = 8 * (width - 1); shift >= 0; shift -= 8) bytes[at++] = value >>> shift
      }
    }
    this.#at = at
    return this
  }

  /** Values that are encoded already. */
  raw(encoded: Uint8Array): this {
    const at = this.#grow(encoded.length)
    this.#bytes.set(encoded, at)
    return this
  }

  /** What was written, as a copy. */
  finish(): Uint8Array {
    const message = new Uint8Array(this.#bytes.subarray(0, this.#at))
    this.#at = 0
    return message
  }

  #lengthHead(first: number, length: number): void {
    if (length < 0x100) this.#sized(first, length, 1)
    else if (length < 0x1_0000) this.#sized(first + 1, length, 2)
    else this.#sized(first + 2, length, 4)
  }

  #byte(value: number): this {
    const at = this.#grow(1)
    this.#bytes[at] = value
    return this
  }

  #sized(head: number, value: number, width: 1 | 2 | 4): this {
    const at = this.#grow(1 + width)
    this.#bytes[at] = head
    this.#bytes.writeUIntBE(value, at + 1, width)
    return this
  }

  #big(value: bigint): this {
    assert(value >= -(2n ** 63n) && value < 2n ** 64n, 'more than 64 bits')
    const at = this.#grow(9)
    this.#bytes[at] = value < 0n ? 0xd3 : 0xcf
    if (value < 0n) this.#bytes.writeBigInt64BE(value, at + 1)
    else this.#bytes.writeBigUInt64BE(value, at + 1)
    return this
  }

  /** Makes room. @returns where it starts. */
  #grow(bytes: number): number {
    const at = this.#at
    this.#at += bytes
    if (this.#at > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#at, this.#bytes.length * 2))
      larger.set(this.#bytes.subarray(0, at))
      this.#bytes = larger
    }
    return at
  }
}
