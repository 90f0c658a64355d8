import { ClassLists, NO_ENTRY } from './class-lists.ts'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from './reuse-hazard.ts'

/** Entries that leave from one end of a class before all are compared anew, the first not counted. */
const HAND_ENTRIES = 3

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
  #hand = 0
  #isHandNewest = false
  #handLeft = 0
  readonly #limit = new Float64Array(1)
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
    this.#handLeft = 0
    this.#buckets.fill(NO_ENTRY)
    this.#count = 0
    this.#fresh = 1
    this.#free = NO_ENTRY
  }

  #listOf(entry: number): number {
    return this.#worth === null ? 0 : this.#classes[entry]!
  }

  /**
   * By worth, of the oldest and the newest of each class; the older one of two that are worth the same. As in L1, the
   * end that is found stands for some more, while what is there is not worth more than the least of the others was.
   */
  #victim(now: number): number {
    const worth = this.#worth
    const { oldest: oldestOf, newest: newestOf, stamps } = this.#lists
    if (worth === null) return oldestOf[0]!
    if (this.#handLeft > 0) {
      this.#handLeft -= 1
      const entry = (this.#isHandNewest ? newestOf : oldestOf)[this.#hand]!
      if (entry !== NO_ENTRY) {
        const age = (now - stamps[entry]!) >>> 0
        if (worth[this.#hand * AGE_BUCKETS + ageBucket(age)]! <= this.#limit[0]!) return entry
      }
    }
    let victim = NO_ENTRY
    let least = 0
    let second = Number.POSITIVE_INFINITY
    let oldest = 0
    for (let list = 0; list < REUSE_CLASSES; list += 1) {
      if (oldestOf[list] === NO_ENTRY) continue
      for (let end = 0; end < 2; end += 1) {
        const entry = (end === 0 ? oldestOf : newestOf)[list]!
        const age = (now - stamps[entry]!) >>> 0
        const value = worth[list * AGE_BUCKETS + ageBucket(age)]!
        if (victim !== NO_ENTRY && (value > least || (value === least && age <= oldest))) {
          if (value < second && entry !== victim) second = value
          continue
        }
        if (victim !== NO_ENTRY) second = least
        victim = entry
        least = value
        oldest = age
        this.#hand = list
        this.#isHandNewest = end === 1
      }
    }
    this.#handLeft = HAND_ENTRIES
    this.#limit[0] = second
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
