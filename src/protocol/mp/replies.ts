import { MsgpackWriter } from '../msgpack/writer.ts'

/** One payload frame; null = no frame, which a client reads as None. */
export type ReplyPayload = Uint8Array | null

const writer = new MsgpackWriter(16 * 1024)

export const NONE: ReplyPayload = null
export const TRUE: ReplyPayload = writer.bool(true).finish()
export const FALSE: ReplyPayload = writer.bool(false).finish()
/** Nothing to store: everything is there already, or cannot be taken. */
export const NOTHING_TO_STORE: ReplyPayload = storeReply(0, [], [], new Uint8Array(0))
/** Nothing that may be retrieved. */
export const NOT_RETRIEVABLE: ReplyPayload = notRetrievable()

function notRetrievable(): ReplyPayload {
  writer.map(3).str('success').bool(false).str('data').bin(new Uint8Array(0))
  return writer.str('context').map(0).finish()
}

export function boolReply(value: boolean): ReplyPayload {
  return value ? TRUE : FALSE
}

export function intReply(value: number): ReplyPayload {
  return writer.int(value).finish()
}

export function textReply(value: string): ReplyPayload {
  return writer.str(value).finish()
}

export function textsReply(values: readonly string[]): ReplyPayload {
  writer.array(values.length)
  for (const value of values) writer.str(value)
  return writer.finish()
}

/** Where the shared memory is: an empty name and 0 bytes when there is none. */
export function segmentReply(name: string, bytes: number): ReplyPayload {
  return writer.map(2).str('shm_name').str(name).str('pool_size').int(bytes).finish()
}

/** What every slot of one layout says besides its place: the last two of the four pairs of its map. */
export function slotTail(shape: readonly number[], dtype: string): Uint8Array {
  writer.str('shape').array(shape.length)
  for (const size of shape) writer.int(size)
  return writer.str('dtype').str(dtype).finish()
}

/**
 * Slots to write to.
 *
 * @param offsets, chunkIndices at least `count` long; chunk indices count from the first chunk that was asked for.
 */
export function storeReply(
  count: number,
  offsets: ArrayLike<number>,
  chunkIndices: ArrayLike<number>,
  tail: Uint8Array,
  length = 0,
): ReplyPayload {
  writer.map(1).str('context').map(2)
  writeSlots(count, offsets, length, tail)
  writer.str('chunk_indices').array(count)
  for (let row = 0; row < count; row += 1) writer.int(chunkIndices[row]!)
  return writer.finish()
}

/** Slots to read from, one for each chunk that was asked for, in order. */
export function retrieveReply(
  count: number,
  offsets: ArrayLike<number>,
  tail: Uint8Array,
  length: number,
): ReplyPayload {
  writer.map(3).str('success').bool(true).str('data').bin(new Uint8Array(0)).str('context').map(1)
  writeSlots(count, offsets, length, tail)
  return writer.finish()
}

function writeSlots(count: number, offsets: ArrayLike<number>, length: number, tail: Uint8Array): void {
  writer.str('slots').array(count)
  for (let row = 0; row < count; row += 1) {
    writer.map(4).str('offset').int(offsets[row]!).str('length').int(length).raw(tail)
  }
}
