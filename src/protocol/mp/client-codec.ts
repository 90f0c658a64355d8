import { MsgpackReader } from '../msgpack/reader.ts'
import { MsgpackWriter } from '../msgpack/writer.ts'
import type { BlockRecord, WireContext, WireKey, WireSlot } from './messages.ts'

const NAME_BYTES_MAX = 1024
const LIST_MAX = 1024 * 1024
const writer = new MsgpackWriter(16 * 1024)

/** The client's side of the wire: payload frames to send. */
export const encodePayload = {
  nil: () => writer.nil().finish(),
  int: (value: number | bigint) => writer.int(value).finish(),
  float: (value: number) => writer.float(value).finish(),
  text: (value: string) => writer.str(value).finish(),
  bytes: (value: Uint8Array) => writer.bin(value).finish(),
  context: encodeContext,
  key: encodeKey,
  blockRecords: encodeBlockRecords,
} as const

/** What `prepare_store` answers. */
export interface StoreSlots {
  readonly slots: readonly WireSlot[]
  readonly chunkIndices: readonly number[]
}

/** Decoders of answers. Each gives null for what is not an answer of its kind. */
export const decodeReply = {
  bool: (frame: Uint8Array) => decoded(frame, (reader) => reader.bool()),
  int: (frame: Uint8Array) => decoded(frame, (reader) => Number(reader.int())),
  texts: (frame: Uint8Array) => decoded(frame, (reader) => list(reader, () => reader.string(NAME_BYTES_MAX))),
  segment: (frame: Uint8Array) => decoded(frame, readSegment),
  store: (frame: Uint8Array) => decoded(frame, readStore),
  /** Slots in chunk order; null too when nothing may be retrieved. */
  retrieve: (frame: Uint8Array) => decoded(frame, readRetrieve),
} as const

function encodeContext(context: WireContext): Uint8Array {
  writer.map(9)
  writer.str('instance_id').int(context.instanceId)
  writer.str('model_name').str(context.model)
  writer.str('world_size').int(context.worldSize)
  writer.str('block_size').int(context.blockTokens)
  writer.str('num_layers').int(context.layers)
  writer.str('hidden_dim_size').int(context.hidden)
  writer.str('dtype_str').str(context.dtype)
  writer.str('use_mla').bool(context.isMla)
  writer.str('num_physical_slots')
  if (context.slots === null) writer.nil()
  else writer.int(context.slots)
  return writer.finish()
}

function encodeBlockRecords(records: readonly BlockRecord[]): Uint8Array {
  writer.array(records.length)
  for (const { requestId, blockIds, tokens } of records) {
    writer.map(3)
    writer.str('req_id').str(requestId)
    writer.str('new_block_ids').words(blockIds)
    writer.str('new_token_ids').words(tokens)
  }
  return writer.finish()
}

/** @param form how tokens travel: as a list of integers, or packed, as newer clients do. */
function encodeKey(key: WireKey, form: 'token_ids' | 'token_bytes' = 'token_ids'): Uint8Array {
  writer.map(10)
  writer.str('model_name').str(key.model)
  writer.str('world_size').int(key.worldSize)
  writer.str('worker_id')
  if (key.workerId === null) writer.nil()
  else writer.int(key.workerId)
  writer.str(form)
  if (form === 'token_ids') writer.words(key.tokens)
  else {
    const packed = Buffer.from(key.tokens.slice().buffer)
    writer.bin(packed.swap32())
  }
  writer.str('start').int(key.start)
  writer.str('end').int(key.end)
  writer.str('request_id').str(key.requestId)
  writer.str('cache_salt').str(key.salt)
  writer.str('request_configs')
  if (key.traceparent === undefined) writer.nil()
  else writer.map(1).str('traceparent').str(key.traceparent)
  writer.str('num_kv_readers').int(key.readers)
  return writer.finish()
}

function decoded<Value>(frame: Uint8Array, read: (reader: MsgpackReader) => Value): Value | null {
  const reader = new MsgpackReader(frame)
  const value = read(reader)
  return reader.isDone ? value : null
}

function readSegment(reader: MsgpackReader) {
  const segment = { name: '', bytes: 0 }
  fields(reader, {
    shm_name: () => {
      segment.name = reader.string(NAME_BYTES_MAX)
    },
    pool_size: () => {
      segment.bytes = reader.count(0, Number.MAX_SAFE_INTEGER)
    },
  })
  return segment
}

function readStore(reader: MsgpackReader): StoreSlots {
  const store: { slots: WireSlot[]; chunkIndices: number[] } = { slots: [], chunkIndices: [] }
  fields(reader, {
    context: () =>
      fields(reader, {
        slots: () => {
          store.slots = list(reader, () => readSlot(reader))
        },
        chunk_indices: () => {
          store.chunkIndices = list(reader, () => reader.count(0, LIST_MAX))
        },
      }),
  })
  return store
}

function readRetrieve(reader: MsgpackReader): readonly WireSlot[] | null {
  let isFound = false
  let slots: WireSlot[] = []
  fields(reader, {
    success: () => {
      isFound = reader.bool()
    },
    context: () =>
      fields(reader, {
        slots: () => {
          slots = list(reader, () => readSlot(reader))
        },
      }),
  })
  return isFound ? slots : null
}

function readSlot(reader: MsgpackReader): WireSlot {
  const slot = { offset: 0, length: 0, shape: [] as number[], dtype: '' }
  fields(reader, {
    offset: () => {
      slot.offset = reader.count(0, Number.MAX_SAFE_INTEGER)
    },
    length: () => {
      slot.length = reader.count(0, Number.MAX_SAFE_INTEGER)
    },
    shape: () => {
      slot.shape = list(reader, () => reader.count(0, Number.MAX_SAFE_INTEGER))
    },
    dtype: () => {
      slot.dtype = reader.string(NAME_BYTES_MAX)
    },
  })
  return slot
}

/** Reads a map: each field that is known by its reader, the others are skipped. */
function fields(reader: MsgpackReader, readers: Readonly<Record<string, () => void>>): void {
  for (let left = reader.map(LIST_MAX); left > 0 && !reader.isBroken; left -= 1) {
    const name = reader.string(NAME_BYTES_MAX)
    if (Object.hasOwn(readers, name)) readers[name]!()
    else reader.skip()
  }
}

function list<Value>(reader: MsgpackReader, read: () => Value): Value[] {
  const values: Value[] = []
  for (let left = reader.array(LIST_MAX); left > 0 && !reader.isBroken; left -= 1) values.push(read())
  return values
}
