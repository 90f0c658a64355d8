/** Above every `sampleValue`: nothing is left out. */
export const SAMPLE_ALL = 2 ** 32

/** Finalizer of MurmurHash3: spreads 32 bits evenly, one to one. */
function spread(word: number): number {
  let x = word
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return (x ^ (x >>> 16)) >>> 0
}

/** `sampleValue(chunkTag(word0, ..., space))`, for those who can leave a chunk out: of most, nothing else is needed. */
export function tagSample(word0: number, space: number): number {
  return spread(word0 ^ Math.imul(space + 1, 0x9e3779b1))
}

/**
 * Names a chunk in one double: 53 bits mixed from the first two words of its hash and its key space (or tenant row).
 * Two chunks share a tag with a chance of 2^-53. Input words need not be evenly spread.
 */
export function chunkTag(word0: number, word1: number, space: number): number {
  const low = tagSample(word0, space)
  const high = spread(word1 ^ Math.imul(low, 0x85ebca77) ^ space) & 0x1fffff
  return high * 2 ** 32 + low
}

/** Place of a tag in the spatial sample, 0..2^32-1, evenly spread: a sample of rate r keeps values below r x 2^32. */
export function sampleValue(tag: number): number {
  return tag >>> 0
}
