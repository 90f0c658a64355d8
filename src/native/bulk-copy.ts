import { availableParallelism } from 'node:os'
import { type Addon, addonOrNull } from './addon.ts'

/** Of the processors, one in so many copies; the others have their own work. */
const PROCESSORS_PER_THREAD = 4
const THREADS_MAX = 4

/**
 * Copies ranges from one memory to another. The columns are parallel; row i of 0..count-1 is `lengths[i]` bytes.
 * @throws RangeError when a range lies outside of its memory.
 */
export type CopyRanges = (
  target: Uint8Array,
  source: Uint8Array,
  targetOffsets: Float64Array,
  sourceOffsets: Float64Array,
  lengths: Float64Array,
  count: number,
) => void

let chosen: CopyRanges | undefined

/**
 * Copies payloads that nobody here reads soon: in native code long ranges go past the caches, which is a fifth faster from
 * 1 MiB on and leaves to others what they have there. What is read next is better copied with `TypedArray.set`.
 */
export const copyRanges: CopyRanges = (target, source, targetOffsets, sourceOffsets, lengths, count) => {
  chosen ??= copyRangesOf(addonOrNull())
  chosen(target, source, targetOffsets, sourceOffsets, lengths, count)
}

/** With the addon or, without one, in JavaScript. */
export function copyRangesOf(addon: Addon | null): CopyRanges {
  if (addon === null) return copyInTurn
  const threads = Math.max(1, Math.min(THREADS_MAX, Math.floor(availableParallelism() / PROCESSORS_PER_THREAD)))
  return (target, source, targetOffsets, sourceOffsets, lengths, count) =>
    addon.copyRanges(target, source, targetOffsets, sourceOffsets, lengths, count, threads)
}

const copyInTurn: CopyRanges = (target, source, targetOffsets, sourceOffsets, lengths, count) => {
  for (let row = 0; row < count; row += 1) {
    const from = sourceOffsets[row]!
    if (from + lengths[row]! > source.length) throw new RangeError('a range is not within its memory')
    target.set(source.subarray(from, from + lengths[row]!), targetOffsets[row]!)
  }
}
