import { CHUNK_WORDS, FIRST_SHARD } from './chunk-table.ts'
import { ALL_RANKS, EXPIRED_READ, type Leases, READ } from './leases.ts'
import { NEXT_SHARD, NO_SHARD, SHARD_WORDS, SLOT } from './shard-table.ts'

/** Chunks leased for each one under lease, and besides, after which holds are given up that nobody has asked for. */
const UNASKED_RATIO = 4
const UNASKED_CHUNKS = 64

/** What holds slots in the arena; see `Arena`. */
interface SlotHolder {
  hold(slot: number): void
  unhold(slot: number): void
}

/**
 * The holds on slots under read leases. Lookups are frequent, and moves within the arena rare: with shards of one length
 * there are none. So these holds are kept only from when the arena asks for them, before it moves anything, until
 * it has not asked again for long:
 *
 *                  count: every read lease is walked over, its slots are held
 *   not counted --------------------------------------------------------------> counted: each lease holds its slots
 *               <--------------------------------------------------------------
 *                  several times as many chunks were leased as are: the same walk, its slots are let go
 *
 * So a walk costs each chunk that was leased since the last one a fraction of what its own holds would.
 */
export class ReadSlots {
  readonly #leases: Leases
  readonly #chunks: Uint32Array
  readonly #shards: Uint32Array
  readonly #entries: Uint32Array
  #arena!: SlotHolder
  #isCounted = false
  /** Chunks leased since the arena asked last. */
  #unasked = 0

  constructor(leases: Leases, chunks: Uint32Array, shards: Uint32Array) {
    this.#leases = leases
    this.#chunks = chunks
    this.#shards = shards
    this.#entries = new Uint32Array(leases.entryCapacity)
  }

  /** Names the arena, which asks for this one's holds. Once, and first. */
  holdIn(arena: SlotHolder): void {
    this.#arena = arena
  }

  /** Whether read leases hold their slots now. */
  get isCounted(): boolean {
    return this.#isCounted
  }

  /** The arena asks: holds the slots under read leases from now on. @returns false when they are held already. */
  count(): boolean {
    this.#unasked = 0
    if (this.#isCounted) return false
    this.#isCounted = true
    this.#walk(true)
    return true
  }

  /** A read lease on so many chunks is about to begin. */
  noteRead(chunks: number): void {
    if (!this.#isCounted) return
    this.#unasked += chunks
    const leased = this.#leases.entryCapacity - this.#leases.freeEntries
    if (this.#unasked <= UNASKED_RATIO * leased + UNASKED_CHUNKS) return
    this.#walk(false)
    this.#isCounted = false
  }

  /** A lease of a kind begins on chunks ids[0, count). */
  begin(kind: number, ids: Uint32Array, count: number): void {
    if (isRead(kind) && !this.#isCounted) return
    for (let at = 0; at < count; at += 1) this.#set(ids[at]!, true)
  }

  /** It ends. */
  end(kind: number, ids: Uint32Array, count: number): void {
    if (isRead(kind) && !this.#isCounted) return
    for (let at = count - 1; at >= 0; at -= 1) this.#set(ids[at]!, false)
  }

  #walk(isHeld: boolean): void {
    const leases = this.#leases
    for (let lease = 0; lease < leases.endRow; lease += 1) {
      if (!isRead(leases.kind[lease]!) || leases.rank[lease] !== ALL_RANKS) continue
      const count = leases.entries(lease, this.#entries)
      for (let at = 0; at < count; at += 1) this.#set(this.#entries[at]!, isHeld)
    }
  }

  #set(id: number, isHeld: boolean): void {
    const shards = this.#shards
    for (let shard = this.#chunks[id * CHUNK_WORDS + FIRST_SHARD]!; shard !== NO_SHARD; ) {
      const slot = shards[shard * SHARD_WORDS + SLOT]!
      if (isHeld) this.#arena.hold(slot)
      else this.#arena.unhold(slot)
      shard = shards[shard * SHARD_WORDS + NEXT_SHARD]!
    }
  }
}

function isRead(kind: number): boolean {
  return kind === READ || kind === EXPIRED_READ
}
