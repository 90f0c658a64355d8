import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { decodeIncoming, decodeOp } from '../../src/protocol/mp/codec.ts'
import {
  CURRENT_GENERATION,
  type Generation,
  generationOfFirst,
  REFUSED_OPS,
  SERVED_OPS,
} from '../../src/protocol/mp/generations.ts'
import type { BlockRecord, Request, WireKey } from '../../src/protocol/mp/messages.ts'
import * as replies from '../../src/protocol/mp/replies.ts'
import { REPOSITORY } from '../support/source-tree.ts'

// What real clients sent, and answers that they accepted (test/README.md says how they were recorded).

type Plain = null | boolean | number | string | Plain[] | { [name: string]: Plain }
type Fields = { [name: string]: Plain }

interface Exchange {
  readonly op: string
  readonly case: string
  readonly wire_op: number | string
  readonly frames: readonly string[]
  readonly meaning: { readonly payloads: readonly Plain[] }
  readonly reply: { readonly frames: readonly string[]; readonly accepted: Plain }
}

interface Recording {
  readonly client: string
  readonly exchanges: readonly Exchange[]
}

const FOLDER = join(REPOSITORY, 'test/golden/mp')
const recordings = readdirSync(FOLDER).map((file) => JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Recording)
const REGISTRATION = 'register_kv_cache_engine_driven_context'
const NEEDS_SEGMENT = /^(prepare|commit)_|engine_driven/
const SERVED = new Set<string>(SERVED_OPS)
const REFUSED = new Set<string>(REFUSED_OPS)

describe.each(recordings)('the frames of $client', ({ exchanges: recorded }) => {
  const generation = generationOf(recorded)
  // 0.4.6 takes no answer to its registration, so it cannot be told a segment, and nothing after that counts.
  const hasSegment = recorded.every(({ op, reply }) => op !== REGISTRATION || reply.accepted !== null)
  const exchanges = hasSegment ? recorded : recorded.filter(({ op }) => !NEEDS_SEGMENT.test(op))

  it.each(exchanges.filter(({ op }) => SERVED.has(op)))('$op $case is understood', (exchange) => {
    const incoming = decodeIncoming(bytes(exchange.frames), generation)
    if (incoming.kind !== 'request') expect.fail(`taken for ${incoming.kind}`)
    expect(incoming.request).toMatchObject(expectedRequest(exchange))
  })

  it.each(exchanges.filter(({ op }) => REFUSED.has(op)))('$op is known for one that is not served', (exchange) => {
    const hints = exchange.meaning.payloads[5] as Fields | undefined
    const isUnified = hints?.kv_list_layout === 'unified'
    const found = decodeIncoming(bytes(exchange.frames), generation)
    expect(found).toMatchObject({ kind: 'foreign', op: exchange.op, isUnified })
  })

  it.each(exchanges.filter(({ op }) => !SERVED.has(op) && !REFUSED.has(op)))('$op is unknown', (exchange) => {
    expect(decodeIncoming(bytes(exchange.frames), generation)).toMatchObject({ kind: 'unknown_op' })
  })

  it.each(exchanges.filter(({ op }) => SERVED.has(op)))('$op $case is answered with the same bytes', (exchange) => {
    const [, , payload = null] = exchange.reply.frames
    const own = ownReply(exchange)
    expect(own === null ? null : Buffer.from(own).toString('hex')).toBe(payload)
  })
})

it('tells the numbering of every client from its first frame', () => {
  const firsts = recordings.map(({ exchanges }) => decodeOp(bytes(exchanges[0]!.frames)[1]!))
  expect(firsts.map((id) => generationOfFirst(id as number)?.ids.get(id as number))).toEqual(
    firsts.map(() => 'get_chunk_size'),
  )
})

function generationOf(exchanges: readonly Exchange[]): Generation {
  const id = exchanges.find(({ op }) => op === 'get_chunk_size')!.wire_op
  return generationOfFirst(id as number) ?? CURRENT_GENERATION
}

function bytes(frames: readonly string[]): Uint8Array[] {
  return frames.map((frame) => Buffer.from(frame, 'hex'))
}

/** What the codec must make of a request, said by the client's own record of it. */
function expectedRequest({ op, meaning: { payloads } }: Exchange): Partial<Request> {
  const [first = null, second = null, third = null] = payloads
  switch (op) {
    case 'ping':
      return { op, instanceId: first === null ? null : wide(first) }
    case 'unregister_kv_cache_engine_driven_context':
      return { op, instanceId: wide(first) }
    case REGISTRATION:
      return { op, context: expectedContext(first as Fields) }
    case 'lookup':
    case 'free_lookup_locks':
      return { op, key: expectedKey(first as Fields), tensorParallel: second as number }
    case 'query_prefetch_status':
    case 'end_session':
      return { op, requestId: first as string }
    case 'wait_prefetch_status':
      return { op, requestId: first as string, timeoutSeconds: second as number }
    case 'prepare_store':
    case 'prepare_retrieve':
    case 'commit_retrieve':
      return { op, key: expectedKey(first as Fields), instanceId: wide(second) }
    case 'commit_store':
      return { op, key: expectedKey(first as Fields), instanceId: wide(second), dataBytes: 0 }
    case 'report_block_allocation':
      return { op, instanceId: wide(first), model: second as string, records: expectedRecords(third as Fields[]) }
    default:
      return { op } as Partial<Request>
  }
}

function expectedRecords(records: readonly Fields[]): BlockRecord[] {
  return records.map(({ req_id: requestId, new_block_ids: blockIds, new_token_ids: tokens }) => ({
    requestId: requestId as string,
    blockIds: Uint32Array.from(blockIds as number[]),
    tokens: Uint32Array.from(tokens as number[]),
  }))
}

function expectedKey(key: Fields): WireKey {
  return {
    model: key.model_name as string,
    salt: (key.cache_salt as string | undefined) ?? '',
    worldSize: key.world_size as number,
    workerId: key.worker_id as number | null,
    tokens: expectedTokens(key),
    start: key.start as number,
    end: key.end as number,
    requestId: key.request_id as string,
    readers: (key.num_kv_readers as number | undefined) ?? 0,
  }
}

function expectedTokens(key: Fields): Uint32Array {
  if (key.token_ids !== undefined) return Uint32Array.from(key.token_ids as number[])
  const packed = Buffer.from((key.token_bytes as { hex: string }).hex, 'hex')
  return Uint32Array.from({ length: packed.length / 4 }, (_, index) => packed.readUInt32BE(4 * index))
}

function expectedContext(context: Fields) {
  return {
    instanceId: wide(context.instance_id!),
    model: context.model_name as string,
    worldSize: context.world_size as number,
    blockTokens: context.block_size as number,
    layers: context.num_layers as number,
    hidden: context.hidden_dim_size as number,
    dtype: context.dtype_str as string,
    isMla: context.use_mla as boolean,
    slots: (context.num_physical_slots as number | undefined) ?? null,
    groups: Array.isArray(context.group_layouts) ? context.group_layouts.length : 0,
  }
}

/** The recording writes integers beyond 2^53 as {int}. */
function wide(value: Plain): bigint {
  return BigInt(typeof value === 'number' ? value : (value as { int: string }).int)
}

/** The answer that the client accepted, written by this side's encoders. */
function ownReply({ op, reply: { accepted } }: Exchange): replies.ReplyPayload {
  if (accepted === null) return replies.NONE
  if (typeof accepted === 'boolean') return replies.boolReply(accepted)
  if (typeof accepted === 'number') return replies.intReply(accepted)
  if (typeof accepted === 'string') return replies.textReply(accepted)
  if (op === 'get_experimental') return replies.textsReply(accepted as string[])
  const fields = accepted as Fields
  if (op === REGISTRATION) {
    return replies.segmentReply(fields.shm_name as string, Number((fields.pool_size as number) ?? 0))
  }
  const { slots = [], chunk_indices: indices = [] } = fields.context as Fields
  const places = slots as { offset: number; length: number; shape: number[]; dtype: string }[]
  const offsets = places.map(({ offset }) => offset)
  const tail = places[0] ? replies.slotTail(places[0].shape, places[0].dtype) : new Uint8Array(0)
  if (op === 'prepare_store') {
    return replies.storeReply(offsets.length, offsets, indices as number[], tail, places[0]?.length)
  }
  if (fields.success === false) return replies.NOT_RETRIEVABLE
  return replies.retrieveReply(offsets.length, offsets, tail, places[0]!.length)
}
