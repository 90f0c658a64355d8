import { assert } from '../core/assert.ts'
import { NO_SLOT, Spans } from './arena-spans.ts'
import { ArenaVictims } from './arena-victims.ts'
import { Extents, NO_SPAN } from './extents.ts'
import { type ArenaShape, arenaShape, SizeClasses, SLOT_LIMIT } from './size-classes.ts'

export { NO_SLOT } from './arena-spans.ts'
export { CLASS_LIMIT, CLASS_TABLE_FULL, CLASS_TOO_LONG } from './size-classes.ts'

/** Share of the arena that is kept free at most, so that windows can change hands. */
const ROOM_RATIO_MAX = 0.02

/**
 * What is needed to find slots again after a crash: which lengths there are, and where each span lies.
 *
 *   classes  CLASS_LIMIT rows of 3: bytes of a slot (0 = no class), extents of a span, slots of a span
 *   spans    rows of 2 by span number: class + 1 (0 = no more spans), first extent + 1 (0 = parked)
 *
 * Slot numbers follow from it: each span has the numbers behind those of the span before.
 */
export interface ArenaJournal {
  readonly classes: Float64Array
  readonly spans: Uint32Array
}

/** Told of each slot that moves: copy the bytes at `offsetOf(fromSlot)` to `offsetOf(toSlot)`, record the new slot. */
export type MoveSlot = (owner: number, fromSlot: number, toSlot: number) => void

/**
 * Who owns which bytes of L1. Bookkeeping only: it never touches the bytes.
 *
 *   arena    |  extent  |  extent  |  extent  |  extent  |  extent  | ... | rest |
 *   class A  |slot|slot|slot|slot|..|                                 span of 2 extents, tail lost
 *   class B                         |slot|slot|slot|slot|             span of 1 extent
 *
 * A size class is an exact length. A class takes spans of s extents, aligned to s, and cuts them into slots; s is
 * chosen so that little is lost (see `spanShape`). A slot is a number; its offset is arithmetic.
 *
 * When lengths shift, extents must go from one class to another. Emptying an extent by evicting what lies in it would
 * break the order of eviction: an extent mixes old and new chunks, parents and children, and freeing one extent would
 * throw out chunks that are far from being the oldest. So the caller goes on evicting its globally oldest leaf, which
 * may be of any class, and asks `reclaim` after each. As soon as the free slots of the other classes, scattered as they
 * are, add up to a span, the live slots of one window move into them, and the window changes hands. What is evicted,
 * and in which order, is what exact LRU evicts; the price is a copy of at most as many bytes as the window has.
 *
 * A held slot does not move: somebody knows its address. allocate, free, hold and unhold are O(1).
 */
export class Arena {
  readonly capacityBytes: number
  readonly extentBytes: number
  readonly #classes: SizeClasses
  readonly #extents: Extents
  readonly #spans: Spans
  readonly #victims: ArenaVictims
  readonly #countReads: () => boolean
  #moving = false

  /**
   * @param journal what must outlive this engine; absent = nothing. Not empty = an earlier engine's: see `restore`.
   * @param countReads asked before anything moves: holds those slots that must not and are not held yet. True when
   * there were any, or may have been.
   * @param slotLimit slots have the numbers below it.
   */
  constructor(
    options: ArenaShape,
    journal: ArenaJournal | null = null,
    countReads: () => boolean = () => false,
    slotLimit = SLOT_LIMIT,
  ) {
    this.#countReads = countReads
    const { capacityBytes, extentBytes, extentCount } = arenaShape(options)
    this.capacityBytes = capacityBytes
    this.extentBytes = extentBytes
    this.#classes = new SizeClasses(this.extentBytes, extentCount, journal?.classes ?? null, slotLimit)
    this.#extents = new Extents(extentCount)
    this.#spans = new Spans(this.#classes, this.#extents, journal?.spans ?? null)
    this.#victims = new ArenaVictims(this.#classes, this.#extents, this.#spans)
  }

  /**
   * Takes over the spans of an earlier engine, with these slots live and not held. They were checked: see
   * recovery-survey.ts.
   *
   * @param slots ascending. @param owners as given to `allocate`, by slot of `slots`.
   */
  restore(slots: Uint32Array, owners: Uint32Array): void {
    this.#classes.restore()
    for (let cls = 0; cls < this.#classes.count; cls += 1) this.#extents.windowsOf(this.#classes.spanExtents[cls]!)
    this.#spans.restore(slots, owners)
  }

  /** Bytes of live slots. */
  get usedBytes(): number {
    return this.#spans.usedBytes
  }

  /** Bytes no slot can use now: tails of laid spans, and what lies behind the last extent. */
  get wasteBytes(): number {
    let waste = this.capacityBytes - this.#extents.count * this.extentBytes
    for (let cls = 0; cls < this.#classes.count; cls += 1) {
      const slotBytes = this.#classes.spanSlots[cls]! * this.#classes.lengthBytes[cls]!
      waste += this.#spans.laidSpans[cls]! * (this.#classes.spanExtents[cls]! * this.extentBytes - slotBytes)
    }
    return waste
  }

  /**
   * Bytes that slots can use before room is short: all but the waste and, when several classes share the arena, two
   * spans of each, 2 % at most. With less than that free, it may lie so scattered that no window can change hands.
   */
  get usableBytes(): number {
    let sharing = 0
    let roomBytes = 0
    for (let cls = 0; cls < this.#classes.count; cls += 1) {
      if (this.#spans.laidSpans[cls] === 0) continue
      sharing += 1
      roomBytes += 2 * this.#classes.spanSlots[cls]! * this.#classes.lengthBytes[cls]!
    }
    const keptBytes = sharing > 1 ? Math.min(roomBytes, ROOM_RATIO_MAX * this.capacityBytes) : 0
    return this.capacityBytes - this.wasteBytes - keptBytes
  }

  /** The class of this length: CLASS_TOO_LONG or CLASS_TABLE_FULL when there can be none. Idempotent. */
  classOf(lengthBytes: number): number {
    const cls = this.#classes.of(lengthBytes)
    if (cls >= 0) this.#extents.windowsOf(this.#classes.spanExtents[cls]!)
    return cls
  }

  /** How many slots of the class `allocate` would give in a row, without a reclaim, if slot numbers last. */
  freeSlots(cls: number): number {
    if (!this.#spans.canOpen(cls)) return this.#spans.freeSlots[cls]!
    const windows = this.#extents.windowsOf(this.#classes.spanExtents[cls]!)
    const others = windows.freeCount + windows.idleCount - this.#spans.emptySpans[cls]!
    return this.#spans.freeSlots[cls]! + others * this.#classes.spanSlots[cls]!
  }

  /** Slots of the class when it has the arena to itself. */
  slotsMax(cls: number): number {
    return Math.floor(this.#extents.count / this.#classes.spanExtents[cls]!) * this.#classes.spanSlots[cls]!
  }

  /**
   * A slot of the class, or NO_SLOT. Takes free extents, and empty spans of other classes, when it must.
   *
   * @param owner any number of 0..2^32-1; comes back in `owner` and in moves.
   */
  allocate(cls: number, owner: number): number {
    assert(!this.#moving, 'allocate within a move')
    const slot = this.#spans.take(cls, owner)
    if (slot !== NO_SLOT || !this.#open(cls)) return slot
    return this.#spans.take(cls, owner)
  }

  /** Frees a slot that nobody holds. */
  free(slot: number): void {
    assert(!this.#moving, 'free within a move')
    this.#spans.free(slot)
  }

  /** Keeps the slot where it is: it is leased, or being written. Counted; each hold needs its unhold. */
  hold(slot: number): void {
    this.#spans.hold(slot)
  }

  unhold(slot: number): void {
    this.#spans.unhold(slot)
  }

  /** Where the slot's bytes begin. */
  offsetOf(slot: number): number {
    const span = this.#spans.spanOf(slot)
    const lengthBytes = this.#classes.lengthBytes[this.#spans.classOf(span)]!
    return this.#spans.extentOf(span) * this.extentBytes + this.#spans.indexOf(slot) * lengthBytes
  }

  lengthOf(slot: number): number {
    return this.#classes.lengthBytes[this.#spans.classOf(this.#spans.spanOf(slot))]!
  }

  /** The number given to `allocate`. */
  owner(slot: number): number {
    assert(this.#spans.isLive(slot), 'owner of a free slot')
    return this.#spans.owner(slot)
  }

  /**
   * Makes room for one more span of the class by moving live slots of other classes closer together. The window with
   * the fewest live bytes is emptied. Cheap when it cannot be done.
   *
   * @param move called for each slot moved; it may read this arena but not change it. The old slot is free, and its
   * bytes may be overwritten, only after `reclaim` returns.
   * @returns true when the next `allocate(cls)` succeeds. False: evict one more chunk and ask again. Once slot numbers
   * have run out, only slots of the class itself that get free help.
   */
  reclaim(cls: number, move: MoveSlot): boolean {
    assert(!this.#moving, 'reclaim within a move')
    if (this.freeSlots(cls) > 0) return true
    if (!this.#spans.canOpen(cls)) return false
    const window = this.#choose(cls)
    if (window < 0) return false
    this.#moving = true
    this.#victims.empty(window, this.#classes.spanExtents[cls]!, move)
    this.#moving = false
    return true
  }

  /** The window to be emptied, or -1. Holds are asked for only where there is one without them. */
  #choose(cls: number): number {
    const window = this.#victims.choose(cls)
    return window >= 0 && this.#countReads() ? this.#victims.choose(cls) : window
  }

  /** Whole-structure check for tests. */
  verify(): void {
    this.#extents.verify()
    this.#spans.verify()
    assert(this.usedBytes + this.wasteBytes <= this.capacityBytes, 'more bytes in use than there are')
  }

  #open(cls: number): boolean {
    if (!this.#spans.canOpen(cls)) return false
    const length = this.#classes.spanExtents[cls]!
    const windows = this.#extents.windowsOf(length)
    let window = windows.firstFree()
    if (window < 0) {
      window = windows.firstIdle()
      if (window < 0) return false
      for (let extent = window * length; extent < (window + 1) * length; extent += 1) {
        const span = this.#extents.spanOf(extent)
        if (span !== NO_SPAN) this.#spans.drop(span)
      }
    }
    this.#spans.open(cls, window * length)
    return true
  }
}
