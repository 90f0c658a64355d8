import { type Static, Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { type Api, type ApiParts, recordAct } from '../api.ts'
import type { BorrowerInfo, BorrowerToOpen, TimelineWords } from '../engine-port.ts'
import {
  badRequest,
  CacheSalt,
  checkNames,
  errorAnswers,
  JSON_BODY_MAX,
  ModelName,
  NoQuery,
  OpaqueId,
  TOKENS_MAX,
  Tokens,
} from '../schemas.ts'

const TTL_SECONDS = 30
const BYTES_MAX = Number.MAX_SAFE_INTEGER

/** The 64 bytes of an IPC handle. */
export const IpcHandle = Type.String({
  pattern: '^[0-9a-fA-F]{128}$',
  description: 'The 64 bytes of cuIpcGetMemHandle for the allocation, in hexadecimal.',
})
/** Words of the caller's GPU memory that its kernels and our copies wait for. */
export const TimelineBody = Type.Object(
  {
    ipc_handle: IpcHandle,
    offset: Type.Optional(Type.Integer({ minimum: 0, maximum: BYTES_MAX, description: 'Of word 0 in it; 0.' })),
    words: Type.Integer({ minimum: 1, maximum: 512, description: 'Of 8 bytes, zero at first. Each only grows.' }),
  },
  { additionalProperties: false },
)
const Value = Type.Integer({ minimum: 1, maximum: 2 ** 52 - 1, format: 'int64' })
/** A word of the timeline and a value. */
export const Point = Type.Object(
  { word: Type.Integer({ minimum: 0, maximum: 511 }), value: Value },
  { additionalProperties: false },
)

const Size = Type.Integer({ minimum: 1, maximum: 65_536 })
const Shape = Type.Object(
  {
    dtype: Type.Union(
      (['float32', 'bfloat16', 'float16', 'float8_e4m3fn', 'float8_e5m2', 'uint8'] as const).map((name) =>
        Type.Literal(name),
      ),
      { description: 'Of one element, as torch calls it.' },
    ),
    layers: Size,
    kv: Type.Integer({ minimum: 1, maximum: 2, description: '2 = K before V; 1 = one latent vector (MLA).' }),
    heads: Size,
    head_size: Size,
  },
  { additionalProperties: false, description: 'What the model keeps of a token, on this GPU.' },
)
const BorrowerBody = Type.Object(
  {
    model: ModelName,
    shape: Shape,
    process: Type.Optional(
      Type.Object(
        {
          pid: Type.Integer({ minimum: 1, maximum: 4_194_304 }),
          start_ticks: Type.Integer({ minimum: 0, maximum: BYTES_MAX, description: 'Field 22 of /proc/PID/stat.' }),
        },
        { additionalProperties: false, description: 'Of the caller: when it is gone, its blocks come back.' },
      ),
    ),
    timeline: Type.Optional(TimelineBody),
    ttl_seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 3600,
        description: `Life without a call, until it is looked for; ${TTL_SECONDS}.`,
      }),
    ),
  },
  { additionalProperties: false },
)
const Borrower = Type.Object({
  borrower_id: Type.String(),
  ipc_handle: Type.String({ description: 'Of the whole pool, for cuIpcOpenMemHandle.' }),
  pool_bytes: Type.Integer(),
  blocks: Type.Integer(),
  block_bytes: Type.Integer(),
  block_tokens: Type.Integer(),
  chunk_tokens: Type.Integer(),
  shape: Type.Array(Type.Integer(), {
    description: 'The pool as one dense tensor: [blocks, layers, kv, tokens of a block, heads, head size].',
  }),
  dtype: Type.String(),
  watched: Type.Boolean({ description: 'Whether the engine sees the process of the caller.' }),
  ttl_seconds: Type.Number(),
})
const TakeBody = Type.Object(
  {
    cache_salt: Type.Optional(CacheSalt),
    tokens: Tokens,
    extra_tokens: Type.Optional(
      Type.Integer({ minimum: 0, maximum: TOKENS_MAX, description: 'Room for tokens that are not known yet; 0.' }),
    ),
  },
  { additionalProperties: false },
)
const Taken = Type.Object({
  hold_id: Type.String(),
  blocks: Type.Array(Type.Integer(), { description: 'In the order of the tokens.' }),
  cached_tokens: Type.Integer({ description: 'Leading tokens whose bytes are in their blocks already.' }),
})
const CommitBody = Type.Object({ wait: Type.Optional(Point) }, { additionalProperties: false })
const Committed = Type.Object({ chunks: Type.Integer({ description: 'That became readable in L1.' }) })
const Id = Type.Object({ id: OpaqueId })
const HoldId = Type.Object({ id: OpaqueId, hold: OpaqueId })

/** Inference processes that work in blocks of the engine's own pool. */
export function borrowerRoutes(api: Api, parts: ApiParts): void {
  addBorrowers(api, parts)
  addHolds(api, parts)
}

/** The words of a body as the engine takes them. */
export function timelineOf(body: Static<typeof TimelineBody> | undefined): { timeline?: TimelineWords } {
  if (body === undefined) return {}
  const { ipc_handle, offset = 0, words } = body
  return { timeline: { handle: handleOf(ipc_handle), offset, words } }
}

/** The 64 bytes of a handle. */
export function handleOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, 'hex'))
}

function addBorrowers(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const open = {
    summary: "Open the engine's own KV blocks to an inference process",
    description:
      'By CUDA IPC. Whoever has the handle can read and write the blocks of every tenant. Registers the model, of one ' +
      'rank, with the layout of these blocks: a chunk in L1 is block after block.',
    querystring: NoQuery,
    body: BorrowerBody,
    response: { 200: Borrower, ...errorAnswers },
  }
  api.post('/v1/device/borrowers', { schema: open, config: { scope: 'admin' } }, async (request) => {
    checkNames({ model: request.body.model })
    const info = await engine.openBorrower(borrowerOf(request.body))
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_DEVICE_LEND',
      resourceType: 'device',
      resourceId: request.body.model,
      description: `Opened the GPU memory of L0 to a process of model ${request.body.model}.`,
      metadata: { borrower: info.borrowerId, pid: request.body.process?.pid ?? null, isWatched: info.isWatched },
    })
    return answerOf(info)
  })

  const config = { scope: 'inference' } as const
  const response = { 204: Type.Null({ description: 'Done.' }), ...errorAnswers }
  const renew = { summary: 'Keep a borrower for its full time again', params: Id, querystring: NoQuery, response }
  api.post('/v1/device/borrowers/:id/renew', { schema: renew, config }, async (request, reply) => {
    if (!(await engine.holdBorrower(request.params.id, 'renew'))) throw gone('id')
    return reply.code(204).send(null)
  })
  const close = {
    summary: 'End a borrower and all that it holds',
    description: 'Its kernels must write to its blocks no more.',
    params: Id,
    querystring: NoQuery,
    response,
  }
  api.delete('/v1/device/borrowers/:id', { schema: close, config }, async (request, reply) => {
    if (!(await engine.holdBorrower(request.params.id, 'close'))) throw gone('id')
    return reply.code(204).send(null)
  })
}

function addHolds(api: Api, { engine }: ApiParts): void {
  const config = { scope: 'inference' } as const
  const take = {
    summary: 'Take blocks for a prompt',
    description:
      'What the tiers have of the prompt is in its blocks when this answers; the others are to be filled. Counts as a ' +
      'lookup.',
    params: Id,
    querystring: NoQuery,
    body: TakeBody,
    response: { 200: Taken, ...errorAnswers },
  }
  const options = { schema: take, config, bodyLimit: JSON_BODY_MAX }
  api.post('/v1/device/borrowers/:id/blocks', options, async (request) => {
    const { cache_salt: salt = '', tokens, extra_tokens: extraTokens = 0 } = request.body
    checkNames({ cache_salt: salt })
    const wanted = { salt, tokens: Uint32Array.from(tokens), extraTokens }
    const { holdId, blocks, cachedTokens } = await engine.takeBlocks(request.params.id, wanted)
    return { hold_id: holdId, blocks: [...blocks], cached_tokens: cachedTokens }
  })

  const commit = {
    summary: 'Say that the blocks of a hold are filled',
    description: 'Its whole chunks can be read by others from then on, and go to L1. Answers when they are there.',
    params: HoldId,
    querystring: NoQuery,
    body: CommitBody,
    response: { 200: Committed, ...errorAnswers },
  }
  api.post('/v1/device/borrowers/:id/blocks/:hold/commit', { schema: commit, config }, async (request) => {
    const { id, hold } = request.params
    return { chunks: await engine.commitBlocks(id, hold, request.body.wait) }
  })

  const response = { 204: Type.Null({ description: 'Done.' }), ...errorAnswers }
  const release = { summary: 'Give the blocks of a hold back', params: HoldId, querystring: NoQuery, response }
  api.delete('/v1/device/borrowers/:id/blocks/:hold', { schema: release, config }, async (request, reply) => {
    if (!(await engine.releaseBlocks(request.params.id, request.params.hold))) throw gone('hold')
    return reply.code(204).send(null)
  })
}

function borrowerOf({ model, shape, process, timeline, ttl_seconds }: Static<typeof BorrowerBody>): BorrowerToOpen {
  const { head_size: headSize, ...sizes } = shape
  const bytes = sizes.layers * sizes.kv * sizes.heads * headSize
  if (bytes > 2 ** 30) throw badRequest('shape', 'a token has 2^30 elements at most')
  return {
    model,
    shape: { ...sizes, headSize },
    ...(process === undefined ? {} : { process: { pid: process.pid, startTicks: process.start_ticks } }),
    ...timelineOf(timeline),
    ttlMs: (ttl_seconds ?? TTL_SECONDS) * 1_000,
  }
}

function answerOf(info: BorrowerInfo): Static<typeof Borrower> {
  return {
    borrower_id: info.borrowerId,
    ipc_handle: Buffer.from(info.handle).toString('hex'),
    pool_bytes: info.poolBytes,
    blocks: info.blocks,
    block_bytes: info.blockBytes,
    block_tokens: info.blockTokens,
    chunk_tokens: info.chunkTokens,
    shape: [...info.shape],
    dtype: info.dtype,
    watched: info.isWatched,
    ttl_seconds: info.ttlMs / 1_000,
  }
}

function gone(field: string): CacheError {
  return new CacheError('NOT_FOUND', 'there is no such borrower or hold: its engine may have started anew', { field })
}
