import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'

/**
 * Maps the block ids of a trace to chunk hashes: `words` of block i mix id i with the hash of block i - 1.
 * A prefix always has the same hashes, and two prefixes differ, even in a trace that uses one id behind two parents.
 *
 * These are not the blake3 hashes of real prompts (a trace has no tokens); they only stand in for them as keys.
 * Each hash carries its id as it is and 64 bits of its prefix.
 *
 * @param ids block ids; those of `from <= index < to` are taken, root first.
 * @param chain out: grown when needed, otherwise nothing is allocated.
 */
export function traceKeys(ids: Uint32Array, from: number, to: number, chain: HashChain): void {
  const count = to - from
  chain.ensureCapacity(count)
  chain.count = count
  const words = chain.words
  let low = 0x9e3779b9
  let high = 0x7f4a7c15
  for (let index = 0; index < count; index += 1) {
    const id = ids[from + index]!
    low = mix(low ^ id)
    high = mix((high + Math.imul(id, 0x85ebca6b) + low) | 0)
    const at = index * HASH_WORDS
    words[at] = low
    words[at + 1] = high
    words[at + 2] = id
    words[at + 3] = low ^ high
    words[at + 4] = low + high
    words[at + 5] = Math.imul(low, 0xc2b2ae35)
    words[at + 6] = Math.imul(high, 0x27d4eb2f)
    words[at + 7] = ~low
  }
}

/** Finaliser of MurmurHash3: a bijection of 32-bit numbers in which each input bit moves half the output. */
function mix(value: number): number {
  let mixed = value ^ (value >>> 16)
  mixed = Math.imul(mixed, 0x85ebca6b)
  mixed ^= mixed >>> 13
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
