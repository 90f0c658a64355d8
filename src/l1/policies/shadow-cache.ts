import { ClassLists, NO_ENTRY } from './class-lists.ts'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from './reuse-hazard.ts'

/**
 * A cache of prints, which says what L1 would hit under an order of eviction: by worth, or by age alone. It takes the
 * sampled chunks one by one; that a chunk hits only behind its prefix needs no watching, for an order that puts
 * leaves first keeps whole prefixes.
 */
export class ShadowCache {
  readonly #prints: Uint32Array
  readonly #classes: Uint8Array
  readonly #nextInBucket: Uint16Array
  readonly #buckets: Uint16Array
  readonly #lists: ClassLists
  readonly #worth: Float64Array | null
  #count = 0
  #fresh = 1
  #free = NO_ENTRY

  /**
   * @param capacity prints at most; a power of two.
   * @param worth by class and age bucket; null = the oldest leaves first.
   */
  constructor(capacity: number, worth: Float64Array | null) {
    this.#prints = new Uint32Array(capacity + 1)
    this.#classes = new Uint8Array(capacity + 1)
    this.#nextInBucket = new Uint16Array(capacity + 1)
    this.#buckets = new Uint16Array(capacity)
    this.#lists = new ClassLists(new Uint32Array(2 * (capacity + 1)), 2, 0, 1)
    this.#worth = worth
  }

  get bytes(): number {
    return this.#prints.length * (4 + 1 + 2 + 2 + 8 + 4)
  }

  get capacity(): number {
    return this.#buckets.length
  }

  /** A sampled chunk is asked for, and from here on of a class. @returns whether it was here. */
  ask(print: number, reuseClass: number, now: number, size: number): boolean {
    const found = this.#find(print)
    if (found !== NO_ENTRY) {
      this.#lists.unlink(this.#listOf(found), found)
      this.#classes[found] = reuseClass
      this.#lists.append(this.#listOf(found), found, now)
      return true
    }
    while (this.#count >= size) this.#drop(this.#victim(now))
    this.#add(print, reuseClass, now)
    return false
  }

  clear(): void {
    this.#lists.clear()
    this.#buckets.fill(NO_ENTRY)
    this.#count = 0
    this.#fresh = 1
    this.#free = NO_ENTRY
  }

  #listOf(entry: number): number {
    return this.#worth === null ? 0 : this.#classes[entry]!
  }

  /** By worth, of the oldest and the newest of each class; the older one of two that are worth the same. */
  #victim(now: number): number {
    if (this.#worth === null) return this.#lists.oldest[0]!
    let victim = NO_ENTRY
    let least = 0
    let oldest = 0
    for (let end = 0; end < 2 * REUSE_CLASSES; end += 1) {
      const list = end >> 1
      const entry = ((end & 1) === 0 ? this.#lists.oldest : this.#lists.newest)[list]!
      if (entry === NO_ENTRY) continue
      const age = (now - this.#lists.stamps[entry]!) >>> 0
      const worth = this.#worth[list * AGE_BUCKETS + ageBucket(age)]!
      if (victim !== NO_ENTRY && (worth > least || (worth === least && age <= oldest))) continue
      victim = entry
      least = worth
      oldest = age
    }
    return victim
  }

  #add(print: number, reuseClass: number, now: number): void {
    let entry = this.#free
    if (entry === NO_ENTRY) entry = this.#fresh++
    else this.#free = this.#nextInBucket[entry]!
    const bucket = print & (this.#buckets.length - 1)
    this.#prints[entry] = print
    this.#classes[entry] = reuseClass
    this.#nextInBucket[entry] = this.#buckets[bucket]!
    this.#buckets[bucket] = entry
    this.#lists.append(this.#listOf(entry), entry, now)
    this.#count += 1
  }

  #drop(entry: number): void {
    const bucket = this.#prints[entry]! & (this.#buckets.length - 1)
    if (this.#buckets[bucket] === entry) this.#buckets[bucket] = this.#nextInBucket[entry]!
    else {
      let other = this.#buckets[bucket]!
      while (this.#nextInBucket[other] !== entry) other = this.#nextInBucket[other]!
      this.#nextInBucket[other] = this.#nextInBucket[entry]!
    }
    this.#lists.unlink(this.#listOf(entry), entry)
    this.#nextInBucket[entry] = this.#free
    this.#free = entry
    this.#count -= 1
  }

  #find(print: number): number {
    let entry = this.#buckets[print & (this.#buckets.length - 1)]!
    while (entry !== NO_ENTRY && this.#prints[entry] !== print) entry = this.#nextInBucket[entry]!
    return entry
  }
}
