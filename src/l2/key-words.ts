import { HASH_WORDS } from '../core/hash-chain.ts'

/** Hashes as 32-bit words, 8 a key. */
export type KeyWords = Uint32Array

/**
 * The same hashes as 32-bit words: a view when the bytes lie on a word boundary, else a copy.
 * Valid as long as the bytes stay as they are.
 */
export function keyWords(bytes: Uint8Array): KeyWords {
  if (bytes.byteOffset % 4 === 0) return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2)
  const copy = new Uint8Array(bytes)
  return new Uint32Array(copy.buffer, 0, bytes.length >>> 2)
}

/** Whether the parent of a key is the key before it in the batch. */
export function followsNeighbour(hashes: KeyWords, parents: KeyWords, key: number): boolean {
  if (key === 0) return false
  const from = key * HASH_WORDS
  for (let word = 0; word < HASH_WORDS; word += 1) {
    if (parents[from + word] !== hashes[from - HASH_WORDS + word]) return false
  }
  return true
}
