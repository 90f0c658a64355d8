import { assert } from '../core/assert.ts'
import { CacheError } from '../core/errors.ts'
import { HASH_BYTES } from '../core/hash-chain.ts'
import { crc32 } from '../native/checksum.ts'
import type { KeyBatch, KeySpace } from './adapter.ts'

// One stored object: a header of one page, then the payload. Numbers are little-endian.
//
//      0  magic            8   "KVTIEROB"
//      8  version          2   1
//     10  checksum kind    2   how the payload was summed: 1 = crc32 (zlib polynomial)
//     12  header bytes     4   4096
//     16  payload bytes    8
//     24  payload checksum 8   low 4 bytes for crc32, the others 0
//     32  hash            32   of the chunk
//     64  parent hash     32   of the chunk before it; zeros for a first chunk
//     96  ranks            4
//    100  rank             4
//    104  model bytes      2 \
//    106  salt bytes       2  > lengths of the texts that follow
//    108  layout bytes     2 /
//    110  zero             2
//    112  model, salt, layout    UTF-16LE: unlike UTF-8 it keeps lone surrogates apart
//         zeros
//   4092  header checksum  4   crc32 of bytes 0..4091
//   4096  payload
//
// The header takes a whole page so that the payload starts on one: it can be read with O_DIRECT.

export const HEADER_BYTES = 4096
export const FORMAT_VERSION = 1
/** Payload checksum kinds. A number is never given another meaning. */
export const CHECKSUM_CRC32 = 1

const MAGIC = Buffer.from('KVTIEROB')
const TEXTS_AT = 112
const HEADER_CHECKSUM_AT = HEADER_BYTES - 4
/** Longest model, salt and layout together, in UTF-16 code units. */
export const TEXT_LENGTH_MAX = (HEADER_CHECKSUM_AT - TEXTS_AT) / 2

/** Why a record is not served. */
export type RecordFault =
  | 'short' // fewer bytes than a header
  | 'magic'
  | 'version'
  | 'header_checksum'
  | 'checksum_kind'
  | 'key' // a whole record, of another chunk, model, salt or rank
  | 'layout'
  | 'length'
  | 'payload_checksum'

/** A header whose checksum is right. */
export interface RecordHeader {
  readonly space: KeySpace
  /** 32 bytes each, copied. */
  readonly hash: Uint8Array
  readonly parent: Uint8Array
}

/** Writes and verifies records of one space. Keeps no bytes of the caller. */
export class RecordFormat {
  readonly #space: KeySpace
  /** The header of a record of this space, without what differs by object. */
  readonly #template = Buffer.alloc(HEADER_BYTES)

  /** @throws CacheError BAD_REQUEST when model, salt and layout do not fit a header. */
  constructor(space: KeySpace) {
    const { model, salt, layout } = space
    if (model.length + salt.length + layout.length > TEXT_LENGTH_MAX) {
      throw new CacheError('BAD_REQUEST', `model, salt and layout exceed ${TEXT_LENGTH_MAX} characters`, {
        field: 'model',
      })
    }
    this.#space = space
    const header = this.#template
    MAGIC.copy(header)
    header.writeUInt16LE(FORMAT_VERSION, 8)
    header.writeUInt16LE(CHECKSUM_CRC32, 10)
    header.writeUInt32LE(HEADER_BYTES, 12)
    header.writeBigUInt64LE(BigInt(space.shardBytes), 16)
    header.writeUInt32LE(space.ranks, 96)
    header.writeUInt32LE(space.rank, 100)
    let at = TEXTS_AT
    for (const [index, text] of [model, salt, layout].entries()) {
      header.writeUInt16LE(text.length * 2, 104 + 2 * index)
      at += header.write(text, at, 'utf16le')
    }
  }

  /**
   * Writes the header of key `index` into `header` (HEADER_BYTES).
   * @param payload the object's bytes, shardBytes of them.
   * @returns false when they are not those of `batch.sums`: the header is not for use.
   */
  encode(batch: KeyBatch, index: number, payload: Uint8Array, header: Buffer): boolean {
    assert(payload.length === this.#space.shardBytes, 'payload of another length than its space')
    const sum = payloadSum(payload)
    if (!isExpected(batch, index, sum)) return false
    this.#template.copy(header)
    header.writeUInt32LE(sum, 24)
    const at = index * HASH_BYTES
    header.set(batch.hashes.subarray(at, at + HASH_BYTES), 32)
    header.set(batch.parents.subarray(at, at + HASH_BYTES), 64)
    header.writeUInt32LE(crc32(header.subarray(0, HEADER_CHECKSUM_AT)), HEADER_CHECKSUM_AT)
    return true
  }

  /**
   * Why the record is not object `index` of the batch, whole and of this space; undefined when it is.
   * @param sum `payloadSum` of the payload, when it is known.
   */
  verify(batch: KeyBatch, index: number, header: Buffer, payload: Uint8Array, sum?: number): RecordFault | undefined {
    const broken = headerFault(header)
    if (broken !== undefined) return broken
    const { ranks, rank, model, salt, layout, shardBytes } = this.#space
    const at = index * HASH_BYTES
    const isKey =
      header.compare(batch.hashes, at, at + HASH_BYTES, 32, 64) === 0 &&
      header.compare(batch.parents, at, at + HASH_BYTES, 64, 96) === 0 &&
      header.readUInt32LE(96) === ranks &&
      header.readUInt32LE(100) === rank
    if (!isKey) return 'key'
    const textsEnd = TEXTS_AT + 2 * (model.length + salt.length)
    const lengthsDiffer = header.compare(this.#template, 104, 108, 104, 108) !== 0
    if (lengthsDiffer || header.compare(this.#template, TEXTS_AT, textsEnd, TEXTS_AT, textsEnd) !== 0) return 'key'
    const layoutEnd = textsEnd + 2 * layout.length
    const isLayout =
      header.compare(this.#template, 108, 110, 108, 110) === 0 &&
      header.compare(this.#template, textsEnd, layoutEnd, textsEnd, layoutEnd) === 0
    if (!isLayout) return 'layout'
    if (payloadBytesOf(header) !== shardBytes || payload.length !== shardBytes) return 'length'
    const isSum = header.readUInt32LE(24) === (sum ?? payloadSum(payload)) && header.readUInt32LE(28) === 0
    return isSum ? undefined : 'payload_checksum'
  }
}

/** The formats of the spaces of one adapter, each made at its first use. */
export class RecordFormats {
  readonly #bySpace = new Map<number, RecordFormat>()

  /** @param id of the space, in the adapter's table. @throws CacheError BAD_REQUEST as `RecordFormat` does. */
  of({ id, space }: { readonly id: number; readonly space: KeySpace }): RecordFormat {
    let format = this.#bySpace.get(id)
    if (format === undefined) {
      format = new RecordFormat(space)
      this.#bySpace.set(id, format)
    }
    return format
  }
}

/** What a header says, for a reader that does not know what to expect; or why it says nothing. */
export function readHeader(header: Buffer): RecordHeader | RecordFault {
  const fault = headerFault(header)
  if (fault !== undefined) return fault
  const texts: string[] = []
  let at = TEXTS_AT
  for (let index = 0; index < 3; index += 1) {
    const end = at + header.readUInt16LE(104 + 2 * index)
    if (end > HEADER_CHECKSUM_AT) return 'length'
    texts.push(header.toString('utf16le', at, end))
    at = end
  }
  const [model, salt, layout] = texts as [string, string, string]
  const ranks = header.readUInt32LE(96)
  const rank = header.readUInt32LE(100)
  const space = { model, salt, ranks, rank, shardBytes: payloadBytesOf(header), layout }
  return { space, hash: Uint8Array.from(header.subarray(32, 64)), parent: Uint8Array.from(header.subarray(64, 96)) }
}

/** Magic and version only name the fault: a header with a wrong checksum is refused whatever it says. */
function headerFault(header: Buffer): RecordFault | undefined {
  if (header.length < HEADER_BYTES) return 'short'
  if (header.compare(MAGIC, 0, 8, 0, 8) !== 0) return 'magic'
  if (header.readUInt16LE(8) !== FORMAT_VERSION) return 'version'
  const sum = crc32(header.subarray(0, HEADER_CHECKSUM_AT))
  if (sum !== header.readUInt32LE(HEADER_CHECKSUM_AT)) return 'header_checksum'
  if (header.readUInt16LE(10) !== CHECKSUM_CRC32) return 'checksum_kind'
  if (header.readUInt32LE(12) !== HEADER_BYTES) return 'length'
  return undefined
}

function payloadBytesOf(header: Buffer): number {
  return Number(header.readBigUInt64LE(16))
}

/** The checksum of a payload; of one that comes in pieces, with that of the pieces before. */
export function payloadSum(piece: Uint8Array, before = 0): number {
  return crc32(piece, before)
}

/** Whether payload `index` of a store has the sum that came with it. One that was not known is filled in. */
export function isExpected({ sums }: KeyBatch, index: number, sum: number): boolean {
  if (sums === undefined) return true
  if (sums[index] === 0) sums[index] = sum
  return sums[index] === sum
}
