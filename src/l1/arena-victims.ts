import type { Spans } from './arena-spans.ts'
import { type Extents, NO_SPAN } from './extents.ts'
import { CLASS_LIMIT, type SizeClasses } from './size-classes.ts'

const NONE = -1
const NEVER = -1
const EXTENTS_PER_SEARCH = 4096

/**
 * Chooses which window of extents changes hands, and empties it.
 *
 * A span of a class with F free slots and n slots a span can be emptied when F >= n: then the slots free outside it,
 * F - (n - live), are enough for its live ones. k spans of the class need F >= k * n. So a search needs counts only,
 * and three tests keep it rare: whether the extents that could be freed add up to a window at all; whether anything
 * has changed since the last search for this length failed; and, beyond 4096 extents, it stops at the best so far.
 */
export class ArenaVictims {
  readonly #classes: SizeClasses
  readonly #extents: Extents
  readonly #spans: Spans
  readonly #failedEpoch = new Float64Array(CLASS_LIMIT).fill(NEVER) // by class that asked
  readonly #neededSlots = new Float64Array(CLASS_LIMIT) // scratch, all 0 between calls
  #cursor = 0 // extent at which the next search begins

  constructor(classes: SizeClasses, extents: Extents, spans: Spans) {
    this.#classes = classes
    this.#extents = extents
    this.#spans = spans
  }

  /** The window for one more span of the class, in units of its span length; or -1. */
  choose(cls: number): number {
    const length = this.#classes.spanExtents[cls]!
    if (this.#failedEpoch[cls] === this.#spans.epoch || this.#freeableExtents() < length) return NONE
    const count = Math.floor(this.#extents.count / length)
    const start = Math.floor(this.#cursor / length) % count
    let best = NONE
    let bestBytes = Number.POSITIVE_INFINITY
    for (let tried = 0; tried < count; tried += 1) {
      const window = (start + tried) % count
      const bytes = this.#liveBytes(window * length, length, bestBytes)
      if (bytes < bestBytes) {
        best = window
        bestBytes = bytes
      }
      if (best === NONE || tried * length < EXTENTS_PER_SEARCH) continue
      this.#cursor = window * length
      break
    }
    if (best === NONE) this.#failedEpoch[cls] = this.#spans.epoch
    return best
  }

  /** Moves every live slot out of the spans that overlap the window, and frees those spans. */
  empty(window: number, length: number, move: (owner: number, fromSlot: number, toSlot: number) => void): void {
    const first = window * length
    const end = first + length
    for (let extent = first; extent < end; extent = this.#behind(extent)) {
      const span = this.#extents.spanOf(extent)
      if (span !== NO_SPAN) this.#spans.condemn(span)
    }
    for (let extent = first; extent < end; extent += 1) {
      const span = this.#extents.spanOf(extent)
      if (span !== NO_SPAN) this.#spans.moveOut(span, move)
    }
  }

  /** Bytes that would move for this window; `limit` or more when it cannot be emptied, or not for less. */
  #liveBytes(first: number, length: number, limit: number): number {
    let bytes = 0
    let extent = first
    for (; extent < first + length && bytes < limit; extent = this.#behind(extent)) {
      const span = this.#extents.spanOf(extent)
      if (span === NO_SPAN) continue
      const cls = this.#spans.classOf(span)
      const needed = this.#neededSlots[cls]! + this.#classes.spanSlots[cls]!
      this.#neededSlots[cls] = needed
      const isStuck = this.#spans.heldSlots(span) > 0 || needed > this.#spans.freeSlots[cls]!
      bytes = isStuck ? limit : bytes + this.#spans.liveSlots(span) * this.#classes.lengthBytes[cls]!
    }
    for (let done = first; done < extent; done = this.#behind(done)) {
      const span = this.#extents.spanOf(done)
      if (span !== NO_SPAN) this.#neededSlots[this.#spans.classOf(span)] = 0
    }
    return bytes
  }

  /** The extent behind the span at this one. */
  #behind(extent: number): number {
    const span = this.#extents.spanOf(extent)
    if (span === NO_SPAN) return extent + 1
    return this.#spans.extentOf(span) + this.#classes.spanExtents[this.#spans.classOf(span)]!
  }

  /** Free extents, and those of as many spans of each class as its free slots could stand in for. */
  #freeableExtents(): number {
    let extents = this.#extents.freeCount
    for (let cls = 0; cls < this.#classes.count; cls += 1) {
      const spans = Math.floor(this.#spans.freeSlots[cls]! / this.#classes.spanSlots[cls]!)
      extents += spans * this.#classes.spanExtents[cls]!
    }
    return extents
  }
}
