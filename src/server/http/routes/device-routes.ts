import { type Static, Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { type Api, type ApiParts, layoutOf, unregistered } from '../api.ts'
import type { SharedMemoryPart } from '../engine-port.ts'
import {
  badRequest,
  CacheSalt,
  Count,
  checkNames,
  errorAnswers,
  JSON_BODY_MAX,
  ModelName,
  NoQuery,
  OpaqueId,
  Ranks,
  Tokens,
} from '../schemas.ts'
import { handleOf, IpcHandle, Point, TimelineBody, timelineOf } from './borrower-routes.ts'

const BYTES_MAX = Number.MAX_SAFE_INTEGER
const PLANES_MAX = 4096
const BLOCKS_MAX = 1_048_576
const ALLOCATIONS_MAX = 1024
const TTL_SECONDS = 60

const Bytes = Type.Integer({ minimum: 0, maximum: BYTES_MAX, format: 'int64' })
const Offset = Type.Integer({ minimum: 0, maximum: BYTES_MAX, description: 'Of the pool in it; 0.' })
const Allocation = Type.Object(
  {
    ipc_handle: IpcHandle,
    offset: Type.Optional(Offset),
    bytes: Type.Integer({ minimum: 1, maximum: BYTES_MAX, description: 'Of it that are of the pool.' }),
  },
  { additionalProperties: false },
)
const PoolBody = Type.Object(
  {
    model: ModelName,
    ranks: Type.Optional(Ranks),
    rank: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535, description: 'Whose blocks these are; 0.' })),
    ipc_handle: Type.Optional(IpcHandle),
    offset: Type.Optional(Offset),
    bytes: Type.Optional(Type.Integer({ minimum: 1, maximum: BYTES_MAX, description: 'Of the pool.' })),
    allocations: Type.Optional(
      Type.Array(Allocation, {
        minItems: 1,
        maxItems: ALLOCATIONS_MAX,
        description:
          'In place of ipc_handle, offset and bytes: a pool of several, which count as one behind the other.',
      }),
    ),
    planes: Type.Array(Bytes, {
      minItems: 1,
      maxItems: PLANES_MAX,
      description: 'Where block 0 lies in each plane, from the start of the pool: K and V of each layer, say.',
    }),
    block_stride: Type.Integer({
      minimum: 1,
      maximum: BYTES_MAX,
      description: 'From one block to the next in a plane.',
    }),
    block_bytes: Type.Integer({ minimum: 1, maximum: BYTES_MAX, description: 'Of one block in one plane.' }),
    timeline: Type.Optional(TimelineBody),
    ttl_seconds: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 3600, description: `Life without a renewal or a copy; ${TTL_SECONDS}.` }),
    ),
  },
  { additionalProperties: false },
)
const CopyBody = Type.Object(
  {
    cache_salt: Type.Optional(CacheSalt),
    tokens: Tokens,
    blocks: Type.Array(Type.Integer({ minimum: 0, maximum: 2_147_483_647 }), {
      maxItems: BLOCKS_MAX,
      description: 'Ids of the blocks of the whole chunks of the prompt, root first; none twice in a load.',
    }),
    wait: Type.Optional(Point),
    signal: Type.Optional(Point),
  },
  { additionalProperties: false },
)
const Attached = Type.Object({
  pool_id: Type.String(),
  blocks_per_chunk: Type.Integer(),
  ttl_seconds: Type.Number(),
})
const Copied = Type.Object({
  chunks: Type.Integer({ minimum: 0, description: 'Of the leading run: loaded, or new in L1.' }),
  tokens: Count,
  bytes: Count,
  busy_seconds: Type.Number({ description: 'Time of the copy, by the clock of the device.' }),
})
const Id = Type.Object({ id: OpaqueId })

/** GPU memory of inference processes: they hand it over by IPC handle, and the engine copies in and out of its blocks. */
export function deviceRoutes(api: Api, parts: ApiParts): void {
  addPools(api, parts)
  addCopies(api, parts)
}

/** What a pool is made of, in either form of the body. */
function allocationsOf({ allocations, ipc_handle, offset, bytes }: Static<typeof PoolBody>): SharedMemoryPart[] {
  const isOne = ipc_handle !== undefined && bytes !== undefined
  if (isOne && allocations === undefined) return [{ handle: handleOf(ipc_handle), offset: offset ?? 0, bytes }]
  if (allocations === undefined || ipc_handle !== undefined || offset !== undefined || bytes !== undefined) {
    throw badRequest('allocations', 'a pool is ipc_handle and bytes, or allocations')
  }
  return allocations.map((one) => ({ handle: handleOf(one.ipc_handle), offset: one.offset ?? 0, bytes: one.bytes }))
}

function addPools(api: Api, { engine }: ApiParts): void {
  const config = { scope: 'inference' } as const
  const attach = {
    summary: 'Attach the KV blocks of an inference process',
    description: 'By CUDA IPC. A chunk in L1 is plane after plane, each with the bytes of its blocks in order.',
    querystring: NoQuery,
    body: PoolBody,
    response: { 200: Attached, ...errorAnswers },
  }
  api.post('/v1/device/pools', { schema: attach, config }, async (request) => {
    const { model, ranks, rank = 0, planes, ttl_seconds = TTL_SECONDS } = request.body
    checkNames({ model })
    const allocations = allocationsOf(request.body)
    const layout = await layoutOf(engine, model, ranks)
    if (layout === undefined) throw unregistered(model, ranks)
    const attached = await engine.attachPool({
      model,
      ranks: layout.ranks,
      rank,
      allocations,
      planes,
      blockStride: request.body.block_stride,
      blockBytes: request.body.block_bytes,
      ...timelineOf(request.body.timeline),
      ttlMs: ttl_seconds * 1_000,
    })
    return {
      pool_id: attached.poolId,
      blocks_per_chunk: attached.blocksPerChunk,
      ttl_seconds: attached.ttlMs / 1_000,
    }
  })

  const response = { 204: Type.Null({ description: 'Done.' }), ...errorAnswers }
  const gone = () => new CacheError('NOT_FOUND', 'there is no such pool, or its time has passed', { field: 'id' })
  const renew = { summary: 'Keep an attached pool for its full time again', params: Id, querystring: NoQuery, response }
  api.post('/v1/device/pools/:id/renew', { schema: renew, config }, async (request, reply) => {
    if (!(await engine.holdPool(request.params.id, 'renew'))) throw gone()
    return reply.code(204).send(null)
  })
  const detach = { summary: 'Give attached memory back', params: Id, querystring: NoQuery, response }
  api.delete('/v1/device/pools/:id', { schema: detach, config }, async (request, reply) => {
    if (!(await engine.holdPool(request.params.id, 'detach'))) throw gone()
    return reply.code(204).send(null)
  })
}

function addCopies(api: Api, parts: ApiParts): void {
  const summaries = {
    store: 'Copy blocks of an attached pool into L1',
    load: 'Copy what L1 and L2 hold of a prompt into blocks of an attached pool',
  }
  for (const direction of ['store', 'load'] as const) {
    const schema = {
      summary: summaries[direction],
      description:
        'Answers when the copy has ended: until then the blocks are left alone. Renews the pool. With a timeline: waits ' +
        'for a word before, for 5 s at most, and writes one after it, the value plus 2^52 when nothing was copied well.',
      params: Id,
      querystring: NoQuery,
      body: CopyBody,
      response: { 200: Copied, ...errorAnswers },
    }
    const options = { schema, config: { scope: 'inference' } as const, bodyLimit: JSON_BODY_MAX }
    api.post(`/v1/device/pools/:id/${direction}`, options, async (request) => {
      const { cache_salt: salt = '', blocks, tokens, wait, signal } = request.body
      const copied = await parts.engine.copyPool(request.params.id, {
        direction,
        salt,
        tokens: Uint32Array.from(tokens),
        blocks: Int32Array.from(blocks),
        ...(wait === undefined ? {} : { wait }),
        ...(signal === undefined ? {} : { signal }),
      })
      const { chunks, chunkTokens, bytes, busySeconds } = copied
      return { chunks, tokens: chunks * chunkTokens, bytes, busy_seconds: busySeconds }
    })
  }
}
