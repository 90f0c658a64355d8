import { encodeCommand } from './frames.ts'

/** What a peer said of itself in READY. */
export interface PeerMetadata {
  readonly socketType: string
  /** Empty = it has none, and gets one. */
  readonly identity: Uint8Array
}

/** A command of a peer, as far as it is known. `bad` = not even its name could be read. */
export type Command =
  | { readonly name: 'READY'; readonly metadata: PeerMetadata | null }
  | { readonly name: 'ERROR'; readonly reason: string }
  | { readonly name: 'PING'; readonly ttlMs: number; readonly context: Uint8Array }
  | { readonly name: 'PONG' | 'unknown' | 'bad' }

/** Of a PING, which a PONG gives back. */
const CONTEXT_BYTES_MAX = 16
const NO_BYTES = new Uint8Array(0)

/** What a socket says of itself, in the order of libzmq. */
export function readyCommand(socketType: string, identity: Uint8Array): Uint8Array {
  const properties = [property('Socket-Type', Buffer.from(socketType, 'latin1')), property('Identity', identity)]
  return encodeCommand(Buffer.concat([shortText('READY'), ...properties]))
}

export function errorCommand(reason: string): Uint8Array {
  return encodeCommand(Buffer.concat([shortText('ERROR'), shortText(reason)]))
}

export function pingCommand(ttlMs: number, context: Uint8Array): Uint8Array {
  const ttl = Buffer.alloc(2)
  ttl.writeUInt16BE(Math.round(ttlMs / 100))
  return encodeCommand(Buffer.concat([shortText('PING'), ttl, context]))
}

export function pongCommand(context: Uint8Array): Uint8Array {
  return encodeCommand(Buffer.concat([shortText('PONG'), context.subarray(0, CONTEXT_BYTES_MAX)]))
}

/** @param body of a command frame. The result may be a view of it. */
export function decodeCommand(body: Uint8Array): Command {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const nameBytes = bytes[0] ?? 0
  if (nameBytes === 0 || 1 + nameBytes > bytes.length) return { name: 'bad' }
  const rest = bytes.subarray(1 + nameBytes)
  switch (bytes.toString('latin1', 1, 1 + nameBytes)) {
    case 'READY':
      return { name: 'READY', metadata: decodeMetadata(rest) }
    case 'ERROR':
      return { name: 'ERROR', reason: rest.toString('latin1', 1, 1 + (rest[0] ?? 0)) }
    case 'PING':
      if (rest.length < 2) return { name: 'bad' }
      return { name: 'PING', ttlMs: 100 * rest.readUInt16BE(0), context: rest.subarray(2) }
    case 'PONG':
      return { name: 'PONG' }
    default:
      return { name: 'unknown' }
  }
}

/** @returns null when it is malformed. */
function decodeMetadata(bytes: Buffer): PeerMetadata | null {
  let socketType = ''
  let identity: Uint8Array = NO_BYTES
  for (let at = 0; at < bytes.length; ) {
    const nameEnd = at + 1 + bytes[at]!
    if (bytes[at] === 0 || nameEnd + 4 > bytes.length) return null
    const valueAt = nameEnd + 4
    const valueEnd = valueAt + bytes.readUInt32BE(nameEnd)
    if (valueEnd > bytes.length) return null
    // Names are the same in any case.
    const name = bytes.toString('latin1', at + 1, nameEnd).toLowerCase()
    if (name === 'socket-type') socketType = bytes.toString('latin1', valueAt, valueEnd)
    else if (name === 'identity') identity = Uint8Array.from(bytes.subarray(valueAt, valueEnd))
    at = valueEnd
  }
  return { socketType, identity }
}

function shortText(text: string): Uint8Array {
  const bytes = Buffer.from(` ${text}`, 'latin1')
  bytes[0] = bytes.length - 1
  return bytes
}

function property(name: string, value: Uint8Array): Uint8Array {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(value.length)
  return Buffer.concat([shortText(name), length, value])
}
