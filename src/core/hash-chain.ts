import { assert } from './assert.ts'

/** Bytes of one chunk hash (blake3). */
export const HASH_BYTES = 32
/** 32-bit words of one chunk hash. */
export const HASH_WORDS = 8

/**
 * The hashes of a prompt's whole chunks, root first: chunk i extends chunk i - 1.
 * `words` holds `count` hashes of 8 words each, and may be longer than that; `bytes` is the same memory.
 */
export class HashChain {
  words: Uint32Array<ArrayBuffer>
  bytes: Uint8Array<ArrayBuffer>
  count = 0

  constructor(capacityChunks: number) {
    this.words = new Uint32Array(capacityChunks * HASH_WORDS)
    this.bytes = new Uint8Array(this.words.buffer)
  }

  /** A chain over hashes laid end to end (copied). */
  static of(bytes: Uint8Array): HashChain {
    assert(bytes.length % HASH_BYTES === 0, 'hashes of a broken length')
    const chain = new HashChain(bytes.length / HASH_BYTES)
    chain.bytes.set(bytes)
    chain.count = bytes.length / HASH_BYTES
    return chain
  }

  /** Grows to at least this many chunks, keeping what is there. */
  ensureCapacity(chunks: number): void {
    if (chunks * HASH_WORDS <= this.words.length) return
    const words = new Uint32Array(Math.max(chunks * HASH_WORDS, this.words.length * 2))
    words.set(this.words)
    this.words = words
    this.bytes = new Uint8Array(words.buffer)
  }

  /** Hash of chunk `index` as a view, valid until the chain grows. */
  at(index: number): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)
  }

  hex(index: number): string {
    return Buffer.from(this.at(index)).toString('hex')
  }
}
