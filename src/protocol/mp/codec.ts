import { MODEL_LENGTH_MAX, SALT_FORBIDDEN, SALT_LENGTH_MAX } from '../../core/ids.ts'
import { MsgpackReader, type WordsMemory } from '../msgpack/reader.ts'
import { type Generation, opOf, REFUSED_OPS, type RefusedOp, type ServedOp } from './generations.ts'
import {
  type BlockRecord,
  type Envelope,
  type Incoming,
  LIMITS,
  type Request,
  type WireContext,
  type WireKey,
} from './messages.ts'

const WORLD_SIZE_MAX = 255
const READERS_MAX = 65_535
const SIZE_MAX = 2 ** 31
const OP_BYTES_MAX = 128
/** Name of the trace context in a request's metadata. */
const TRACEPARENT = 'traceparent'
const REFUSED = new Set<string>(REFUSED_OPS)
const NO_WORDS: Uint32Array = new Uint32Array(0)

/** Tokens come as a list of integers, or packed: the same bytes mean other tokens then. */
export interface TokenMemories {
  readonly ids: WordsMemory
  readonly packed: WordsMemory
}

/** What spares time where prompts are long. */
export interface DecodeHelp {
  /** Remember the tokens that were read, in each of the two forms they come in. */
  readonly tokens?: TokenMemories
  /** Told which operation it is before its payload is read, which takes a while when there are many tokens. */
  readonly onOp?: (op: ServedOp, envelope: Envelope) => void
}

/**
 * Decodes one message of a client: `[uid][op][payload0]...`, the identity taken off. Nothing throws, whatever the
 * bytes; strings, counts and sizes are bounded.
 */
export function decodeIncoming(
  frames: readonly Uint8Array[],
  generation: Generation,
  { tokens, onOp }: DecodeHelp = {},
): Incoming {
  const [uid, op, ...payload] = frames
  if (uid === undefined || op === undefined || frames.length > LIMITS.frames) return { kind: 'malformed' }
  const wireOp = decodeOp(op)
  if (wireOp === undefined || !isInt(uid)) return { kind: 'malformed' }
  // They come back in the answer, which may leave when the frames are gone.
  const envelope = { uid: Uint8Array.from(uid), op: Uint8Array.from(op) }
  const name = opOf(generation, wireOp)
  if (name === undefined) return { kind: 'unknown_op', envelope, op: wireOp }
  if (isForeign(name)) {
    const isUnified = name === 'register_kv_cache' && saysUnified(payload[5])
    return { kind: 'foreign', envelope, op: name, instanceId: instanceIn(payload[0]), isUnified }
  }
  onOp?.(name, envelope)
  const request = DECODERS[name](new Payload(payload, tokens))
  return request === null ? { kind: 'bad_payload', envelope, op: name } : { kind: 'request', envelope, request }
}

/** The number or name in an op frame; undefined when it is neither. */
export function decodeOp(frame: Uint8Array): number | string | undefined {
  if (frame.length > OP_BYTES_MAX) return undefined
  if (frame.length === 1 && frame[0]! < 0x80) return frame[0]!
  const reader = new MsgpackReader(frame)
  const value = reader.next() === 'str' ? reader.string(OP_BYTES_MAX) : reader.count(0, SIZE_MAX)
  return reader.isDone ? value : undefined
}

function isInt(frame: Uint8Array): boolean {
  const head = frame[0] ?? 0xc0
  if (head < 0x80 || head >= 0xe0) return frame.length === 1
  return head >= 0xcc && head <= 0xd3 && frame.length === 1 + (1 << (head & 3))
}

function isForeign(op: string): op is RefusedOp {
  return REFUSED.has(op)
}

/** The number in a frame of its own; null when it holds anything else. */
export function instanceIn(frame: Uint8Array | undefined): bigint | null {
  if (frame === undefined) return null
  const reader = new MsgpackReader(frame)
  const id = reader.bigint()
  return reader.isDone ? id : null
}

/** Whether hints about a layout name the one that SGLang's connector has. */
function saysUnified(frame: Uint8Array | undefined): boolean {
  if (frame === undefined) return false
  const reader = new MsgpackReader(frame)
  let found = ''
  for (let left = reader.map(LIMITS.mapFields); left > 0 && !reader.isBroken; left -= 1) {
    if (reader.string(LIMITS.nameBytes) === 'kv_list_layout') found = reader.string(LIMITS.nameBytes)
    else reader.skip()
  }
  return found === 'unified' && reader.isDone
}

/** The payload frames of one request, read in order. A frame too few or one that is wrong shows in `isGood`. */
class Payload {
  readonly #frames: readonly Uint8Array[]
  readonly #tokens: TokenMemories | undefined
  #at = 0
  #isGood = true

  constructor(frames: readonly Uint8Array[], tokens: TokenMemories | undefined) {
    this.#frames = frames
    this.#tokens = tokens
  }

  get isEmpty(): boolean {
    return this.#frames.length === 0
  }

  /** Every frame that was read was right. Frames behind those that were read are of a newer client: ignored. */
  get isGood(): boolean {
    return this.#isGood
  }

  read<Value>(take: (reader: MsgpackReader) => Value): Value {
    const frame = this.#frames[this.#at++]
    const reader = new MsgpackReader(frame ?? new Uint8Array(0))
    const value = take(reader)
    if (!reader.isDone) this.#isGood = false
    return value
  }

  /** As `read`, for a key. */
  key(): WireKey {
    return this.read((reader) => readKey(reader, this.#tokens))
  }

  request<Value extends Request>(request: Value): Value | null {
    return this.#isGood ? request : null
  }
}

const bigint = (reader: MsgpackReader) => reader.bigint()
const requestId = (reader: MsgpackReader) => reader.string(LIMITS.requestIdBytes)
const modelName = (reader: MsgpackReader) => checked(reader, reader.string(LIMITS.nameBytes), isModelName)
const tensorParallel = (reader: MsgpackReader) => reader.count(0, READERS_MAX)

const DECODERS: { readonly [Op in ServedOp]: (payload: Payload) => Request | null } = {
  get_chunk_size: () => ({ op: 'get_chunk_size' }),
  negotiate_chunk_size: (payload) =>
    payload.request({
      op: 'negotiate_chunk_size',
      alignmentTokens: payload.read((reader) => reader.count(1, SIZE_MAX)),
    }),
  get_experimental: () => ({ op: 'get_experimental' }),
  noop: () => ({ op: 'noop' }),
  clear: () => ({ op: 'clear' }),
  ping: (payload) => {
    // Clients before 0.5.0 send no payload.
    if (payload.isEmpty) return { op: 'ping', instanceId: null }
    const instanceId = payload.read((reader) => (reader.takeNil() ? null : reader.bigint()))
    return payload.request({ op: 'ping', instanceId })
  },
  register_kv_cache_engine_driven_context: (payload) =>
    payload.request({ op: 'register_kv_cache_engine_driven_context', context: payload.read(readContext) }),
  unregister_kv_cache_engine_driven_context: (payload) =>
    payload.request({ op: 'unregister_kv_cache_engine_driven_context', instanceId: payload.read(bigint) }),
  lookup: (payload) => aboutKey('lookup', payload),
  free_lookup_locks: (payload) => aboutKey('free_lookup_locks', payload),
  query_prefetch_status: (payload) =>
    payload.request({ op: 'query_prefetch_status', requestId: payload.read(requestId) }),
  end_session: (payload) => payload.request({ op: 'end_session', requestId: payload.read(requestId) }),
  wait_prefetch_status: (payload) => {
    const id = payload.read(requestId)
    const timeoutSeconds = payload.read((reader) => reader.number())
    return payload.request({ op: 'wait_prefetch_status', requestId: id, timeoutSeconds })
  },
  prepare_store: (payload) => aboutTransfer('prepare_store', payload),
  prepare_retrieve: (payload) => aboutTransfer('prepare_retrieve', payload),
  commit_retrieve: (payload) => aboutTransfer('commit_retrieve', payload),
  commit_store: (payload) => {
    const key = payload.key()
    const instanceId = payload.read(bigint)
    const dataBytes = payload.read((reader) => reader.bin(Number.MAX_SAFE_INTEGER).length)
    return payload.request({ op: 'commit_store', key, instanceId, dataBytes })
  },
  report_block_allocation: (payload) => {
    const instanceId = payload.read(bigint)
    const model = payload.read(modelName)
    const records = payload.read(readRecords)
    return payload.request({ op: 'report_block_allocation', instanceId, model, records })
  },
}

function aboutKey(op: 'lookup' | 'free_lookup_locks', payload: Payload): Request | null {
  const key = payload.key()
  return payload.request({ op, key, tensorParallel: payload.read(tensorParallel) })
}

function aboutTransfer(op: 'prepare_store' | 'prepare_retrieve' | 'commit_retrieve', payload: Payload): Request | null {
  const key = payload.key()
  return payload.request({ op, key, instanceId: payload.read(bigint) })
}

function readKey(reader: MsgpackReader, tokens: TokenMemories | undefined): WireKey {
  const key = {
    model: '',
    salt: '',
    worldSize: 0,
    workerId: null as number | null,
    tokens: new Uint32Array(0) as Uint32Array,
    start: -1,
    end: -1,
    requestId: null as string | null,
    readers: 0,
    traceparent: undefined as string | undefined,
  }
  for (let left = reader.map(LIMITS.mapFields); left > 0 && !reader.isBroken; left -= 1) {
    switch (reader.string(LIMITS.nameBytes)) {
      case 'model_name':
        key.model = modelName(reader)
        break
      case 'cache_salt':
        key.salt = checked(reader, reader.string(LIMITS.saltBytes), isSalt)
        break
      case 'world_size':
        key.worldSize = reader.count(1, WORLD_SIZE_MAX)
        break
      case 'worker_id':
        key.workerId = reader.takeNil() ? null : reader.count(0, WORLD_SIZE_MAX - 1)
        break
      case 'token_ids':
        key.tokens = reader.words(LIMITS.tokens, tokens?.ids)
        break
      case 'token_bytes':
        key.tokens = reader.packedWords(LIMITS.tokens, tokens?.packed)
        break
      case 'start':
        key.start = reader.count(0, LIMITS.tokens)
        break
      case 'end':
        key.end = reader.count(0, LIMITS.tokens)
        break
      case 'request_id':
        key.requestId = reader.string(LIMITS.requestIdBytes)
        break
      case 'request_configs':
        key.traceparent = readTraceparent(reader)
        break
      case 'num_kv_readers':
        key.readers = reader.count(0, READERS_MAX)
        break
      default:
        reader.skip()
    }
  }
  const { worldSize, workerId, start, end, requestId: id } = key
  const isWhole = key.model !== '' && worldSize > 0 && id !== null && start >= 0 && end >= start
  if (!isWhole || (workerId !== null && workerId >= worldSize)) reader.refuse()
  return { ...key, requestId: id ?? '' }
}

/** Metadata that the client's user sent along. Whatever it is, it spoils no request: only one name is looked for. */
function readTraceparent(reader: MsgpackReader): string | undefined {
  if (reader.next() !== 'map') {
    reader.skip()
    return undefined
  }
  let found: string | undefined
  const pairs = reader.map(Number.MAX_SAFE_INTEGER)
  for (let pair = 0; pair < pairs && !reader.isBroken; pair += 1) {
    const isRead = pair < LIMITS.mapFields
    if (isRead && reader.anyString(TRACEPARENT.length) === TRACEPARENT)
      found = reader.anyString(LIMITS.traceparentBytes)
    else {
      if (!isRead) reader.skip()
      reader.skip()
    }
  }
  return found === '' ? undefined : found
}

function readContext(reader: MsgpackReader): WireContext {
  const context = {
    instanceId: null as bigint | null,
    model: '',
    worldSize: 0,
    blockTokens: 0,
    layers: 0,
    hidden: 0,
    dtype: '',
    isMla: false,
    slots: null as number | null,
    groups: 0,
  }
  for (let left = reader.map(LIMITS.mapFields); left > 0 && !reader.isBroken; left -= 1) {
    switch (reader.string(LIMITS.nameBytes)) {
      case 'instance_id':
        context.instanceId = reader.bigint()
        break
      case 'model_name':
        context.model = modelName(reader)
        break
      case 'world_size':
        context.worldSize = reader.count(1, WORLD_SIZE_MAX)
        break
      case 'block_size':
        context.blockTokens = reader.count(1, SIZE_MAX)
        break
      case 'num_layers':
        context.layers = reader.count(1, SIZE_MAX)
        break
      case 'hidden_dim_size':
        context.hidden = reader.count(1, SIZE_MAX)
        break
      case 'dtype_str':
        context.dtype = reader.string(LIMITS.dtypeBytes)
        break
      case 'use_mla':
        context.isMla = reader.bool()
        break
      case 'num_physical_slots':
        context.slots = reader.takeNil() ? null : reader.count(1, SIZE_MAX)
        break
      case 'group_layouts':
        context.groups = skipList(reader)
        break
      default:
        reader.skip()
    }
  }
  const { instanceId, model, worldSize, blockTokens, layers, hidden, dtype } = context
  const sizes = [worldSize, blockTokens, layers, hidden]
  if (instanceId === null || model === '' || dtype === '' || sizes.includes(0)) reader.refuse()
  return { ...context, instanceId: instanceId ?? 0n }
}

/** Skips a value. @returns its items when it is an array, else 0. */
function skipList(reader: MsgpackReader): number {
  if (reader.next() !== 'array') {
    reader.skip()
    return 0
  }
  const items = reader.array(LIMITS.records)
  for (let left = items; left > 0 && !reader.isBroken; left -= 1) reader.skip()
  return items
}

function readRecords(reader: MsgpackReader): BlockRecord[] {
  const records: BlockRecord[] = []
  for (let left = reader.array(LIMITS.records); left > 0 && !reader.isBroken; left -= 1) {
    records.push(readRecord(reader))
  }
  return records
}

function readRecord(reader: MsgpackReader): BlockRecord {
  const record = { requestId: null as string | null, blockIds: NO_WORDS, tokens: NO_WORDS }
  for (let left = reader.map(LIMITS.mapFields); left > 0 && !reader.isBroken; left -= 1) {
    switch (reader.string(LIMITS.nameBytes)) {
      case 'req_id':
        record.requestId = requestId(reader)
        break
      case 'new_block_ids':
        record.blockIds = reader.words(LIMITS.tokens)
        break
      case 'new_token_ids':
        record.tokens = reader.words(LIMITS.tokens)
        break
      default:
        reader.skip()
    }
  }
  if (record.requestId === null) reader.refuse()
  return { ...record, requestId: record.requestId ?? '' }
}

function checked<Value>(reader: MsgpackReader, value: Value, isRight: (value: Value) => boolean): Value {
  if (!isRight(value)) reader.refuse()
  return value
}

function isModelName(model: string): boolean {
  return model.length >= 1 && model.length <= MODEL_LENGTH_MAX && !model.includes('\0')
}

function isSalt(salt: string): boolean {
  return salt.length <= SALT_LENGTH_MAX && !SALT_FORBIDDEN.test(salt)
}
