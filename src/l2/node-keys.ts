import { HASH_WORDS } from '../core/hash-chain.ts'
import { enlarge } from './columns.ts'

const NO_NODE = 0

/**
 * The keys of numbered nodes, (space, hash), and the way back from a key to its node: open addressing with linear
 * probing, two buckets a node at least. Nodes are numbers of 1 upwards, chosen by the owner.
 */
export class NodeKeys {
  #words = new Uint32Array(0)
  #space = new Uint32Array(0)
  #buckets = new Uint32Array(0)

  /** Makes room for nodes 1..capacity. @param isNamed whether a node has a key now. */
  grow(capacity: number, isNamed: (node: number) => boolean): void {
    const before = Math.max(0, this.#space.length - 1)
    this.#words = enlarge(this.#words, (capacity + 1) * HASH_WORDS)
    this.#space = enlarge(this.#space, capacity + 1)
    this.#buckets = new Uint32Array(capacity * 2)
    for (let node = 1; node <= before; node += 1) if (isNamed(node)) this.#insert(node)
  }

  /** The node of a key, or 0. Key i is words[8i .. 8i+8). */
  find(space: number, words: Uint32Array, key: number): number {
    const mask = this.#buckets.length - 1
    let bucket = mix(space, words, key * HASH_WORDS) & mask
    for (;;) {
      const node = this.#buckets[bucket]!
      if (node === NO_NODE || this.#isKey(node, space, words, key * HASH_WORDS)) return node
      bucket = (bucket + 1) & mask
    }
  }

  /** Gives a node without a key that of place `key`. */
  name(node: number, space: number, words: Uint32Array, key: number): void {
    const from = key * HASH_WORDS
    for (let word = 0; word < HASH_WORDS; word += 1) this.#words[node * HASH_WORDS + word] = words[from + word]!
    this.#space[node] = space
    this.#insert(node)
  }

  /** Takes the key of a node away. Backward shift: no tombstones. */
  forget(node: number): void {
    const mask = this.#buckets.length - 1
    let hole = this.#homeOf(node)
    while (this.#buckets[hole] !== node) hole = (hole + 1) & mask
    for (let next = (hole + 1) & mask; this.#buckets[next] !== NO_NODE; next = (next + 1) & mask) {
      const home = this.#homeOf(this.#buckets[next]!)
      if (((next - home) & mask) < ((next - hole) & mask)) continue // it would land before its home
      this.#buckets[hole] = this.#buckets[next]!
      hole = next
    }
    this.#buckets[hole] = NO_NODE
  }

  spaceOf(node: number): number {
    return this.#space[node]!
  }

  /** The 8 words of a node's hash, as a view. */
  hashOf(node: number): Uint32Array {
    return this.#words.subarray(node * HASH_WORDS, (node + 1) * HASH_WORDS)
  }

  #insert(node: number): void {
    const mask = this.#buckets.length - 1
    let bucket = this.#homeOf(node)
    while (this.#buckets[bucket] !== NO_NODE) bucket = (bucket + 1) & mask
    this.#buckets[bucket] = node
  }

  #isKey(node: number, space: number, words: Uint32Array, from: number): boolean {
    if (this.#space[node] !== space) return false
    const own = node * HASH_WORDS
    for (let word = 0; word < HASH_WORDS; word += 1) {
      if (this.#words[own + word] !== words[from + word]) return false
    }
    return true
  }

  #homeOf(node: number): number {
    return mix(this.#space[node]!, this.#words, node * HASH_WORDS) & (this.#buckets.length - 1)
  }
}

/** Mixes a space and four words of a hash: hashes of real chunks are random, those of replays may not be. */
function mix(space: number, words: Uint32Array, from: number): number {
  let mixed = Math.imul(space + 1, 0x9e3779b1)
  for (let word = 0; word < 4; word += 1) {
    mixed = Math.imul(mixed ^ words[from + word]!, 0x85ebca6b)
    mixed ^= mixed >>> 15
  }
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
