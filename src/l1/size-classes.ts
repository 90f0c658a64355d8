import { assert } from '../core/assert.ts'

/** Different shard lengths an arena can hold. */
export const CLASS_LIMIT = 64

/** `classOf` returns this for a length that no span of this arena can hold. */
export const CLASS_TOO_LONG = -1
/** `classOf` returns this when CLASS_LIMIT other lengths are known already. */
export const CLASS_TABLE_FULL = -2

const SPAN_EXTENTS_MAX = 32
const FILL_RATIO_MIN = 0.98
const EXTENTS_AIMED_AT = 256
const PAGE_BYTES = 4096
const EXTENT_BYTES_MIN = 1024 * 1024
const EXTENT_BYTES_MAX = 32 * 1024 * 1024

/** How a class cuts its spans: extents a span, and slots in them. */
export interface SpanShape {
  readonly extents: number
  readonly slots: number
}

/** Extent size for option 0: a 256th of the capacity in whole pages, 1 to 32 MiB, never over the capacity. */
export function defaultExtentBytes(capacityBytes: number): number {
  const aimed = Math.floor(capacityBytes / EXTENTS_AIMED_AT / PAGE_BYTES) * PAGE_BYTES
  return Math.min(capacityBytes, Math.max(EXTENT_BYTES_MIN, Math.min(EXTENT_BYTES_MAX, aimed)))
}

/**
 * The shortest span, of at most 32 extents, with which this class alone would fill 98 % of the arena; else the one
 * that fills most. The fill counts the tail of each span, and the extents behind the last whole span: a span that is
 * right in itself can still leave 3 % of a small arena behind. A length over 32 extents gets the fewest that hold it.
 *
 * @returns undefined when the arena is shorter than one slot.
 */
export function spanShape(lengthBytes: number, extentBytes: number, extentCount: number): SpanShape | undefined {
  const fewest = Math.ceil(lengthBytes / extentBytes)
  const most = Math.min(extentCount, Math.max(SPAN_EXTENTS_MAX, fewest))
  let best: SpanShape | undefined
  let bestRatio = 0
  for (let extents = fewest; extents <= most; extents += 1) {
    const slots = Math.floor((extents * extentBytes) / lengthBytes)
    const ratio = (Math.floor(extentCount / extents) * slots * lengthBytes) / (extentCount * extentBytes)
    if (ratio > bestRatio) {
      best = { extents, slots }
      bestRatio = ratio
    }
    if (ratio >= FILL_RATIO_MIN) break
  }
  return best
}

/** The classes of one arena, numbered 0..count-1 in the order they were asked for. Read the arrays, do not write. */
export class SizeClasses {
  /** Bytes of one slot. */
  readonly lengthBytes = new Float64Array(CLASS_LIMIT)
  readonly spanExtents = new Uint32Array(CLASS_LIMIT)
  readonly spanSlots = new Uint32Array(CLASS_LIMIT)
  count = 0
  readonly #extentBytes: number
  readonly #extentCount: number

  constructor(extentBytes: number, extentCount: number) {
    this.#extentBytes = extentBytes
    this.#extentCount = extentCount
  }

  /** The class of this length, or CLASS_*. The same length gives the same class. */
  of(lengthBytes: number): number {
    assert(Number.isSafeInteger(lengthBytes) && lengthBytes > 0, 'a slot is a positive whole number of bytes')
    for (let cls = 0; cls < this.count; cls += 1) {
      if (this.lengthBytes[cls] === lengthBytes) return cls
    }
    const shape = spanShape(lengthBytes, this.#extentBytes, this.#extentCount)
    if (shape === undefined) return CLASS_TOO_LONG
    if (this.count === CLASS_LIMIT) return CLASS_TABLE_FULL
    this.lengthBytes[this.count] = lengthBytes
    this.spanExtents[this.count] = shape.extents
    this.spanSlots[this.count] = shape.slots
    this.count += 1
    return this.count - 1
  }
}
