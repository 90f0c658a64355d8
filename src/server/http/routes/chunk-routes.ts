import type { IncomingMessage } from 'node:http'
import { type Static, Type } from 'typebox'
import { CacheError, type ErrorCode } from '../../../core/errors.ts'
import type { Api, ApiParts } from '../api.ts'
import { layoutOf, unregistered } from '../api.ts'
import { checkBodyLength, receiveSlot, SlotReader } from '../chunk-transfer.ts'
import type { ModelLayout, ReserveRefusal, ShardRef } from '../engine-port.ts'
import {
  badRequest,
  CacheSalt,
  Count,
  checkNames,
  errorAnswers,
  Hash,
  ModelName,
  RANKS_MAX,
  Ranks,
} from '../schemas.ts'
import { traceOf } from '../trace-headers.ts'
import { checkSameLayout } from './peer-routes.ts'

const BINARY = 'application/octet-stream'
/** The crc32 (zlib polynomial) of the body, 8 hex digits. */
const CHECKSUM_HEADER = 'x-kvtier-crc32'

const Params = Type.Object({ hash: Hash })
const address = {
  model: ModelName,
  cache_salt: Type.Optional(CacheSalt),
  ranks: Type.Optional(Ranks),
  rank: Type.Optional(Type.Integer({ minimum: 0, maximum: RANKS_MAX - 1, default: 0, description: 'Which shard.' })),
}
const ReadQuery = Type.Object(address, { additionalProperties: false })
const RetrieveQuery = Type.Object(
  {
    ...address,
    layout: Type.Optional(Type.String({ maxLength: 64, description: 'Must be that of the registered model.' })),
    checksum: Type.Optional(Type.Boolean({ description: `Whether the answer says ${CHECKSUM_HEADER}.` })),
  },
  { additionalProperties: false },
)
const WriteQuery = Type.Object(
  {
    ...address,
    parent: Type.String({ pattern: '^([0-9a-fA-F]{64}|root)$', description: 'Hash of the chunk before, or root.' }),
  },
  { additionalProperties: false },
)
const Stored = Type.Object({ hash: Type.String(), status: Type.String(), bytes: Count })
const Bytes = Type.Unsafe<unknown>({ type: 'string', format: 'binary', description: 'The bytes of the shard.' })

const REFUSALS: Readonly<Record<Exclude<ReserveRefusal['status'], 'present'>, readonly [ErrorCode, string]>> = {
  busy: ['CHUNK_BUSY', 'another client is writing this chunk; try again'],
  no_parent: [
    'PARENT_ABSENT',
    'the parent chunk is not resident; store it first, or send parent=root for a first chunk',
  ],
  no_room: ['NO_ROOM', 'L1 has no room for the chunk; try again'],
}

/** Chunks as octet-streams, for plain clients: store, retrieve, probe. */
export function chunkRoutes(api: Api, parts: ApiParts): void {
  api.register(async (scoped) => {
    const inner = scoped.withTypeProvider() as Api
    inner.removeAllContentTypeParsers()
    // The body stays a stream: it goes piece by piece into the arena.
    inner.addContentTypeParser(BINARY, (_request, payload, done) => done(null, payload))
    addProbe(inner, parts)
    addRetrieve(inner, parts)
    addStore(inner, parts)
  })
}

function addStore(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const schema = {
    summary: 'Store one shard',
    description: `The body (${BINARY}) has exactly the registered chunk_bytes. 200: it was there already.`,
    consumes: [BINARY],
    params: Params,
    querystring: WriteQuery,
    response: { 200: Stored, 201: Stored, ...errorAnswers },
  }
  api.put('/v1/chunks/:hash', { schema, config: { scope: 'inference' } }, async (request, reply) => {
    const { query, params } = request
    const layout = await registeredLayout(parts, query)
    const shard = shardOf(params.hash, query, layout)
    const body = request.body as IncomingMessage | undefined
    const declared = request.headers['content-length']
    // Before anything is reserved: a reservation may evict.
    if (body === undefined || declared !== undefined) {
      checkBodyLength(layout.shardBytes, body === undefined ? 0 : Number(declared), true)
    }
    const parent = query.parent === 'root' ? null : hashOf(query.parent)
    const askedMs = parts.clock.nowMs()
    const lease = await engine.reserveShard(shard, parent, traceOf(request, parts).traceparent)
    const answer = { hash: params.hash.toLowerCase(), bytes: layout.shardBytes }
    if (lease.status === 'present') return reply.code(200).send({ ...answer, status: 'present' })
    if (lease.status !== 'granted') throw refused(lease.status)
    try {
      await receiveSlot(parts, lease, askedMs, body!)
    } catch (error) {
      body!.resume() // what is left of it is read and dropped, so that the connection can go on
      await engine.abortShard(lease.leaseId)
      throw bodyError(error)
    }
    const outcome = await engine.commitShard(lease.leaseId)
    if (outcome === 'committed') return reply.code(201).send({ ...answer, status: 'stored' })
    if (outcome === 'no_parent') throw refused('no_parent')
    throw new CacheError('LEASE_EXPIRED', 'the body took longer than the lease; nothing was stored, try again')
  })
}

function addRetrieve(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Retrieve one shard',
    produces: [BINARY],
    params: Params,
    querystring: RetrieveQuery,
    response: { 200: Bytes, ...errorAnswers },
  }
  api.get('/v1/chunks/:hash', { schema, config: { scope: 'inference' } }, async (request, reply) => {
    const { query } = request
    const layout = await registeredLayout(parts, query)
    if (query.layout !== undefined) checkSameLayout(layout, { ...layout, layout: query.layout })
    const shard = shardOf(request.params.hash, query, layout)
    const askedMs = parts.clock.nowMs()
    const lease = await parts.engine.leaseShard(shard, traceOf(request, parts).traceparent)
    if (lease.status === 'miss') throw miss()
    const body = new SlotReader(parts, shard, lease, askedMs)
    if (query.checksum === true) reply.header(CHECKSUM_HEADER, await checksumOf(body))
    reply.header('content-type', BINARY).header('content-length', lease.length)
    return reply.send(body)
  })
}

async function checksumOf(body: SlotReader): Promise<string> {
  try {
    return (await body.checksum()).toString(16).padStart(8, '0')
  } catch (error) {
    body.destroy() // and its lease with it
    throw error
  }
}

function addProbe(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Whether a shard can be read',
    params: Params,
    querystring: ReadQuery,
    response: { 200: Type.Null({ description: 'It can; content-length says how long it is.' }), ...errorAnswers },
  }
  const config = { scope: 'inference', swagger: { exposeHeadRoute: true } } as const
  api.head('/v1/chunks/:hash', { schema, config }, async (request, reply) => {
    const layout = await registeredLayout(parts, request.query)
    const found = await parts.engine.statShard(shardOf(request.params.hash, request.query, layout))
    if (found.status === 'miss') throw miss()
    return reply.header('content-type', BINARY).header('content-length', found.length).send(null)
  })
}

function refused(status: keyof typeof REFUSALS): CacheError {
  return new CacheError(...REFUSALS[status], { field: status === 'no_parent' ? 'parent' : 'hash' })
}

async function registeredLayout(parts: ApiParts, query: Static<typeof ReadQuery>): Promise<ModelLayout> {
  checkNames(query)
  const layout = await layoutOf(parts.engine, query.model, query.ranks)
  if (layout === undefined) throw unregistered(query.model, query.ranks)
  return layout
}

function shardOf(hash: string, query: Static<typeof ReadQuery>, layout: ModelLayout): ShardRef {
  const { rank = 0 } = query
  if (rank >= layout.ranks) throw badRequest('rank', `rank is ${rank}; the model has ${layout.ranks} ranks, from 0`)
  const salt = query.cache_salt ?? ''
  return { model: query.model, salt, ranks: layout.ranks, rank, hash: hashOf(hash) }
}

// With a buffer of its own: what crosses to another thread is cloned with all its memory, and small Buffers share a pool.
function hashOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, 'hex'))
}

// A client that hangs up in the middle of its body is no bug of ours.
function bodyError(error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException).code
  if (code !== 'ECONNRESET' && code !== 'ERR_STREAM_PREMATURE_CLOSE') return error
  return badRequest('body', 'the connection ended before the body did')
}

function miss(): CacheError {
  return new CacheError('NOT_FOUND', 'the chunk is not in L1', { field: 'hash' })
}
