import { HASH_WORDS } from '../../src/core/hash-chain.ts'

const NONE = 0xffff_ffff

/**
 * A plain LRU over chunk hashes, in typed arrays of fixed size, and nothing else: open addressing, half full, and a list
 * by recency. It has no parents, shards, leases, tenants or ghosts: less than an index of a cache needs.
 */
export class PlainLru {
  readonly #capacity: number
  readonly #mask: number
  /** Home place -> entry + 1. */
  readonly #places: Uint32Array
  readonly #hashes: Uint32Array
  readonly #newer: Uint32Array
  readonly #older: Uint32Array
  #count = 0

  constructor(capacity: number) {
    const places = 2 ** Math.ceil(Math.log2(2 * capacity))
    this.#capacity = capacity
    this.#mask = places - 1
    this.#places = new Uint32Array(places)
    this.#hashes = new Uint32Array(capacity * HASH_WORDS)
    this.#newer = new Uint32Array(capacity + 1).fill(capacity)
    this.#older = new Uint32Array(capacity + 1).fill(capacity)
  }

  /** Finds a hash and makes it the newest. */
  touch(words: Uint32Array, at: number): boolean {
    const entry = this.#find(words, at)
    if (entry === NONE) return false
    this.#unlink(entry)
    this.#link(entry)
    return true
  }

  /** Adds a hash that is not there; the oldest goes when it is full. */
  add(words: Uint32Array, at: number): void {
    const entry = this.#count < this.#capacity ? this.#count++ : this.#evict()
    for (let word = 0; word < HASH_WORDS; word += 1) this.#hashes[entry * HASH_WORDS + word] = words[at + word]!
    let place = words[at]! & this.#mask
    while (this.#places[place] !== 0) place = (place + 1) & this.#mask
    this.#places[place] = entry + 1
    this.#link(entry)
  }

  #find(words: Uint32Array, at: number): number {
    for (let place = words[at]! & this.#mask; this.#places[place] !== 0; place = (place + 1) & this.#mask) {
      const entry = this.#places[place]! - 1
      let word = 0
      while (word < HASH_WORDS && this.#hashes[entry * HASH_WORDS + word] === words[at + word]) word += 1
      if (word === HASH_WORDS) return entry
    }
    return NONE
  }

  #evict(): number {
    const entry = this.#newer[this.#capacity]!
    this.#unlink(entry)
    let hole = this.#hashes[entry * HASH_WORDS]! & this.#mask
    while (this.#places[hole] !== entry + 1) hole = (hole + 1) & this.#mask
    for (let place = (hole + 1) & this.#mask; this.#places[place] !== 0; place = (place + 1) & this.#mask) {
      const home = this.#hashes[(this.#places[place]! - 1) * HASH_WORDS]! & this.#mask
      if (((place - home) & this.#mask) < ((place - hole) & this.#mask)) continue
      this.#places[hole] = this.#places[place]!
      hole = place
    }
    this.#places[hole] = 0
    return entry
  }

  #link(entry: number): void {
    const root = this.#capacity
    const newest = this.#older[root]!
    this.#newer[newest] = entry
    this.#older[entry] = newest
    this.#newer[entry] = root
    this.#older[root] = entry
  }

  #unlink(entry: number): void {
    this.#newer[this.#older[entry]!] = this.#newer[entry]!
    this.#older[this.#newer[entry]!] = this.#older[entry]!
  }
}
