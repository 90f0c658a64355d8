import { assert } from '../core/assert.ts'
import { AlignedWindows } from './arena-windows.ts'

/** `spanOf` of an extent that belongs to no span. */
export const NO_SPAN = -1

/** The extents of an arena: which span each belongs to, and the windows of every length in use. */
export class Extents {
  readonly count: number
  readonly #spanOf: Int32Array
  readonly #isLive: Uint8Array // 1 = its span has live slots
  readonly #windows: AlignedWindows[] = [] // one for each span length in use
  #freeCount: number

  constructor(count: number) {
    this.count = count
    this.#freeCount = count
    this.#spanOf = new Int32Array(count).fill(NO_SPAN)
    this.#isLive = new Uint8Array(count)
  }

  /** Extents that belong to no span. */
  get freeCount(): number {
    return this.#freeCount
  }

  spanOf(extent: number): number {
    return this.#spanOf[extent]!
  }

  /** The windows of `length` extents. The first call for a length walks all extents, later ones are O(lengths). */
  windowsOf(length: number): AlignedWindows {
    for (const windows of this.#windows) {
      if (windows.length === length) return windows
    }
    const windows = new AlignedWindows(this.count, length)
    for (let extent = 0; extent < this.count; extent += 1) {
      if (this.#spanOf[extent] !== NO_SPAN) windows.addTaken(extent, 1, 1)
      if (this.#isLive[extent] === 1) windows.addLive(extent, 1, 1)
    }
    this.#windows.push(windows)
    return windows
  }

  /** Lays an empty span over free extents. */
  lay(span: number, first: number, count: number): void {
    this.#spanOf.fill(span, first, first + count)
    this.#freeCount -= count
    for (const windows of this.#windows) windows.addTaken(first, count, 1)
  }

  /** Frees the extents of an empty span. */
  lift(first: number, count: number): void {
    this.#spanOf.fill(NO_SPAN, first, first + count)
    this.#freeCount += count
    for (const windows of this.#windows) windows.addTaken(first, count, -1)
  }

  /** The span over these extents got its first live slot, or lost its last one. */
  setLive(first: number, count: number, isLive: boolean): void {
    this.#isLive.fill(isLive ? 1 : 0, first, first + count)
    for (const windows of this.#windows) windows.addLive(first, count, isLive ? 1 : -1)
  }

  /** Whole-structure check for tests. */
  verify(): void {
    let free = 0
    for (let extent = 0; extent < this.count; extent += 1) {
      if (this.#spanOf[extent] !== NO_SPAN) continue
      free += 1
      assert(this.#isLive[extent] === 0, 'a free extent is live')
    }
    assert(free === this.#freeCount, 'free extents are miscounted')
    const isTaken = (extent: number) => this.#spanOf[extent] !== NO_SPAN
    const isLive = (extent: number) => this.#isLive[extent] === 1
    for (const windows of this.#windows) windows.verify(isTaken, isLive)
  }
}
