import { assert } from '../core/assert.ts'

/** No record: ids start at FIRST_ID. Record 0 is the sentinel of the policy's list, or of its first one. */
export const NO_CHUNK = 0
/** The sentinel of a policy's second list. Its links must be set by the policy. */
export const SECOND_ROOT = 2

/** 32-bit words of one chunk record, and where each field lies in it. */
export const CHUNK_WORDS = 19
export const META = 8
export const BUCKET_NEXT = 9
export const PARENT = 10
export const HOLDS = 11
export const CHILDREN = 12
export const NEWER = 13
export const OLDER = 14
export const FIRST_SHARD = 15
export const TOUCH_MS = 16
export const USE_MS = 17
export const GENERATION = 18

/** Low two bits of META. */
export const STATE_MASK = 3
export const FREE = 0
export const LIVE = 1
export const GHOST = 2
export const DOOMED = 3
/** The eviction that made this ghost has been reported. */
export const GHOST_SEEN = 4
/** The chunk's internal leases hold it in the tree, because eviction came by (see holds.ts). */
export const ANCHORED = 8
/** USE_MS means something: the chunk was stored or retrieved before. */
export const USE_KNOWN = 16
/** Part of a subtree that is being removed, or known to be outside of it. Set only within one call. */
export const MARK_INSIDE = 32
export const MARK_OUTSIDE = 64
/** Readable shards of the chunk: one byte of META. */
export const READY_SHIFT = 8
export const READY_ONE = 1 << READY_SHIFT
/** Space id: the upper half of META. */
export const SPACE_SHIFT = 16
/** GENERATION: 24 bits of generation, 8 bits that count internal leases. */
export const GENERATION_MASK = 0xff_ffff
export const INTERNAL_ONE = 0x100_0000
export const INTERNAL_MAX = 255

const GHOST_ROOT = 1
const FIRST_ID = 3

/** 32-bit words of a table. */
export function chunkTableWords(capacity: number): number {
  return (capacity + FIRST_ID) * CHUNK_WORDS
}

/**
 * Every chunk that L1 knows, resident or remembered: records of 76 bytes in one typed array, found by
 * (space, hash) through chained buckets. Preallocated; the pages behind it are backed when first used, so a large
 * table costs nothing until it fills, and nothing is ever rehashed.
 *
 *   word  0..7   hash, as it came
 *         8      META: space (16 bits) | readable shards (8) | marks, USE_KNOWN, ANCHORED, GHOST_SEEN | state (2)
 *         9      next record of the bucket; of the free list when FREE
 *         10     parent record, or NO_CHUNK for the root of a chain
 *         11     holds: leases on the chunk + its held children          (holds.ts)
 *         12     children: LIVE and DOOMED records whose parent this is
 *         13, 14 newer and older neighbour, in the list of the policy or in that of the ghosts
 *         15     first shard record (shard-table.ts)
 *         16     last touch by a client, ms; of a ghost: when it was evicted
 *         17     last store or retrieval, ms; survives in ghosts
 *         18     generation (24 bits) | internal leases (8)
 *
 *             reserve            evict                     falls out of the ring
 *     FREE ------------> LIVE ----------> GHOST -----------------------------------> FREE
 *      ^                 |  ^               |
 *      |                 |  +---------------+ reserve (last use is kept)
 *      | last shard gone | remove while leased
 *      +-----------------+----------> DOOMED ----------> FREE
 *      ^                              (not findable)  last lease ends
 *
 * Chained buckets and not open addressing: a bucket of an open table would hold an id only, so a probe past a
 * stranger costs the same cache miss as a link, and a chain deletes in place.
 * The bucket is chosen by multiply-shift over the folded hash with a secret key, so that nobody can aim at one
 * bucket. The 32-byte compare decides.
 */
export class ChunkTable {
  readonly capacity: number
  /** (capacity + FIRST_ID) records; record `id` starts at word id * CHUNK_WORDS. */
  readonly words: Uint32Array
  readonly #buckets: Uint32Array
  readonly #shift: number
  readonly #keyLow: number
  readonly #keyHigh: number
  #freeHead = NO_CHUNK
  #fresh = FIRST_ID
  #freeCount: number
  #ghostCount = 0

  /** @param words of `chunkTableWords(capacity)`; those of an earlier engine need `restore` before anything else. */
  constructor(
    capacity: number,
    hashKey: readonly [number, number],
    words: Uint32Array = new Uint32Array(chunkTableWords(capacity)),
  ) {
    assert(capacity >= 1 && words.length === chunkTableWords(capacity), 'an index of another size')
    this.capacity = capacity
    this.words = words
    const bits = Math.max(4, Math.ceil(Math.log2(capacity)))
    this.#buckets = new Uint32Array(2 ** bits)
    this.#shift = 32 - bits
    this.#keyLow = hashKey[0] | 1
    this.#keyHigh = hashKey[1] | 1
    this.#freeCount = capacity
    this.words[NEWER] = NO_CHUNK
    this.words[OLDER] = NO_CHUNK
    this.words[GHOST_ROOT * CHUNK_WORDS + NEWER] = GHOST_ROOT
    this.words[GHOST_ROOT * CHUNK_WORDS + OLDER] = GHOST_ROOT
  }

  /** Takes over records of an earlier engine: LIVE ones can be found again, DOOMED ones stay, all others are FREE. */
  restore(): void {
    const words = this.words
    this.#fresh = this.capacity + FIRST_ID
    while (this.#fresh > FIRST_ID && words[(this.#fresh - 1) * CHUNK_WORDS + META] === FREE) this.#fresh -= 1
    this.#freeCount = this.capacity + FIRST_ID - this.#fresh
    for (let id = this.#fresh - 1; id >= FIRST_ID; id -= 1) {
      const record = id * CHUNK_WORDS
      const state = words[record + META]! & STATE_MASK
      if (state === LIVE) this.#hash(id, this.#bucketOf(words[record + META]! >>> SPACE_SHIFT, words, record))
      else if (state !== DOOMED) this.free(id)
    }
  }

  /** Records that are FREE. */
  get freeCount(): number {
    return this.#freeCount
  }

  get ghostCount(): number {
    return this.#ghostCount
  }

  /** Ids are FIRST_ID..endId-1, so far. */
  get endId(): number {
    return this.#fresh
  }

  get firstId(): number {
    return FIRST_ID
  }

  /** Bytes of the typed arrays. */
  get bytes(): number {
    return this.words.byteLength + this.#buckets.byteLength
  }

  /** The LIVE or GHOST record of a hash (8 words at `hash[at]`), or NO_CHUNK. */
  find(space: number, hash: Uint32Array, at: number): number {
    let id = this.#buckets[this.#bucketOf(space, hash, at)]!
    while (id !== NO_CHUNK && !this.#isOf(id, space, hash, at)) id = this.words[id * CHUNK_WORDS + BUCKET_NEXT]!
    return id
  }

  /**
   * As `find`, of LIVE records. Looks at record `guess` first, whatever that is: chunks that were stored together lie
   * side by side, and their buckets anywhere.
   */
  findNear(guess: number, space: number, hash: Uint32Array, at: number): number {
    const isThere = guess < this.#fresh && this.#isOf(guess, space, hash, at)
    return isThere && (this.words[guess * CHUNK_WORDS + META]! & STATE_MASK) === LIVE
      ? guess
      : this.find(space, hash, at)
  }

  /** Whether a record has this hash and space, whatever its state. */
  #isOf(id: number, space: number, hash: Uint32Array, at: number): boolean {
    const words = this.words
    const record = id * CHUNK_WORDS
    return (
      words[record] === hash[at] &&
      words[record + META]! >>> SPACE_SHIFT === space &&
      words[record + 1] === hash[at + 1] &&
      words[record + 2] === hash[at + 2] &&
      words[record + 3] === hash[at + 3] &&
      words[record + 4] === hash[at + 4] &&
      words[record + 5] === hash[at + 5] &&
      words[record + 6] === hash[at + 6] &&
      words[record + 7] === hash[at + 7]
    )
  }

  /** A new record, LIVE and findable, every other field 0; NO_CHUNK when all are in use. The hash must be absent. */
  insert(space: number, hash: Uint32Array, at: number): number {
    const words = this.words
    let id = this.#freeHead
    if (id !== NO_CHUNK) this.#freeHead = words[id * CHUNK_WORDS + BUCKET_NEXT]!
    else if (this.#fresh < this.capacity + FIRST_ID) id = this.#fresh++
    else return NO_CHUNK
    this.#freeCount -= 1
    const record = id * CHUNK_WORDS
    for (let word = 0; word < 8; word += 1) words[record + word] = hash[at + word]!
    words[record + META] = (space << SPACE_SHIFT) | LIVE
    this.#hash(id, this.#bucketOf(space, hash, at))
    words[record + PARENT] = NO_CHUNK
    words[record + HOLDS] = 0
    words[record + CHILDREN] = 0
    words[record + FIRST_SHARD] = 0
    words[record + GENERATION] = (words[record + GENERATION]! + 1) & GENERATION_MASK
    return id
  }

  /** Makes a record unfindable. Its fields stay. */
  unhash(id: number): void {
    const words = this.words
    const record = id * CHUNK_WORDS
    const bucket = this.#bucketOf(words[record + META]! >>> SPACE_SHIFT, words, record)
    const next = words[record + BUCKET_NEXT]!
    let other = this.#buckets[bucket]!
    if (other === id) {
      this.#buckets[bucket] = next
      return
    }
    for (;;) {
      assert(other !== NO_CHUNK, 'a record is missing from its bucket')
      const link = other * CHUNK_WORDS + BUCKET_NEXT
      other = words[link]!
      if (other !== id) continue
      words[link] = next
      return
    }
  }

  /** Gives back an unfindable record. */
  free(id: number): void {
    const record = id * CHUNK_WORDS
    this.words[record + META] = FREE
    this.words[record + BUCKET_NEXT] = this.#freeHead
    this.#freeHead = id
    this.#freeCount += 1
  }

  /** Turns a LIVE record without shards, children and list links into the newest ghost. */
  toGhost(id: number, evictedMs: number, isSeen: boolean): void {
    const words = this.words
    const record = id * CHUNK_WORDS
    const meta = words[record + META]!
    words[record + META] = (meta & (USE_KNOWN | (-1 << SPACE_SHIFT))) | GHOST | (isSeen ? GHOST_SEEN : 0)
    words[record + PARENT] = NO_CHUNK
    words[record + TOUCH_MS] = evictedMs
    words[record + GENERATION] = (words[record + GENERATION]! + 1) & GENERATION_MASK
    const newest = words[GHOST_ROOT * CHUNK_WORDS + OLDER]!
    words[newest * CHUNK_WORDS + NEWER] = id
    words[record + OLDER] = newest
    words[record + NEWER] = GHOST_ROOT
    words[GHOST_ROOT * CHUNK_WORDS + OLDER] = id
    this.#ghostCount += 1
  }

  /** Turns a ghost into a LIVE record. Its last use is kept. */
  fromGhost(id: number): void {
    const record = id * CHUNK_WORDS
    this.#unlinkGhost(id)
    this.words[record + META] = (this.words[record + META]! & (USE_KNOWN | (-1 << SPACE_SHIFT))) | LIVE
  }

  /** The ghost that was evicted first, or NO_CHUNK. */
  oldestGhost(): number {
    const oldest = this.words[GHOST_ROOT * CHUNK_WORDS + NEWER]!
    return oldest === GHOST_ROOT ? NO_CHUNK : oldest
  }

  dropGhost(id: number): void {
    this.#unlinkGhost(id)
    this.unhash(id)
    this.free(id)
  }

  /** Records in the fullest bucket. For tests. */
  longestBucket(): number {
    let longest = 0
    for (const first of this.#buckets) {
      let length = 0
      for (let id = first; id !== NO_CHUNK; id = this.words[id * CHUNK_WORDS + BUCKET_NEXT]!) length += 1
      longest = Math.max(longest, length)
    }
    return longest
  }

  /** Checks buckets, states, the ghost ring and the count of free records. For tests. */
  verify(): void {
    let hashed = 0
    for (let bucket = 0; bucket < this.#buckets.length; bucket += 1) {
      for (let id = this.#buckets[bucket]!; id !== NO_CHUNK; id = this.words[id * CHUNK_WORDS + BUCKET_NEXT]!) {
        const meta = this.words[id * CHUNK_WORDS + META]!
        const state = meta & STATE_MASK
        assert(state === LIVE || state === GHOST, 'a bucket names a record that is neither live nor a ghost')
        assert(this.find(meta >>> SPACE_SHIFT, this.words, id * CHUNK_WORDS) === id, 'a hash is in the table twice')
        hashed += 1
      }
    }
    const counts = [this.capacity + FIRST_ID - this.#fresh, 0, 0, 0]
    for (let id = FIRST_ID; id < this.#fresh; id += 1) counts[this.words[id * CHUNK_WORDS + META]! & STATE_MASK]! += 1
    assert(counts[LIVE]! + counts[GHOST]! === hashed, 'a live chunk or ghost cannot be found')
    assert(counts[FREE] === this.#freeCount, 'free records are miscounted')
    assert(counts[GHOST] === this.#ghostCount, 'ghosts are miscounted')
    let walked = 0
    for (let id = this.oldestGhost(); id > GHOST_ROOT; id = this.words[id * CHUNK_WORDS + NEWER]!) {
      assert((this.words[id * CHUNK_WORDS + META]! & STATE_MASK) === GHOST, 'the ghost ring holds another record')
      walked += 1
      if (walked > this.#ghostCount) break
    }
    assert(walked === this.#ghostCount, 'the ghost ring is torn')
  }

  #unlinkGhost(id: number): void {
    const words = this.words
    const newer = words[id * CHUNK_WORDS + NEWER]!
    const older = words[id * CHUNK_WORDS + OLDER]!
    words[older * CHUNK_WORDS + NEWER] = newer
    words[newer * CHUNK_WORDS + OLDER] = older
    this.#ghostCount -= 1
  }

  #hash(id: number, bucket: number): void {
    this.words[id * CHUNK_WORDS + BUCKET_NEXT] = this.#buckets[bucket]!
    this.#buckets[bucket] = id
  }

  #bucketOf(space: number, hash: Uint32Array, at: number): number {
    const low = hash[at]! ^ hash[at + 2]! ^ hash[at + 4]! ^ hash[at + 6]!
    const high = hash[at + 1]! ^ hash[at + 3]! ^ hash[at + 5]! ^ hash[at + 7]!
    const mixed = Math.imul(low, this.#keyLow) + Math.imul(high ^ (space << 12), this.#keyHigh)
    return Math.imul(mixed ^ (mixed >>> 15), 0x9e3779b1) >>> this.#shift
  }
}
