import { CHUNK_WORDS, DOOMED, LIVE, META, NO_CHUNK, PARENT, SPACE_SHIFT, STATE_MASK } from './chunk-table.ts'
import { RETRIEVE_COPY, STORE_COPY } from './copy-log.ts'
import type { L1Tables } from './l1-tables.ts'
import { ALL_RANKS, EXPIRED_READ, EXPIRED_WRITE, leaseUnit, READ, WRITE } from './leases.ts'
import type { L1Options } from './options.ts'
import { Damage, demand, SlotMaps } from './recovery-slots.ts'
import {
  CHUNK,
  NO_SHARD,
  QUARANTINED,
  RANK_MASK,
  RANK_STATE,
  READABLE,
  RESERVED,
  SHARD_FREE,
  SHARD_STATE_MASK,
  SHARD_STATE_SHIFT,
  SHARD_WORDS,
  SLOT,
} from './shard-table.ts'

/** What becomes of a chunk record. */
export const GONE = 0
export const KEPT = 1
/** It cannot be found any more, and stays until those who copy from its slots are done. */
export const HELD = 2

const FIRST_ID = 3
const UNKNOWN = 0
const UNDER_WAY = 1
const GOOD = 2
const BAD = 3
const HASH_WORDS = 8

/** What the survey must know of a key space. */
export interface SurveySpace {
  readonly ranks: number
  readonly shardBytes: number
  /** The part of L1 that its chunks lie in. */
  readonly part: number
}

/** What of an earlier engine's tables is taken over. Every array is by record number, of the table's length. */
export interface Survey {
  readonly chunks: Uint8Array
  /** KEPT chunks, parents before children. */
  readonly order: Uint32Array
  /** SHARD_FREE, READABLE or QUARANTINED. */
  readonly shards: Uint8Array
  /** 0, EXPIRED_WRITE or EXPIRED_READ. */
  readonly leases: Uint8Array
  /** By row of the copy log: 1 = the copy may be under way. */
  readonly copies: Uint8Array
  /** By lease: retrievals that may be under way. */
  readonly readers: Uint32Array
  /** The greatest owner of a lease that is taken over; 0 = none is. */
  readonly ownerMax: number
  /** READABLE shards of LIVE chunks that are not taken over: without their parent. */
  readonly droppedShards: number
}

/**
 * Looks through the tables that an earlier engine left and says what may be taken over. It changes nothing, and trusts
 * nothing that it reads: every number is checked before it is used.
 *
 *   slot of a shard   lies in a laid span, and in no other shard's
 *   READABLE          kept when its chunk is LIVE, of a known space, of this slot's length and part, and so is its
 *                     parent's of the same rank, up to the root of the chain
 *   RESERVED          in a lease that a store is under way to: quarantined; in any other: free
 *   QUARANTINED       the same
 *   read lease        kept while a retrieval from its slots is under way; what it names stays, found or not
 *
 * @param isLeft whether an owner of copies may be alive: a worker that was registered.
 * @returns why nothing may be taken over: the tables are not what the order of stores can leave behind.
 */
export function surveyTables(
  tables: L1Tables,
  options: L1Options,
  spaces: readonly SurveySpace[],
  isLeft: (owner: number) => boolean,
): Survey | string {
  try {
    return new Surveyor(tables, options, spaces, isLeft).survey()
  } catch (error) {
    if (error instanceof Damage) return error.message
    throw error
  }
}

class Surveyor {
  readonly #tables: L1Tables
  readonly #spaces: readonly SurveySpace[]
  readonly #isLeft: (owner: number) => boolean
  readonly #slots: SlotMaps
  readonly #chunkCount: number
  readonly #chunks: Uint8Array
  readonly #shards: Uint8Array
  readonly #leases: Uint8Array
  readonly #copies: Uint8Array
  /** Copies under way, by lease. */
  readonly #stores: Uint32Array
  readonly #readers: Uint32Array
  /** READABLE shards by chunk, as lists. */
  readonly #firstShard: Uint32Array
  readonly #nextShard: Uint32Array

  constructor(
    tables: L1Tables,
    options: L1Options,
    spaces: readonly SurveySpace[],
    isLeft: (owner: number) => boolean,
  ) {
    this.#tables = tables
    this.#spaces = spaces
    this.#isLeft = isLeft
    this.#slots = new SlotMaps(tables, options)
    this.#chunkCount = tables.chunks.length / CHUNK_WORDS
    this.#chunks = new Uint8Array(this.#chunkCount)
    this.#shards = new Uint8Array(tables.shards.length / SHARD_WORDS)
    this.#leases = new Uint8Array(tables.leases.kind.length)
    this.#copies = new Uint8Array(tables.copies.kind.length)
    this.#stores = new Uint32Array(this.#leases.length)
    this.#readers = new Uint32Array(this.#leases.length)
    this.#firstShard = new Uint32Array(this.#chunkCount)
    this.#nextShard = new Uint32Array(this.#shards.length)
  }

  survey(): Survey {
    this.#readShards()
    const order = this.#orderChunks()
    this.#checkHashes(order)
    const droppedShards = this.#keepShards(order)
    this.#readCopies()
    this.#readLeases()
    this.#dropCopies()
    const kept = order.filter((id) => this.#chunks[id] === KEPT)
    const { owner } = this.#tables.leases
    const ownerMax = this.#leases.reduce((most, kind, row) => (kind === 0 ? most : Math.max(most, owner[row]!)), 0)
    return {
      chunks: this.#chunks,
      order: kept,
      shards: this.#shards,
      leases: this.#leases,
      copies: this.#copies,
      readers: this.#readers,
      ownerMax,
      droppedShards,
    }
  }

  /** Claims the slot of every shard, and lists the READABLE ones by chunk. */
  #readShards(): void {
    const words = this.#tables.shards
    for (let shard = 1; shard < this.#shards.length; shard += 1) {
      const at = shard * SHARD_WORDS
      const state = (words[at + RANK_STATE]! >>> SHARD_STATE_SHIFT) & SHARD_STATE_MASK
      if (state === SHARD_FREE) continue
      demand(state <= QUARANTINED, 'a shard has no known state')
      const lengthBytes = this.#slots.claim(words[at + SLOT]!)
      const id = words[at + CHUNK]!
      if (state !== READABLE || id < FIRST_ID || id >= this.#chunkCount) continue
      const meta = this.#tables.chunks[id * CHUNK_WORDS + META]!
      const space = this.#spaces[meta >>> SPACE_SHIFT]
      const rank = words[at + RANK_STATE]! & RANK_MASK
      const isOfChunk = (meta & STATE_MASK) === LIVE || (meta & STATE_MASK) === DOOMED
      if (!isOfChunk || space === undefined || rank >= space.ranks || space.shardBytes !== lengthBytes) continue
      if (space.part !== this.#slots.partOf(words[at + SLOT]!)) continue
      demand(this.#shardOf(id, rank) === NO_SHARD, 'a rank of a chunk has two shards')
      this.#nextShard[shard] = this.#firstShard[id]!
      this.#firstShard[id] = shard
    }
  }

  /** LIVE chunks with a READABLE shard and such a parent, up to the root: parents before children. */
  #orderChunks(): Uint32Array {
    const verdicts = new Uint8Array(this.#chunkCount)
    const order = new Uint32Array(this.#chunkCount)
    const path: number[] = []
    let count = 0
    for (let start = FIRST_ID; start < this.#chunkCount; start += 1) {
      let id = start
      while (verdicts[id] === UNKNOWN) {
        if (!this.#hasBytes(id)) {
          verdicts[id] = BAD
          break
        }
        verdicts[id] = UNDER_WAY
        path.push(id)
        const parent = this.#tables.chunks[id * CHUNK_WORDS + PARENT]!
        if (parent === NO_CHUNK) break
        demand(parent >= FIRST_ID && parent < this.#chunkCount, 'a parent is no chunk')
        demand(verdicts[parent] !== UNDER_WAY, 'a chunk is its own ancestor')
        id = parent
      }
      while (path.length > 0) {
        const above = path.pop()!
        verdicts[above] = this.#fitsParent(above, verdicts) ? GOOD : BAD
        if (verdicts[above] === GOOD) order[count++] = above
      }
    }
    return order.slice(0, count)
  }

  #hasBytes(id: number): boolean {
    const isLive = (this.#tables.chunks[id * CHUNK_WORDS + META]! & STATE_MASK) === LIVE
    return isLive && this.#firstShard[id] !== NO_SHARD
  }

  #fitsParent(id: number, verdicts: Uint8Array): boolean {
    const words = this.#tables.chunks
    const parent = words[id * CHUNK_WORDS + PARENT]!
    if (parent === NO_CHUNK) return true
    const space = words[id * CHUNK_WORDS + META]! >>> SPACE_SHIFT
    return verdicts[parent] === GOOD && words[parent * CHUNK_WORDS + META]! >>> SPACE_SHIFT === space
  }

  /** No two chunks with one name. */
  #checkHashes(order: Uint32Array): void {
    const words = this.#tables.chunks
    const mask = 2 ** Math.max(4, Math.ceil(Math.log2(order.length + 1))) - 1
    const buckets = new Uint32Array(mask + 1)
    const next = new Uint32Array(this.#chunkCount)
    for (const id of order) {
      const record = id * CHUNK_WORDS
      const bucket = (words[record + 1]! ^ words[record + 6]!) & mask
      for (let other = buckets[bucket]!; other !== NO_CHUNK; other = next[other]!) {
        demand(!this.#isSameName(record, other * CHUNK_WORDS), 'a chunk is there twice')
      }
      next[id] = buckets[bucket]!
      buckets[bucket] = id
    }
  }

  #isSameName(record: number, other: number): boolean {
    const words = this.#tables.chunks
    if (words[record + META]! >>> SPACE_SHIFT !== words[other + META]! >>> SPACE_SHIFT) return false
    for (let word = 0; word < HASH_WORDS; word += 1) if (words[record + word] !== words[other + word]) return false
    return true
  }

  /** Keeps the shards whose parent's shard of the same rank is kept, and the chunks that have one. @returns others. */
  #keepShards(order: Uint32Array): number {
    const { chunks, shards } = this.#tables
    let dropped = 0
    for (const id of order) {
      const parent = chunks[id * CHUNK_WORDS + PARENT]!
      for (let shard = this.#firstShard[id]!; shard !== NO_SHARD; shard = this.#nextShard[shard]!) {
        const rank = shards[shard * SHARD_WORDS + RANK_STATE]! & RANK_MASK
        const isUnderParent = parent === NO_CHUNK || this.#shards[this.#shardOf(parent, rank)] === READABLE
        if (isUnderParent) this.#shards[shard] = READABLE
        if (isUnderParent) this.#chunks[id] = KEPT
      }
    }
    for (let id = FIRST_ID; id < this.#chunkCount; id += 1) {
      if ((chunks[id * CHUNK_WORDS + META]! & STATE_MASK) !== LIVE) continue
      for (let shard = this.#firstShard[id]!; shard !== NO_SHARD; shard = this.#nextShard[shard]!) {
        if (this.#shards[shard] !== READABLE) dropped += 1
      }
    }
    return dropped
  }

  #readCopies(): void {
    const { copies, leases } = this.#tables
    const unit = leaseUnit(leases.kind.length)
    for (let row = 0; row < this.#copies.length; row += 1) {
      const kind = copies.kind[row]!
      if (kind === 0 || !this.#isLeft(copies.owner[row]!)) continue
      demand(kind === STORE_COPY || kind === RETRIEVE_COPY, 'a copy of no known kind')
      const lease = copies.lease[row]!
      const leaseRow = lease % unit
      demand(Number.isSafeInteger(lease) && lease > 0 && leaseRow < this.#leases.length, 'a copy under no lease')
      if (leases.generation[leaseRow] !== (lease - leaseRow) / unit) continue // it has ended
      const open = leases.kind[leaseRow]!
      const isOpen =
        kind === STORE_COPY ? open === WRITE || open === EXPIRED_WRITE : open === READ || open === EXPIRED_READ
      if (!isOpen) continue
      const counts = kind === STORE_COPY ? this.#stores : this.#readers
      counts[leaseRow] = counts[leaseRow]! + 1
      this.#copies[row] = 1
    }
  }

  #readLeases(): void {
    const { leases } = this.#tables
    const seen = new Uint8Array(leases.entryRef.length)
    const writers = new Uint8Array(this.#shards.length)
    for (let row = 0; row < leases.kind.length; row += 1) {
      const kind = leases.kind[row]!
      demand(kind <= EXPIRED_READ, 'a lease of no known kind')
      const isRead = (kind === READ || kind === EXPIRED_READ) && leases.rank[row] === ALL_RANKS
      if (isRead && this.#readers[row]! > 0) this.#keepReader(row, this.#entriesOf(row, seen))
      if (kind === WRITE || kind === EXPIRED_WRITE) this.#keepWriter(row, this.#entriesOf(row, seen), writers)
    }
  }

  /** Forgets copies under leases that are not kept. */
  #dropCopies(): void {
    const unit = leaseUnit(this.#leases.length)
    for (let row = 0; row < this.#copies.length; row += 1) {
      if (this.#copies[row] === 1 && this.#leases[this.#tables.copies.lease[row]! % unit] === 0) this.#copies[row] = 0
    }
  }

  #entriesOf(row: number, seen: Uint8Array): number[] {
    const { head, count, entryRef, entryNext, entryRun } = this.#tables.leases
    const entries: number[] = []
    demand(count[row]! < entryRef.length, 'a lease with more entries than there are')
    for (let entry = head[row]!, left = count[row]!; left > 0; ) {
      demand(entry > 0 && entry < entryRef.length && seen[entry] === 0, 'an entry of two leases, or of none')
      const run = entryRun[entry]!
      demand(run > 0 && run <= left, 'an entry longer than its lease')
      seen[entry] = 1
      for (let at = 0; at < run; at += 1) entries.push(entryRef[entry]! + at)
      left -= run
      entry = entryNext[entry]!
    }
    return entries
  }

  /** Whatever is copied from stays where it is. */
  #keepReader(row: number, chunks: readonly number[]): void {
    const space = this.#tables.leases.space[row]!
    demand(space < this.#spaces.length, 'a read lease of no key space')
    this.#leases[row] = EXPIRED_READ
    for (const id of chunks) {
      const hasBytes = id >= FIRST_ID && id < this.#chunkCount && this.#firstShard[id] !== NO_SHARD
      demand(hasBytes, 'a read lease on no chunk')
      const isOfSpace = this.#tables.chunks[id * CHUNK_WORDS + META]! >>> SPACE_SHIFT === space
      demand(isOfSpace, 'a read lease on a chunk of another key space')
      if (this.#chunks[id] === GONE) this.#chunks[id] = HELD
      for (let shard = this.#firstShard[id]!; shard !== NO_SHARD; shard = this.#nextShard[shard]!) {
        this.#shards[shard] = READABLE
      }
    }
  }

  /** Once a shard of it is READABLE its commit was under way: the writer was done. */
  #keepWriter(row: number, shards: readonly number[], writers: Uint8Array): void {
    const { leases, shards: words } = this.#tables
    const space = this.#spaces[leases.space[row]!]
    let isWriting = this.#stores[row]! > 0
    let open = 0
    for (const shard of shards) {
      if (shard === NO_SHARD) continue
      demand(shard < this.#shards.length && writers[shard] === 0, 'a shard with two writers')
      writers[shard] = 1
      const state = (words[shard * SHARD_WORDS + RANK_STATE]! >>> SHARD_STATE_SHIFT) & SHARD_STATE_MASK
      if (state === READABLE) isWriting = false
      if (state === RESERVED || state === QUARANTINED) open += 1
    }
    if (!isWriting || open === 0) return
    demand(space !== undefined, 'a write lease of no key space')
    this.#leases[row] = EXPIRED_WRITE
    for (const shard of shards) {
      const state = (words[shard * SHARD_WORDS + RANK_STATE]! >>> SHARD_STATE_SHIFT) & SHARD_STATE_MASK
      if (state !== RESERVED && state !== QUARANTINED) continue
      const slot = words[shard * SHARD_WORDS + SLOT]!
      const isOfSpace = this.#slots.lengthOf(slot) === space.shardBytes && this.#slots.partOf(slot) === space.part
      demand(isOfSpace, 'a slot of another length or part than its writer was given')
      this.#shards[shard] = QUARANTINED
    }
  }

  #shardOf(id: number, rank: number): number {
    let shard = this.#firstShard[id]!
    while (shard !== NO_SHARD && (this.#tables.shards[shard * SHARD_WORDS + RANK_STATE]! & RANK_MASK) !== rank) {
      shard = this.#nextShard[shard]!
    }
    return shard
  }
}
