import { assert } from '../core/assert.ts'

const NONE = -1
const FREE = 0
const IDLE = 1
const BUSY = 2

/**
 * The windows of one length over the extents: window w is extents w*length .. (w+1)*length-1. Spans of a class lie
 * only on windows of its length, so that a class alone can always fill the arena without gaps.
 *
 *   free   no extent belongs to a span
 *   idle   some belong to spans, all of them empty: the spans can be dropped, nothing has to move
 *   busy   some extent belongs to a span with live slots
 *
 * Free and idle windows are in two lists, so that one is found in O(1). A span is told with one call, whose cost is
 * the number of windows it overlaps.
 */
export class AlignedWindows {
  /** Extents in a window. */
  readonly length: number
  readonly count: number
  readonly #taken: Uint32Array // extents of the window that belong to a span
  readonly #live: Uint32Array // extents of the window that belong to a span with live slots
  readonly #next: Int32Array
  readonly #previous: Int32Array
  readonly #first = new Int32Array(2).fill(NONE) // by state: FREE, IDLE
  readonly #listed = new Int32Array(2)

  constructor(extentCount: number, length: number) {
    this.length = length
    this.count = Math.floor(extentCount / length)
    this.#taken = new Uint32Array(this.count)
    this.#live = new Uint32Array(this.count)
    this.#next = new Int32Array(this.count)
    this.#previous = new Int32Array(this.count)
    for (let window = this.count - 1; window >= 0; window -= 1) this.#link(window, FREE)
  }

  get freeCount(): number {
    return this.#listed[FREE]!
  }

  get idleCount(): number {
    return this.#listed[IDLE]!
  }

  /** A free window, or -1. */
  firstFree(): number {
    return this.#first[FREE]!
  }

  /** An idle window, or -1. */
  firstIdle(): number {
    return this.#first[IDLE]!
  }

  /** A span was laid over `count` extents (sign 1) or lifted from them (sign -1). */
  addTaken(firstExtent: number, count: number, sign: 1 | -1): void {
    this.#add(this.#taken, firstExtent, count, sign)
  }

  /** A span of `count` extents got its first live slot (sign 1) or lost its last one (sign -1). */
  addLive(firstExtent: number, count: number, sign: 1 | -1): void {
    this.#add(this.#live, firstExtent, count, sign)
  }

  /** Whole-structure check, against what the extents themselves say. For tests. */
  verify(isTaken: (extent: number) => boolean, isLive: (extent: number) => boolean): void {
    const seen = [0, 0, 0]
    for (let window = 0; window < this.count; window += 1) {
      let taken = 0
      let live = 0
      for (let extent = window * this.length; extent < (window + 1) * this.length; extent += 1) {
        taken += isTaken(extent) ? 1 : 0
        live += isLive(extent) ? 1 : 0
      }
      assert(taken === this.#taken[window] && live === this.#live[window], 'a window miscounts its extents')
      seen[this.#state(window)]! += 1
    }
    for (const state of [FREE, IDLE]) {
      let walked = 0
      for (let window = this.#first[state]!; window !== NONE; window = this.#next[window]!) {
        assert(this.#state(window) === state, 'a window is in the wrong list')
        walked += 1
      }
      assert(walked === seen[state] && walked === this.#listed[state], 'a list of windows is incomplete')
    }
  }

  #add(counts: Uint32Array, firstExtent: number, count: number, sign: number): void {
    const end = firstExtent + count
    const last = Math.min(this.count - 1, Math.floor((end - 1) / this.length))
    for (let window = Math.floor(firstExtent / this.length); window <= last; window += 1) {
      const from = Math.max(firstExtent, window * this.length)
      const to = Math.min(end, (window + 1) * this.length)
      const before = this.#state(window)
      counts[window] = counts[window]! + sign * (to - from)
      const after = this.#state(window)
      if (before === after) continue
      if (before !== BUSY) this.#unlink(window, before)
      if (after !== BUSY) this.#link(window, after)
    }
  }

  #state(window: number): number {
    if (this.#taken[window] === 0) return FREE
    return this.#live[window] === 0 ? IDLE : BUSY
  }

  #link(window: number, state: number): void {
    const head = this.#first[state]!
    this.#next[window] = head
    this.#previous[window] = NONE
    if (head !== NONE) this.#previous[head] = window
    this.#first[state] = window
    this.#listed[state] = this.#listed[state]! + 1
  }

  #unlink(window: number, state: number): void {
    const next = this.#next[window]!
    const previous = this.#previous[window]!
    if (previous === NONE) this.#first[state] = next
    else this.#next[previous] = next
    if (next !== NONE) this.#previous[next] = previous
    this.#listed[state] = this.#listed[state]! - 1
  }
}
