import { assert } from '../core/assert.ts'
import { PagedTable } from './arena-paged-table.ts'
import type { Extents } from './extents.ts'
import { CLASS_LIMIT, type SizeClasses } from './size-classes.ts'

/** Returned instead of a slot when there is none. */
export const NO_SLOT = -1

/** 32-bit words of one row of the journal of spans. */
export const SPAN_ROW = 2

const LIVE = 0x80000000 // state of a live slot: LIVE + its holds; of a free one: link to the next free one
const HOLDS = 0x7fffffff
const NONE = 0 // links are number + 1

const PARKED = 0
const EMPTY = 1
const PARTIAL = 2
const FULL = 3
const VICTIM = 4
const LISTED = 3 // spans in the states below this one are in the list of their class and state

/**
 * Spans and their slots.
 *
 *              open               first slot           last free slot
 *   parked ----------->  empty  ------------> partial ---------------> full
 *     ^                    |  <------------           <---------------
 *     +------- drop -------+   last slot freed          a slot freed
 *
 * A span record belongs to its class for good and keeps its slot numbers; a parked one has no extents. So a slot
 * number stays with one record, and its place is first extent + index, not a table entry. Slots of a span are handed
 * out in order the first time (a bump), then from the span's own list of freed ones: opening a span of a million
 * slots costs nothing. Partial spans are used before empty ones, so that empty ones stay whole for other classes.
 */
export class Spans {
  readonly #classes: SizeClasses
  readonly #extents: Extents
  readonly #journal: Uint32Array | null
  readonly #first = new Int32Array(CLASS_LIMIT * LISTED) // heads of lists, link form
  /** Free slots in laid spans, by class. */
  readonly freeSlots = new Float64Array(CLASS_LIMIT)
  /** Laid spans without a live slot, by class. */
  readonly emptySpans = new Uint32Array(CLASS_LIMIT)
  /** Laid spans, by class. */
  readonly laidSpans = new Uint32Array(CLASS_LIMIT)
  /** Grows whenever a reclaim that failed might succeed now. */
  epoch = 0
  usedBytes = 0

  #spanCount = 0
  #slotCount = 0
  readonly #spanColumns = Array.from({ length: 10 }, () => new PagedTable())
  readonly #classOf = this.#spanColumns[0]!
  readonly #base = this.#spanColumns[1]! // first slot number
  readonly #extent = this.#spanColumns[2]! // first extent; garbage while parked
  readonly #live = this.#spanColumns[3]!
  readonly #held = this.#spanColumns[4]! // live slots with a hold
  readonly #freed = this.#spanColumns[5]! // head of the freed slots, link form
  readonly #bump = this.#spanColumns[6]! // slots handed out at least once
  readonly #state = this.#spanColumns[7]!
  readonly #next = this.#spanColumns[8]!
  readonly #previous = this.#spanColumns[9]!
  readonly #slotSpan = new PagedTable()
  readonly #slotOwner = new PagedTable()
  readonly #slotState = new PagedTable()

  /** @param journal rows of SPAN_ROW, for `restore` in a later process; it limits the number of spans. */
  constructor(classes: SizeClasses, extents: Extents, journal: Uint32Array | null = null) {
    this.#classes = classes
    this.#extents = extents
    this.#journal = journal
  }

  /** Takes over the spans of the journal, with these slots live: ascending, with their owners. Others are parked. */
  restore(slots: Uint32Array, owners: Uint32Array): void {
    const journal = this.#journal!
    let at = 0
    while (this.#spanCount * SPAN_ROW < journal.length && journal[this.#spanCount * SPAN_ROW] !== 0) {
      const span = this.#newSpan(journal[this.#spanCount * SPAN_ROW]! - 1)
      const first = at
      while (at < slots.length && slots[at]! < this.#slotCount) at += 1
      this.#restoreSpan(span, slots.subarray(first, at), owners.subarray(first, at))
    }
    assert(at === slots.length, 'a slot in no span')
  }

  classOf(span: number): number {
    return this.#classOf.get(span)
  }

  /** First extent of a laid span. */
  extentOf(span: number): number {
    return this.#extent.get(span)
  }

  liveSlots(span: number): number {
    return this.#live.get(span)
  }

  heldSlots(span: number): number {
    return this.#held.get(span)
  }

  spanOf(slot: number): number {
    return this.#slotSpan.get(slot)
  }

  /** Place of the slot among those of its span. */
  indexOf(slot: number): number {
    return slot - this.#base.get(this.#slotSpan.get(slot))
  }

  isLive(slot: number): boolean {
    return slot >= 0 && slot < this.#slotCount && this.#slotState.get(slot) >= LIVE
  }

  owner(slot: number): number {
    return this.#slotOwner.get(slot)
  }

  /** Whether there is a parked span of the class, or numbers for a new one. */
  canOpen(cls: number): boolean {
    if (this.#first[cls * LISTED + PARKED] !== NONE) return true
    const isFull = this.#journal !== null && (this.#spanCount + 1) * SPAN_ROW > this.#journal.length
    return !isFull && this.#slotCount + this.#classes.spanSlots[cls]! <= this.#classes.slotLimit
  }

  /** Lays a span of the class over free extents. */
  open(cls: number, firstExtent: number): void {
    const parked = this.#first[cls * LISTED + PARKED]!
    const span = parked === NONE ? this.#newSpan(cls) : parked - 1
    if (parked !== NONE) this.#unlink(span)
    this.#lay(span, firstExtent)
    this.#link(span, EMPTY)
  }

  /** Gives the extents of an empty span back. */
  drop(span: number): void {
    const cls = this.#classOf.get(span)
    assert(this.#state.get(span) === EMPTY, 'only an empty span can be dropped')
    this.#unlink(span)
    this.freeSlots[cls] = this.freeSlots[cls]! - this.#classes.spanSlots[cls]!
    this.emptySpans[cls] = this.emptySpans[cls]! - 1
    this.#park(span)
  }

  /** A free slot of the class's laid spans, now live; or NO_SLOT. */
  take(cls: number, owner: number): number {
    const partial = this.#first[cls * LISTED + PARTIAL]!
    const link = partial === NONE ? this.#first[cls * LISTED + EMPTY]! : partial
    if (link === NONE) return NO_SLOT
    const span = link - 1
    const slot = this.#unusedSlot(span)
    this.#makeLive(span, slot, owner)
    return slot
  }

  #makeLive(span: number, slot: number, owner: number): void {
    const cls = this.#classOf.get(span)
    this.#slotOwner.set(slot, owner)
    this.#slotState.set(slot, LIVE)
    const live = this.#live.get(span) + 1
    this.#live.set(span, live)
    this.freeSlots[cls] = this.freeSlots[cls]! - 1
    this.usedBytes += this.#classes.lengthBytes[cls]!
    if (live === 1) {
      this.emptySpans[cls] = this.emptySpans[cls]! - 1
      this.#extents.setLive(this.#extent.get(span), this.#classes.spanExtents[cls]!, true)
    }
    const state = live === this.#classes.spanSlots[cls] ? FULL : PARTIAL
    if (state !== this.#state.get(span)) this.#relink(span, state)
  }

  /** Frees a live slot that nobody holds. */
  free(slot: number): void {
    assert(this.isLive(slot), 'free of a slot that is free')
    assert(this.#slotState.get(slot) === LIVE, 'free of a held slot')
    const span = this.#slotSpan.get(slot)
    const cls = this.#classOf.get(span)
    this.#slotState.set(slot, this.#freed.get(span))
    this.#freed.set(span, slot + 1)
    const live = this.#live.get(span) - 1
    this.#live.set(span, live)
    const free = this.freeSlots[cls]! + 1
    this.freeSlots[cls] = free
    if (free % this.#classes.spanSlots[cls]! === 0) this.epoch += 1
    this.usedBytes -= this.#classes.lengthBytes[cls]!
    if (live === 0) {
      this.emptySpans[cls] = this.emptySpans[cls]! + 1
      this.#extents.setLive(this.#extent.get(span), this.#classes.spanExtents[cls]!, false)
    }
    const state = live === 0 ? EMPTY : PARTIAL
    if (state !== this.#state.get(span)) this.#relink(span, state)
  }

  hold(slot: number): void {
    assert(this.isLive(slot), 'hold of a free slot')
    const state = this.#slotState.get(slot)
    assert(state < LIVE + HOLDS, 'too many holds')
    this.#slotState.set(slot, state + 1)
    if (state === LIVE) {
      const span = this.#slotSpan.get(slot)
      this.#held.set(span, this.#held.get(span) + 1)
    }
  }

  unhold(slot: number): void {
    assert(this.isLive(slot) && this.#slotState.get(slot) > LIVE, 'unhold of a slot that is not held')
    const state = this.#slotState.get(slot) - 1
    this.#slotState.set(slot, state)
    if (state !== LIVE) return
    const span = this.#slotSpan.get(slot)
    const held = this.#held.get(span) - 1
    this.#held.set(span, held)
    if (held === 0) this.epoch += 1
  }

  /** Takes a span out of the lists, so that no slot of it is handed out any more. `moveOut` must follow. */
  condemn(span: number): void {
    const cls = this.#classOf.get(span)
    const live = this.#live.get(span)
    if (live === 0) this.emptySpans[cls] = this.emptySpans[cls]! - 1
    this.freeSlots[cls] = this.freeSlots[cls]! - (this.#classes.spanSlots[cls]! - live)
    this.#relink(span, VICTIM)
  }

  /** Moves the live slots of a condemned span to free slots of its class, and gives its extents back. */
  moveOut(span: number, move: (owner: number, fromSlot: number, toSlot: number) => void): void {
    const cls = this.#classOf.get(span)
    const base = this.#base.get(span)
    const end = base + this.#bump.get(span)
    const live = this.#live.get(span)
    for (let slot = base; slot < end; slot += 1) {
      if (this.#slotState.get(slot) < LIVE) continue
      const owner = this.#slotOwner.get(slot)
      const to = this.take(cls, owner)
      assert(to !== NO_SLOT, 'no free slot to move to')
      move(owner, slot, to)
      this.#slotState.set(slot, NONE)
    }
    this.usedBytes -= live * this.#classes.lengthBytes[cls]!
    this.#live.set(span, 0)
    if (live > 0) this.#extents.setLive(this.#extent.get(span), this.#classes.spanExtents[cls]!, false)
    this.#park(span)
  }

  /** Whole-structure check for tests. */
  verify(): void {
    const totals = new Float64Array(CLASS_LIMIT * 3) // by class: free slots, empty spans, laid spans
    let usedBytes = 0
    for (let span = 0; span < this.#spanCount; span += 1) {
      const cls = this.#classOf.get(span)
      const slots = this.#classes.spanSlots[cls]!
      const live = this.#verifySpan(span, slots)
      usedBytes += live * this.#classes.lengthBytes[cls]!
      if (this.#state.get(span) === PARKED) continue
      totals[cls * 3]! += slots - live
      totals[cls * 3 + 1]! += live === 0 ? 1 : 0
      totals[cls * 3 + 2]! += 1
    }
    assert(usedBytes === this.usedBytes, 'used bytes are miscounted')
    for (let cls = 0; cls < CLASS_LIMIT; cls += 1) {
      assert(totals[cls * 3] === this.freeSlots[cls], 'free slots are miscounted')
      assert(totals[cls * 3 + 1] === this.emptySpans[cls], 'empty spans are miscounted')
      assert(totals[cls * 3 + 2] === this.laidSpans[cls], 'laid spans are miscounted')
    }
  }

  #verifySpan(span: number, slots: number): number {
    const cls = this.#classOf.get(span)
    const base = this.#base.get(span)
    const bump = this.#bump.get(span)
    let live = 0
    let held = 0
    for (let slot = base; slot < base + bump; slot += 1) {
      assert(this.#slotSpan.get(slot) === span, 'a slot is in another span')
      const state = this.#slotState.get(slot)
      live += state >= LIVE ? 1 : 0
      held += state > LIVE ? 1 : 0
    }
    let freed = 0
    for (let link = this.#freed.get(span); link !== NONE; link = this.#slotState.get(link - 1)) freed += 1
    assert(bump <= slots && bump === live + freed, 'a free list is incomplete')
    assert(live === this.#live.get(span) && held === this.#held.get(span), 'a span miscounts its slots')
    const state = this.#state.get(span)
    if (state === PARKED) assert(bump === 0, 'a parked span has slots')
    else assert(state === (live === 0 ? EMPTY : live === slots ? FULL : PARTIAL), 'a span is in the wrong state')
    const previous = this.#previous.get(span)
    const next = previous === NONE ? this.#first[cls * LISTED + state] : this.#next.get(previous - 1)
    assert(state >= LISTED || next === span + 1, 'a span is in no list')
    const extent = this.#extent.get(span)
    const extents = this.#classes.spanExtents[cls]!
    for (let at = extent; state !== PARKED && at < extent + extents; at += 1) {
      assert(this.#extents.spanOf(at) === span, 'an extent of a span is not its own')
    }
    return live
  }

  #unusedSlot(span: number): number {
    const freed = this.#freed.get(span)
    if (freed !== NONE) {
      this.#freed.set(span, this.#slotState.get(freed - 1))
      return freed - 1
    }
    const slot = this.#base.get(span) + this.#bump.get(span)
    this.#bumpTo(span, slot + 1)
    return slot
  }

  /** Makes the slots of a span up to `end` exist. */
  #bumpTo(span: number, end: number): void {
    const start = this.#base.get(span) + this.#bump.get(span)
    this.#bump.set(span, end - this.#base.get(span))
    this.#slotSpan.ensure(end)
    this.#slotOwner.ensure(end)
    this.#slotState.ensure(end)
    for (let slot = start; slot < end; slot += 1) this.#slotSpan.set(slot, span)
  }

  /** The extents of a parked or new span, without a live slot. */
  #lay(span: number, firstExtent: number): void {
    const cls = this.#classOf.get(span)
    this.#extent.set(span, firstExtent)
    if (this.#journal !== null) this.#journal[span * SPAN_ROW + 1] = firstExtent + 1
    this.#extents.lay(span, firstExtent, this.#classes.spanExtents[cls]!)
    this.freeSlots[cls] = this.freeSlots[cls]! + this.#classes.spanSlots[cls]!
    this.emptySpans[cls] = this.emptySpans[cls]! + 1
    this.laidSpans[cls] = this.laidSpans[cls]! + 1
  }

  #restoreSpan(span: number, slots: Uint32Array, owners: Uint32Array): void {
    const place = this.#journal![span * SPAN_ROW + 1]! - 1
    if (slots.length === 0) {
      this.#journal![span * SPAN_ROW + 1] = 0
      this.#link(span, PARKED)
      return
    }
    this.#lay(span, place)
    this.#link(span, EMPTY)
    const end = slots.at(-1)! + 1
    this.#bumpTo(span, end)
    for (let slot = this.#base.get(span), at = 0; slot < end; slot += 1) {
      if (slot !== slots[at]) {
        this.#slotState.set(slot, this.#freed.get(span))
        this.#freed.set(span, slot + 1)
        continue
      }
      this.#makeLive(span, slot, owners[at]!)
      at += 1
    }
  }

  #newSpan(cls: number): number {
    const span = this.#spanCount
    if (this.#journal !== null) this.#journal[span * SPAN_ROW] = cls + 1
    this.#spanCount += 1
    for (const column of this.#spanColumns) column.ensure(this.#spanCount)
    this.#classOf.set(span, cls)
    this.#base.set(span, this.#slotCount)
    this.#slotCount += this.#classes.spanSlots[cls]!
    return span
  }

  #park(span: number): void {
    const cls = this.#classOf.get(span)
    if (this.#journal !== null) this.#journal[span * SPAN_ROW + 1] = 0
    this.#extents.lift(this.#extent.get(span), this.#classes.spanExtents[cls]!)
    this.laidSpans[cls] = this.laidSpans[cls]! - 1
    this.#freed.set(span, NONE)
    this.#bump.set(span, 0)
    this.#link(span, PARKED)
    this.epoch += 1
  }

  #relink(span: number, state: number): void {
    if (this.#state.get(span) < LISTED) this.#unlink(span)
    if (state < LISTED) this.#link(span, state)
    else this.#state.set(span, state)
  }

  #link(span: number, state: number): void {
    const list = this.#classOf.get(span) * LISTED + state
    const head = this.#first[list]!
    this.#state.set(span, state)
    this.#next.set(span, head)
    this.#previous.set(span, NONE)
    if (head !== NONE) this.#previous.set(head - 1, span + 1)
    this.#first[list] = span + 1
  }

  #unlink(span: number): void {
    const next = this.#next.get(span)
    const previous = this.#previous.get(span)
    if (previous === NONE) this.#first[this.#classOf.get(span) * LISTED + this.#state.get(span)] = next
    else this.#next.set(previous - 1, next)
    if (next !== NONE) this.#previous.set(next - 1, previous)
  }
}
