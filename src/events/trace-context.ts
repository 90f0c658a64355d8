/** Words of a trace context: trace id (4), span id of the caller (2), flags. */
export const CONTEXT_WORDS = 7
export const CONTEXT_FLAGS = 6
/** Bit of the flags: the caller records this trace. */
export const FLAG_SAMPLED = 1

/** Characters of version 00; later versions may have more. */
const LENGTH = 55
/** No version that is known is longer; more is not read. */
const LENGTH_MAX = 256

//   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//   0  3                                36               53
const TRACE_AT = 3
const PARENT_AT = 36
const FLAGS_AT = 53

/**
 * Reads a `traceparent` into words, without allocating. Whoever sends it is not trusted: what is not exactly as it
 * must be is as if it were absent.
 *
 * Format: W3C Trace Context, "traceparent Header".
 *
 * @param out CONTEXT_WORDS words; garbage when the answer is false.
 */
export function readTraceparent(text: string, out: Uint32Array): boolean {
  const { length } = text
  if (length < LENGTH || length > LENGTH_MAX) return false
  const version = byteAt(text, 0)
  if (version < 0 || version === 0xff) return false
  if (length > LENGTH && (version === 0 || !isDash(text, LENGTH))) return false
  if (!isDash(text, 2) || !isDash(text, PARENT_AT - 1) || !isDash(text, FLAGS_AT - 1)) return false
  const flags = byteAt(text, FLAGS_AT)
  if (flags < 0) return false
  for (let word = 0; word < 4; word += 1) if (!readWord(text, TRACE_AT + 8 * word, out, word)) return false
  for (let word = 0; word < 2; word += 1) if (!readWord(text, PARENT_AT + 8 * word, out, 4 + word)) return false
  out[CONTEXT_FLAGS] = flags
  return (out[0]! | out[1]! | out[2]! | out[3]!) !== 0 && (out[4]! | out[5]!) !== 0
}

/**
 * Writes the `traceparent` of a recorded span.
 *
 * @param ids trace id (4 words) and span id (2), from `at` on.
 */
export function writeTraceparent(ids: Uint32Array, at: number): string {
  const hex = (from: number, words: number) =>
    Array.from(ids.subarray(at + from, at + from + words), (word) => word.toString(16).padStart(8, '0')).join('')
  return `00-${hex(0, 4)}-${hex(4, 2)}-01`
}

function isDash(text: string, at: number): boolean {
  return text.charCodeAt(at) === 0x2d
}

/** Eight digits as a word; false when they are none. */
function readWord(text: string, at: number, out: Uint32Array, word: number): boolean {
  let value = 0
  for (let pair = 0; pair < 4; pair += 1) {
    const byte = byteAt(text, at + 2 * pair)
    if (byte < 0) return false
    value = (value << 8) | byte
  }
  out[word] = value
  return true
}

/** Two digits, lower case as the format wants them; -1 when they are none. */
function byteAt(text: string, at: number): number {
  const high = digit(text.charCodeAt(at))
  const low = digit(text.charCodeAt(at + 1))
  return (high | low) < 0 ? -1 : (high << 4) | low
}

function digit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  return code >= 0x61 && code <= 0x66 ? code - 0x57 : -1
}
