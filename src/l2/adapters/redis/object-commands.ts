import { CacheError } from '../../../core/errors.ts'
import type { KeyBatch } from '../../adapter.ts'
import { HEADER_BYTES, type RecordFormat } from '../../object-format.ts'
import { encodeWords, type RedisCommand, type Reply } from './redis-command.ts'

const CRLF_NX = Buffer.from('\r\n$2\r\nNX\r\n')

/**
 * SET NX of object `index`: header and payload as one value, the payload straight from `source`. Not sent when that is
 * not of its sum.
 */
export function setObject(
  key: string,
  format: RecordFormat,
  batch: KeyBatch,
  index: number,
  source: Uint8Array,
): RedisCommand {
  const valueBytes = HEADER_BYTES + source.length
  const name = `*4\r\n$3\r\nSET\r\n$${Buffer.byteLength(key)}\r\n${key}\r\n$${valueBytes}\r\n`
  const nameBytes = Buffer.byteLength(name)
  const parts = () => {
    const head = Buffer.allocUnsafe(nameBytes + HEADER_BYTES)
    head.write(name, 'utf8')
    if (!format.encode(batch, index, source, head.subarray(nameBytes))) return altered()
    return [head, source, CRLF_NX]
  }
  return { key, parts, bytes: nameBytes + valueBytes + CRLF_NX.length, places: [], reply: undefined }
}

/** GET of an object into a header and a target. @param onReply told as soon as it is there, before the next is read. */
export function getObject(
  key: string,
  header: Buffer,
  target: Uint8Array,
  onReply: (reply: Reply) => void,
): RedisCommand {
  const words = encodeWords(['GET', key])
  const bytes = words.length + header.length + target.length
  return { key, parts: () => [words], bytes, places: [header, target], onReply, reply: undefined }
}

function altered(): CacheError {
  return new CacheError('L2_CORRUPT', 'the bytes of an object changed before they were stored')
}
