import { HASH_BYTES, HASH_WORDS, type HashChain } from '../core/hash-chain.ts'

// What stands in for the keys and values of a chunk: its hash over and over, and in each page the page's number
// mixed in, so that bytes of another chunk, of another place, or of a copy that stopped half way are told apart.
const PAGE_BYTES = 4096

/** Writes the bytes of chunk `index` of a chain. Any length. */
export function fillPattern(target: Uint8Array, chain: HashChain, index: number): void {
  const head = Math.min(HASH_BYTES, target.length)
  target.set(chain.bytes.subarray(index * HASH_BYTES, index * HASH_BYTES + head))
  for (let filled = head; filled < target.length; filled *= 2) target.copyWithin(filled, 0, filled)
  const seed = chain.words[index * HASH_WORDS]!
  for (let page = 0; page * PAGE_BYTES + 4 <= target.length; page += 1) {
    const stamp = Math.imul(seed ^ page, 0x9e3779b1)
    const at = page * PAGE_BYTES
    target[at] = stamp
    target[at + 1] = stamp >>> 8
    target[at + 2] = stamp >>> 16
    target[at + 3] = stamp >>> 24
  }
}

/**
 * Whether these are the bytes of chunk `index` of a chain.
 *
 * @param scratch at least as long as `bytes`; overwritten.
 */
export function matchesPattern(bytes: Uint8Array, chain: HashChain, index: number, scratch: Uint8Array): boolean {
  const expected = scratch.subarray(0, bytes.length)
  fillPattern(expected, chain, index)
  return Buffer.compare(bytes, expected) === 0
}
