/** Bytes of a greeting of ZMTP 3. */
export const GREETING_BYTES = 64
const MECHANISM_AT = 12
const MECHANISM_BYTES = 20

/**
 * The first bytes on a connection, of both sides at once (ZMTP 3.1, RFC 37):
 *
 *     0        1 ... 8    9     10     11     12 ... 31    32          33 ... 63
 *     0xFF     padding    0x7F  major  minor  mechanism    as-server   zeros
 *
 * The padding is what libzmq sends: to a peer of ZMTP 1.0 it is the length of an identity.
 */
export const GREETING: Uint8Array = greeting()

function greeting(): Uint8Array {
  const bytes = Buffer.alloc(GREETING_BYTES)
  bytes[0] = 0xff
  bytes[8] = 1
  bytes[9] = 0x7f
  bytes[10] = 3
  bytes[11] = 1
  bytes.write('NULL', MECHANISM_AT, 'latin1')
  return bytes
}

/**
 * What is wrong with a peer's greeting, as early as it shows: a peer of an old version waits for more than it sends.
 *
 * @param bytes what came so far, at most the greeting. @returns null when nothing is wrong so far.
 */
export function greetingFault(bytes: Uint8Array): 'not_zmtp' | 'old_version' | 'mechanism' | null {
  const [first, second] = bytes
  // ZMTP 1.0 begins with the length of an identity and flags of zero.
  if (first !== undefined && first !== 0xff)
    return second === undefined ? null : second === 0 ? 'old_version' : 'not_zmtp'
  const end = bytes[9]
  if (end !== undefined && end !== 0x7f) return (end & 1) === 0 ? 'old_version' : 'not_zmtp'
  const major = bytes[10]
  if (major !== undefined && major < 3) return 'old_version'
  return bytes.length >= GREETING_BYTES && mechanismOf(bytes) !== 'NULL' ? 'mechanism' : null
}

/** NULL, PLAIN, CURVE, or whatever a peer asks for. */
function mechanismOf(bytes: Uint8Array): string {
  const field = Buffer.from(bytes.buffer, bytes.byteOffset + MECHANISM_AT, MECHANISM_BYTES)
  const end = field.indexOf(0)
  return field.toString('latin1', 0, end < 0 ? MECHANISM_BYTES : end)
}
