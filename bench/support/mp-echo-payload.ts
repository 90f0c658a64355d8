/** As an op: an answer without a payload. */
export const NO_PAYLOAD = 0xffff_ffff
const payloads = new Map<number, Buffer>()

/** The frames of an echo's answer: the op of a request says how many bytes its payload has. */
export function answerOf(uid: Uint8Array, op: Uint8Array): Uint8Array[] {
  const bytes = Buffer.from(op.buffer, op.byteOffset, op.byteLength).readUInt32BE(1)
  return bytes === NO_PAYLOAD ? [uid, op] : [uid, op, payloadOf(bytes)]
}

function payloadOf(bytes: number): Buffer {
  const known = payloads.get(bytes)
  if (known !== undefined) return known
  const made = Buffer.alloc(bytes)
  payloads.set(bytes, made)
  return made
}
