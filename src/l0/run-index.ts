import { assert } from '../core/assert.ts'
import { HASH_WORDS, type HashChain } from '../core/hash-chain.ts'
import { NO_RUN, type RunTable } from './run-table.ts'

/**
 * Shared runs by (space, chunk hash): open addressing with linear probing, at most half full. Deletion moves later
 * entries back, so there are no tombstones and a probe never gets longer with age. Compares whole hashes.
 */
export class RunIndex {
  readonly #runs: RunTable
  readonly #places: Int32Array
  readonly #mask: number
  #count = 0

  constructor(runs: RunTable) {
    this.#runs = runs
    const places = 2 ** Math.ceil(Math.log2(Math.max(2, runs.capacity * 2)))
    this.#places = new Int32Array(places).fill(NO_RUN)
    this.#mask = places - 1
  }

  get count(): number {
    return this.#count
  }

  /** The run of chunk `index` of the chain, or NO_RUN. */
  find(space: number, chain: HashChain, index: number): number {
    return this.#find(space, chain.words, index * HASH_WORDS)
  }

  /** The shared run with the identity of this one, or NO_RUN. */
  findTwin(run: number): number {
    return this.#find(this.#runs.space[run]!, this.#runs.hash, run * HASH_WORDS)
  }

  /** Adds a run whose identity is not there yet. */
  insert(run: number): void {
    let place = this.#home(run)
    while (this.#places[place] !== NO_RUN) place = (place + 1) & this.#mask
    this.#places[place] = run
    this.#count += 1
  }

  remove(run: number): void {
    let hole = this.#home(run)
    while (this.#places[hole] !== run) {
      assert(this.#places[hole] !== NO_RUN, 'run is not in the index')
      hole = (hole + 1) & this.#mask
    }
    for (let place = (hole + 1) & this.#mask; this.#places[place] !== NO_RUN; place = (place + 1) & this.#mask) {
      const home = this.#home(this.#places[place]!)
      // The entry may fill the hole unless its home lies after the hole, up to its place.
      if (((place - home) & this.#mask) < ((place - hole) & this.#mask)) continue
      this.#places[hole] = this.#places[place]!
      hole = place
    }
    this.#places[hole] = NO_RUN
    this.#count -= 1
  }

  #home(run: number): number {
    const at = run * HASH_WORDS
    return placeOf(this.#runs.space[run]!, this.#runs.hash[at]!, this.#runs.hash[at + 1]!) & this.#mask
  }

  #find(space: number, words: Uint32Array, at: number): number {
    let place = placeOf(space, words[at]!, words[at + 1]!) & this.#mask
    for (let run = this.#places[place]!; run !== NO_RUN; run = this.#places[place]!) {
      if (this.#runs.space[run] === space && isEqual(this.#runs.hash, run * HASH_WORDS, words, at)) return run
      place = (place + 1) & this.#mask
    }
    return NO_RUN
  }
}

/** Spreads the identity over 32 bits: hashes of a metadata-only trace may be plain numbers. */
function placeOf(space: number, low: number, high: number): number {
  let mixed = low ^ Math.imul(high, 0x85ebca77) ^ Math.imul(space + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

function isEqual(a: Uint32Array, aAt: number, b: Uint32Array, bAt: number): boolean {
  for (let word = 0; word < HASH_WORDS; word += 1) if (a[aAt + word] !== b[bAt + word]) return false
  return true
}
