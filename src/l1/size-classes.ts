import { assert } from '../core/assert.ts'

/** Different shard lengths an arena can hold. */
export const CLASS_LIMIT = 64

/** `classOf` returns this for a length that no span of this arena can hold. */
export const CLASS_TOO_LONG = -1
/** `classOf` returns this when CLASS_LIMIT other lengths are known already. */
export const CLASS_TABLE_FULL = -2

const SPAN_EXTENTS_MAX = 32
const FILL_RATIO_MIN = 0.98
const MISALIGNED_COST_RATIO = 0.02
const EXTENTS_AIMED_AT = 1024
const PAGE_BYTES = 4096
const EXTENT_BYTES_MIN = 1024 * 1024
const EXTENT_BYTES_MAX = 32 * 1024 * 1024

/** Numbers of slots, of an arena that has them to itself. */
export const SLOT_LIMIT = 2 ** 31 - 1

/** 64-bit words of one row of the journal of classes. */
export const CLASS_ROW = 3

export interface ArenaShape {
  readonly capacityBytes: number
  /** 0 = chosen from the capacity. */
  readonly extentBytes: number
}

/** How an arena of these options is cut. */
export function arenaShape({ capacityBytes, extentBytes }: ArenaShape): ArenaShape & { readonly extentCount: number } {
  assert(Number.isSafeInteger(capacityBytes) && capacityBytes > 0, 'the capacity is a positive number of bytes')
  assert(Number.isSafeInteger(extentBytes) && extentBytes >= 0, 'an extent is a whole number of bytes')
  const bytes = extentBytes === 0 ? defaultExtentBytes(capacityBytes) : Math.min(extentBytes, capacityBytes)
  return { capacityBytes, extentBytes: bytes, extentCount: Math.floor(capacityBytes / bytes) }
}

/** How a class cuts its spans: extents a span, and slots in them. */
export interface SpanShape {
  readonly extents: number
  readonly slots: number
}

/** Extent size for option 0: a 1024th of the capacity in whole pages, 1 to 32 MiB, never over the capacity. */
export function defaultExtentBytes(capacityBytes: number): number {
  const aimed = Math.floor(capacityBytes / EXTENTS_AIMED_AT / PAGE_BYTES) * PAGE_BYTES
  return Math.min(capacityBytes, Math.max(EXTENT_BYTES_MIN, Math.min(EXTENT_BYTES_MAX, aimed)))
}

/**
 * The span with the least cost, as a share of the arena, among those up to the shortest that alone would fill 98 % of
 * it, and those of lengths other classes use already. At most 32 extents; a longer slot gets the fewest that hold it.
 * The cost is what no slot can use, and one span:
 *
 * - the tail of each span, and the extents behind the last whole span: a span that is right in itself can still leave
 *   3 % of a small arena behind;
 * - a span, because almost that much of it lies free in each class before its free slots add up to one that moves;
 * - 2 % when its windows lie across those of another class: what is free between two of the one fits none of the other.
 *
 * @param lengthsInUse extents a span of the other classes.
 * @returns undefined when the arena is shorter than one slot.
 */
export function spanShape(
  lengthBytes: number,
  extentBytes: number,
  extentCount: number,
  lengthsInUse: ReadonlySet<number> = new Set(),
): SpanShape | undefined {
  const fewest = Math.ceil(lengthBytes / extentBytes)
  const most = Math.min(extentCount, Math.max(SPAN_EXTENTS_MAX, fewest))
  let best: SpanShape | undefined
  let bestCost = Number.POSITIVE_INFINITY
  let isFilled = false
  for (let extents = fewest; extents <= most; extents += 1) {
    if (isFilled && !lengthsInUse.has(extents)) continue
    const slots = Math.floor((extents * extentBytes) / lengthBytes)
    const ratio = (Math.floor(extentCount / extents) * slots * lengthBytes) / (extentCount * extentBytes)
    isFilled ||= ratio >= FILL_RATIO_MIN
    const misaligned = isAligned(extents, lengthsInUse) ? 0 : MISALIGNED_COST_RATIO
    const cost = 1 - ratio + extents / extentCount + misaligned
    if (cost >= bestCost) continue
    best = { extents, slots }
    bestCost = cost
  }
  return best
}

/** Whether windows of this length lie within, or are made of, those of each other length. */
function isAligned(extents: number, lengthsInUse: ReadonlySet<number>): boolean {
  for (const other of lengthsInUse) if (other % extents !== 0 && extents % other !== 0) return false
  return true
}

/** The classes of one arena, numbered 0..count-1 in the order they were asked for. Read the arrays, do not write. */
export class SizeClasses {
  /** Bytes of one slot. */
  readonly lengthBytes = new Float64Array(CLASS_LIMIT)
  readonly spanExtents = new Uint32Array(CLASS_LIMIT)
  readonly spanSlots = new Uint32Array(CLASS_LIMIT)
  count = 0
  /** Slot numbers at most, over all classes. */
  readonly slotLimit: number
  readonly #extentBytes: number
  readonly #extentCount: number
  readonly #journal: Float64Array | null

  /** @param journal CLASS_LIMIT rows, for `restore` in a later process. */
  constructor(
    extentBytes: number,
    extentCount: number,
    journal: Float64Array | null = null,
    slotLimit: number = SLOT_LIMIT,
  ) {
    this.slotLimit = slotLimit
    this.#extentBytes = extentBytes
    this.#extentCount = extentCount
    this.#journal = journal
  }

  /** Takes over the classes of the journal. */
  restore(): void {
    const journal = this.#journal!
    for (; this.count < CLASS_LIMIT && journal[this.count * CLASS_ROW] !== 0; this.count += 1) {
      this.lengthBytes[this.count] = journal[this.count * CLASS_ROW]!
      this.spanExtents[this.count] = journal[this.count * CLASS_ROW + 1]!
      this.spanSlots[this.count] = journal[this.count * CLASS_ROW + 2]!
    }
  }

  /** The class of this length, or CLASS_*. The same length gives the same class. */
  of(lengthBytes: number): number {
    assert(Number.isSafeInteger(lengthBytes) && lengthBytes > 0, 'a slot is a positive whole number of bytes')
    for (let cls = 0; cls < this.count; cls += 1) {
      if (this.lengthBytes[cls] === lengthBytes) return cls
    }
    const lengthsInUse = new Set(this.spanExtents.subarray(0, this.count))
    const shape = spanShape(lengthBytes, this.#extentBytes, this.#extentCount, lengthsInUse)
    if (shape === undefined) return CLASS_TOO_LONG
    if (this.count === CLASS_LIMIT) return CLASS_TABLE_FULL
    this.lengthBytes[this.count] = lengthBytes
    this.spanExtents[this.count] = shape.extents
    this.spanSlots[this.count] = shape.slots
    if (this.#journal !== null) {
      this.#journal[this.count * CLASS_ROW + 1] = shape.extents
      this.#journal[this.count * CLASS_ROW + 2] = shape.slots
      this.#journal[this.count * CLASS_ROW] = lengthBytes // last: the row counts from here on
    }
    this.count += 1
    return this.count - 1
  }
}
