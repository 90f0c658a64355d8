import { REUSE_CLASSES } from './reuse-hazard.ts'

/** No entry: ids start above it. */
export const NO_ENTRY = 0

/**
 * A list by recency for each class of entries, linked through words of the entries' own. Ids are at least 1.
 * `stampOf` is the time of a list's entries, which grows from the oldest to the newest; it wraps at 2^32, so an age is
 * `(now - stamp) >>> 0`.
 */
export class ClassLists {
  /** The ends of the lists, by class; NO_ENTRY when one is empty. */
  readonly oldest = new Uint32Array(REUSE_CLASSES)
  readonly newest = new Uint32Array(REUSE_CLASSES)
  readonly stamps: Uint32Array
  readonly #words: Uint32Array
  readonly #stride: number
  readonly #newerAt: number
  readonly #olderAt: number

  /** @param words entry `id` has its links at words[id * stride + newerAt] and ... + olderAt. */
  constructor(words: Uint32Array, stride: number, newerAt: number, olderAt: number) {
    this.#words = words
    this.#stride = stride
    this.#newerAt = newerAt
    this.#olderAt = olderAt
    this.stamps = new Uint32Array(words.length / stride)
  }

  /** Links an entry as the newest of a class. */
  append(list: number, id: number, stamp: number): void {
    this.stamps[id] = stamp
    this.#link(list, id, this.newest[list]!)
  }

  /** Links an entry where its stamp belongs. It is looked for from the oldest on. */
  insert(list: number, id: number, now: number): void {
    const age = (now - this.stamps[id]!) >>> 0
    let older = NO_ENTRY
    for (let next = this.oldest[list]!; next !== NO_ENTRY; next = this.newerOf(next)) {
      if ((now - this.stamps[next]!) >>> 0 <= age) break
      older = next
    }
    this.#link(list, id, older)
  }

  unlink(list: number, id: number): void {
    const words = this.#words
    const at = id * this.#stride
    const newer = words[at + this.#newerAt]!
    const older = words[at + this.#olderAt]!
    if (older === NO_ENTRY) this.oldest[list] = newer
    else words[older * this.#stride + this.#newerAt] = newer
    if (newer === NO_ENTRY) this.newest[list] = older
    else words[newer * this.#stride + this.#olderAt] = older
  }

  olderOf(id: number): number {
    return this.#words[id * this.#stride + this.#olderAt]!
  }

  newerOf(id: number): number {
    return this.#words[id * this.#stride + this.#newerAt]!
  }

  clear(): void {
    this.oldest.fill(NO_ENTRY)
    this.newest.fill(NO_ENTRY)
  }

  /** Links an entry on the newer side of `older`. */
  #link(list: number, id: number, older: number): void {
    const words = this.#words
    const at = id * this.#stride
    const newer = older === NO_ENTRY ? this.oldest[list]! : words[older * this.#stride + this.#newerAt]!
    words[at + this.#newerAt] = newer
    words[at + this.#olderAt] = older
    if (older === NO_ENTRY) this.oldest[list] = id
    else words[older * this.#stride + this.#newerAt] = id
    if (newer === NO_ENTRY) this.newest[list] = id
    else words[newer * this.#stride + this.#olderAt] = id
  }
}
