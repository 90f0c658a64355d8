import { Decoder, Encoder, ExtData } from '@msgpack/msgpack'
import { expect, it } from 'vitest'
import { decodeReply, encodePayload } from '../../../../src/protocol/mp/client-codec.ts'
import { decodeIncoming } from '../../../../src/protocol/mp/codec.ts'
import {
  CURRENT_GENERATION,
  GENERATIONS,
  generationOfFirst,
  idOf,
  opOf,
  SERVED_OPS,
} from '../../../../src/protocol/mp/generations.ts'
import type { Request, WireKey } from '../../../../src/protocol/mp/messages.ts'
import * as replies from '../../../../src/protocol/mp/replies.ts'
import { TokenCache } from '../../../../src/protocol/mp/token-cache.ts'
import { random } from '../../../support/random.ts'

const encoder = new Encoder({ useBigInt64: true })
const decoder = new Decoder({ useBigInt64: true })
const UID = encoder.encode(7)
const INSTANCE = 2n ** 62n + 3n

const KEY = {
  model_name: 'm',
  world_size: 2,
  worker_id: 1,
  token_ids: [1, 2, 70_000, 2 ** 32 - 1],
  start: 0,
  end: 4,
  request_id: 'r',
}
const DECODED: WireKey = {
  model: 'm',
  salt: '',
  worldSize: 2,
  workerId: 1,
  tokens: Uint32Array.from(KEY.token_ids),
  start: 0,
  end: 4,
  requestId: 'r',
  readers: 0,
}

function decode(op: number | string, ...payload: unknown[]) {
  return decodeIncoming([UID, encoder.encode(op), ...payload.map((one) => encoder.encode(one))], CURRENT_GENERATION)
}

function requestOf(op: string, ...payload: unknown[]): Request {
  const incoming = decode(op, ...payload)
  if (incoming.kind !== 'request') throw new Error(incoming.kind)
  return incoming.request
}

it('reads a key with defaults for what is missing, and ignores what it does not know', () => {
  expect(requestOf('prepare_store', KEY, INSTANCE)).toEqual({ op: 'prepare_store', key: DECODED, instanceId: INSTANCE })
  const newer = {
    ...KEY,
    request_configs: { a: [1, { b: new ExtData(1, new Uint8Array(3)) }] },
    null_chunk_mask: null,
    later: 1,
  }
  expect(requestOf('prepare_store', newer, INSTANCE)).toMatchObject({ key: DECODED })
  expect(requestOf('lookup', { ...KEY, worker_id: null, cache_salt: 's', num_kv_readers: 4 }, 2)).toMatchObject({
    key: { workerId: null, salt: 's', readers: 4 },
    tensorParallel: 2,
  })
})

it.each([
  ['a trace context', { traceparent: '00-1-2-01', 'lmcache.skip_save': true }, '00-1-2-01'],
  ['a trace context behind other things', { a: [1, { traceparent: 'no' }], 2: 'x', traceparent: 'yes' }, 'yes'],
  ['none', { a: 1 }, undefined],
  ['null', null, undefined],
  ['a list', [1, [2]], undefined],
  ['text', 'traceparent', undefined],
  ['a number for it', { traceparent: 7 }, undefined],
  ['a map for it', { traceparent: { traceparent: 'x' } }, undefined],
  ['bytes for it', { traceparent: new Uint8Array(3) }, undefined],
  ['something long for it', { traceparent: 'x'.repeat(257) }, undefined],
  [
    'too many names before it',
    Object.fromEntries([...Array(64).keys(), 'traceparent'].map((name) => [`${name}`.padEnd(11), 'x'])),
    undefined,
  ],
])('reads metadata of a request that has %s', (_, metadata, traceparent) => {
  const key = { ...DECODED, traceparent }
  expect(requestOf('prepare_store', { request_configs: metadata, ...KEY }, INSTANCE)).toEqual({
    op: 'prepare_store',
    key,
    instanceId: INSTANCE,
  })
})

it('reads packed tokens as it reads a list of them', () => {
  const { token_ids: tokens, ...rest } = KEY
  const packed = new Uint8Array(tokens.length * 4)
  tokens.forEach((token, index) => void new DataView(packed.buffer).setUint32(index * 4, token))
  // At an odd place of its frame, where no 32-bit view could lie.
  for (const more of [{}, { x: 1 }, { xy: 1 }, { xyz: 1 }]) {
    expect(requestOf('prepare_store', { ...more, ...rest, token_bytes: packed }, 1n)).toMatchObject({ key: DECODED })
  }
})

it('reads each request of the wire', () => {
  const context = {
    instance_id: INSTANCE,
    model_name: 'm',
    world_size: 1,
    block_size: 16,
    num_layers: 2,
    hidden_dim_size: 64,
    dtype_str: 'float16',
    use_mla: false,
    later: [],
  }
  expect(requestOf('register_kv_cache_engine_driven_context', context)).toMatchObject({
    context: { instanceId: INSTANCE, slots: null, isMla: false, layers: 2 },
  })
  expect(requestOf('ping', null)).toEqual({ op: 'ping', instanceId: null })
  expect(requestOf('ping', INSTANCE)).toEqual({ op: 'ping', instanceId: INSTANCE })
  expect(requestOf('wait_prefetch_status', 'r', 2)).toMatchObject({ timeoutSeconds: 2 })
  expect(requestOf('wait_prefetch_status', 'r', 0.5)).toMatchObject({ timeoutSeconds: 0.5 })
  expect(requestOf('commit_store', KEY, 1n, new Uint8Array(5))).toMatchObject({ dataBytes: 5 })
  expect(requestOf('end_session', 'r', 'more')).toEqual({ op: 'end_session', requestId: 'r' })
  expect(requestOf('clear', true)).toEqual({ op: 'clear' })
  const record = { req_id: 'r', new_block_ids: [1], new_token_ids: [2], later: {} }
  const records = [{ requestId: 'r', blockIds: Uint32Array.of(1), tokens: Uint32Array.of(2) }]
  expect(requestOf('report_block_allocation', 4n, 'm', [record])).toMatchObject({ records })
})

it.each([
  ['no model', { ...KEY, model_name: undefined }],
  ['an empty model', { ...KEY, model_name: '' }],
  ['a salt that could leave a directory', { ...KEY, cache_salt: '../x' }],
  ['a salt that is too long', { ...KEY, cache_salt: 'x'.repeat(129) }],
  ['a world of nobody', { ...KEY, world_size: 0 }],
  ['a world of 256', { ...KEY, world_size: 256 }],
  ['a worker outside its world', { ...KEY, worker_id: 2 }],
  ['an end before its start', { ...KEY, start: 3, end: 2 }],
  ['a float for a position', { ...KEY, end: 4.5 }],
  ['a token that is text', { ...KEY, token_ids: [1, 'x'] }],
  ['packed tokens of 5 bytes', { ...KEY, token_ids: undefined, token_bytes: new Uint8Array(5) }],
  ['a list for a key', [1, 2]],
])('refuses a key with %s', (_what, key) => {
  const sent = Array.isArray(key)
    ? key
    : Object.fromEntries(Object.entries(key).filter(([, value]) => value !== undefined))
  expect(decode('prepare_store', sent, 1n)).toMatchObject({ kind: 'bad_payload', op: 'prepare_store' })
})

it('refuses a request with too few frames, and does not mind further ones', () => {
  expect(decode('prepare_store', KEY).kind).toBe('bad_payload')
  expect(decode('prepare_store', KEY, 1n, 'later').kind).toBe('request')
})

it('names the operations of the other path, with the instance that asks', () => {
  const handles = new ExtData(1, new Uint8Array(64))
  expect(decode(1, INSTANCE, [handles], 'm', 1)).toMatchObject({
    kind: 'foreign',
    op: 'register_kv_cache',
    instanceId: INSTANCE,
  })
})

it.each([
  ['no frames', []],
  ['one frame', [UID]],
  ['a float as uid', [encoder.encode(1.5), encoder.encode(8)]],
  ['a list as op', [UID, encoder.encode([8])]],
  ['two values as op', [UID, Buffer.concat([encoder.encode(8), encoder.encode(8)])]],
  ['more frames than any operation has', Array.from({ length: 17 }, () => UID)],
])('takes %s for malformed', (_what, frames) => {
  expect(decodeIncoming(frames, CURRENT_GENERATION)).toEqual({ kind: 'malformed' })
})

it('keeps uid and op as they came', () => {
  const uid = Uint8Array.from([0xcf, 0, 0, 0, 0, 0, 0, 0, 1]) // 1, in a longer form than needed
  const op = Uint8Array.from([0xcd, 0, 21])
  expect(decodeIncoming([uid, op], CURRENT_GENERATION)).toEqual({
    kind: 'request',
    envelope: { uid, op },
    request: { op: 'get_chunk_size' },
  })
})

it('chooses the numbering of a client by the id of its first request', () => {
  for (const generation of GENERATIONS) expect(generationOfFirst(idOf(generation, 'get_chunk_size')!)).toBe(generation)
  expect(GENERATIONS.map((one) => idOf(one, 'get_chunk_size'))).toEqual([21, 18, 17, 16, 11, 10, 8, 7])
  expect(generationOfFirst(22)).toBeUndefined()
})

it('knows every operation by name in every generation, and each number once', () => {
  for (const generation of GENERATIONS) {
    for (const op of SERVED_OPS) expect(opOf(generation, op)).toBe(op)
    for (const [id, op] of generation.ids) expect(opOf(generation, id)).toBe(op)
  }
  expect(opOf(CURRENT_GENERATION, 'poll_kv_events')).toBeUndefined()
  expect(opOf(CURRENT_GENERATION, 'constructor')).toBeUndefined()
})

it('writes answers that another decoder reads', () => {
  const tail = replies.slotTail([2, 3, 256, 64], 'bfloat16')
  const slot = (offset: number) => ({ offset, length: 4096, shape: [2, 3, 256, 64], dtype: 'bfloat16' })
  expect(decoder.decode(replies.storeReply(2, [0, 2 ** 33], [0, 5], tail, 4096)!)).toEqual({
    context: { slots: [slot(0), slot(2 ** 33)].map(wide), chunk_indices: [0, 5] },
  })
  expect(decoder.decode(replies.retrieveReply(1, [8192], tail, 4096)!)).toEqual({
    success: true,
    data: new Uint8Array(0),
    context: { slots: [slot(8192)] },
  })
  expect(decoder.decode(replies.NOTHING_TO_STORE!)).toEqual({ context: { slots: [], chunk_indices: [] } })
  expect(decoder.decode(replies.NOT_RETRIEVABLE!)).toEqual({ success: false, data: new Uint8Array(0), context: {} })
  expect(decoder.decode(replies.segmentReply('name', 4096)!)).toEqual({ shm_name: 'name', pool_size: 4096 })
  expect(decoder.decode(replies.textsReply(['a'])!)).toEqual(['a'])
})

/** The oracle gives 64-bit forms as bigint. */
function wide(slot: { offset: number }) {
  return slot.offset > 2 ** 32 ? { ...slot, offset: BigInt(slot.offset) } : slot
}

it('has a client that reads what the server writes, and writes what it reads', () => {
  const tail = replies.slotTail([2, 1], 'float16')
  const slot = { offset: 9, length: 8, shape: [2, 1], dtype: 'float16' }
  expect(decodeReply.store(replies.storeReply(1, [9], [3], tail, 8)!)).toEqual({ slots: [slot], chunkIndices: [3] })
  expect(decodeReply.retrieve(replies.retrieveReply(1, [9], tail, 8)!)).toEqual([slot])
  expect(decodeReply.retrieve(replies.NOT_RETRIEVABLE!)).toBeNull()
  expect(decodeReply.segment(replies.segmentReply('name', 5)!)).toEqual({ name: 'name', bytes: 5 })
  for (const form of ['token_ids', 'token_bytes'] as const) {
    const frames = [UID, encoder.encode('prepare_store'), encodePayload.key(DECODED, form), encodePayload.int(INSTANCE)]
    expect(decodeIncoming(frames, CURRENT_GENERATION)).toMatchObject({ request: { key: DECODED } })
  }
})

const FUZZ_MS = 1_500

it.each([1, 2, 3])('survives hostile frames (seed %i)', (seed) => {
  const next = random(seed)
  const parts = [1.5, 'x', null, true, [1, [2]], KEY, { ...KEY, token_ids: { a: 1 } }, new Uint8Array(9), INSTANCE]
  const kinds = new Set<string>()
  const start = performance.now()
  for (let round = 0; performance.now() - start < FUZZ_MS && round < 100_000; round += 1) {
    const op = encoder.encode(next(2) === 0 ? next(45) : SERVED_OPS[next(SERVED_OPS.length)])
    const payload = Array.from({ length: next(5) }, () => mangle(encoder.encode(parts[next(parts.length)]), next))
    const frames = next(10) === 0 ? payload : [UID, next(8) === 0 ? mangle(op, next) : op, ...payload]
    kinds.add(decodeIncoming(frames, GENERATIONS[next(GENERATIONS.length)]!).kind)
  }
  expect([...kinds].sort()).toEqual(['bad_payload', 'foreign', 'malformed', 'request', 'unknown_op'])
})

/** Leaves it, cuts it, flips bytes, or puts a huge length in front. */
function mangle(frame: Uint8Array, next: (limit: number) => number): Uint8Array {
  const bytes = Uint8Array.from(frame)
  const way = next(4)
  if (way === 0) return bytes
  if (way === 1) return bytes.subarray(0, next(bytes.length + 1))
  if (way === 2) {
    for (let flips = 1 + next(4); flips > 0 && bytes.length > 0; flips -= 1) bytes[next(bytes.length)] = next(256)
    return bytes
  }
  return Buffer.concat([Uint8Array.from([[0xdb, 0xc6, 0xc9, 0xdd, 0xdf][next(5)]!, 0x3f, 0xff, 0xff, 0xff]), bytes])
}

it('reads the tokens of a prompt once, whatever else a request says', () => {
  const tokens = { ids: new TokenCache(2), packed: new TokenCache(2) }
  const read = (key: object) => {
    const frames = [UID, encoder.encode('prepare_retrieve'), encoder.encode(key), encoder.encode(1n)]
    const incoming = decodeIncoming(frames, CURRENT_GENERATION, { tokens })
    return incoming.kind === 'request' && 'key' in incoming.request ? incoming.request.key : undefined
  }
  const long = { ...KEY, token_ids: Array.from({ length: 400 }, (_, index) => index * 1000), end: 400 }
  const first = read(long)!
  for (const name of ['x', 'y', 'z']) {
    const other = read({ ...long, request_id: name })!
    expect(other).toEqual({ ...first, requestId: name })
    expect(other.tokens).toBe(first.tokens)
  }
  expect(read({ ...long, end: 'x' })).toBeUndefined()
})
