import { assert } from '../core/assert.ts'
import { sampleValue } from '../events/chunk-tag.ts'

/** Returned instead of an entry when there is none. */
export const NO_ENTRY = -1

/** Finds entries 0..n-1 by their tag: open addressing over typed arrays, at most half full. */
export class TagIndex {
  readonly #slots: Int32Array // entry + 1, 0 = empty
  readonly #mask: number
  readonly #tags: Float64Array

  /** @param tags tag of each entry; owned by the caller, set before `insert`. */
  constructor(tags: Float64Array) {
    const slots = 2 ** Math.ceil(Math.log2(Math.max(2, tags.length * 2)))
    this.#slots = new Int32Array(slots)
    this.#mask = slots - 1
    this.#tags = tags
  }

  /** Where probing for a tag starts. Sampled tags have a low `sampleValue`, so other bits of the tag help to spread. */
  #home(tag: number): number {
    const high = (tag - sampleValue(tag)) / 2 ** 32
    return (Math.imul(sampleValue(tag) ^ Math.imul(high, 0x9e3779b1), 0x85ebca6b) >>> 7) & this.#mask
  }

  /** The entry that has the tag which stands at `of`; that place itself need not be in the index. */
  find(of: number): number {
    const tag = this.#tags[of]!
    for (let at = this.#home(tag); ; at = (at + 1) & this.#mask) {
      const entry = this.#slots[at]! - 1
      if (entry === NO_ENTRY || this.#tags[entry] === tag) return entry
    }
  }

  /** Adds an entry whose tag is not there yet. */
  insert(entry: number): void {
    let at = this.#home(this.#tags[entry]!)
    while (this.#slots[at] !== 0) at = (at + 1) & this.#mask
    this.#slots[at] = entry + 1
  }

  remove(entry: number): void {
    let at = this.#home(this.#tags[entry]!)
    while (this.#slots[at] !== entry + 1) {
      assert(this.#slots[at] !== 0, 'entry is not in the index')
      at = (at + 1) & this.#mask
    }
    // Close the gap: an entry further on moves back if the gap lies between its home and its place.
    for (let next = (at + 1) & this.#mask; this.#slots[next] !== 0; next = (next + 1) & this.#mask) {
      const home = this.#home(this.#tags[this.#slots[next]! - 1]!)
      if (((next - home) & this.#mask) >= ((next - at) & this.#mask)) {
        this.#slots[at] = this.#slots[next]!
        at = next
      }
    }
    this.#slots[at] = 0
  }
}
