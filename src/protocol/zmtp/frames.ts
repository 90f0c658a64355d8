/** Bits of the first byte of a frame. The others are reserved, and zero. */
export const MORE = 1
export const LONG = 2
export const COMMAND = 4

const SHORT_MAX = 255
const SHORT_HEAD_BYTES = 2
const LONG_HEAD_BYTES = 9
/** Frames from this length on are not copied into a message's buffer: a copy costs more than one more piece to write. */
const PIECE_BYTES_MIN = 64 * 1024

/**
 * A message as bytes, in as few pieces as pay: one, and one more for each long frame, which is not copied: the caller
 * leaves it alone until it is sent.
 *
 *     flags  length (1 byte, or 8 when LONG)  body     one frame
 */
export function encodeMessage(frames: readonly Uint8Array[]): Uint8Array[] {
  let bytes = 0
  for (const { length } of frames) {
    bytes += headBytes(length) + (length < PIECE_BYTES_MIN ? length : 0)
  }
  const copied = Buffer.allocUnsafe(bytes)
  const pieces: Uint8Array[] = []
  let start = 0
  let at = 0
  for (let index = 0; index < frames.length; index += 1) {
    const frame = frames[index]!
    at = writeHead(copied, at, index + 1 < frames.length ? MORE : 0, frame.length)
    if (frame.length < PIECE_BYTES_MIN) {
      copied.set(frame, at)
      at += frame.length
    } else {
      pieces.push(copied.subarray(start, at), frame)
      start = at
    }
  }
  if (start < at) pieces.push(copied.subarray(start, at))
  return pieces
}

/** A command as a frame. */
export function encodeCommand(body: Uint8Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(headBytes(body.length) + body.length)
  bytes.set(body, writeHead(bytes, 0, COMMAND, body.length))
  return bytes
}

function headBytes(length: number): number {
  return length <= SHORT_MAX ? SHORT_HEAD_BYTES : LONG_HEAD_BYTES
}

function writeHead(into: Buffer, at: number, flags: number, length: number): number {
  if (length <= SHORT_MAX) {
    into[at] = flags
    into[at + 1] = length
    return at + SHORT_HEAD_BYTES
  }
  into[at] = flags | LONG
  into.writeUInt32BE(Math.floor(length / 2 ** 32), at + 1)
  into.writeUInt32BE(length % 2 ** 32, at + 5)
  return at + LONG_HEAD_BYTES
}
