import { type Static, Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { HASH_BYTES } from '../../../core/hash-chain.ts'
import type { Api, ApiParts } from '../api.ts'
import { layoutOf, unregistered } from '../api.ts'
import type { LookupAnswer } from '../engine-port.ts'
import { promptFields, tokensOfPrompt } from '../prompt-tokens.ts'
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
  RequestId,
  TOKENS_MAX,
} from '../schemas.ts'
import { traceOf } from '../trace-headers.ts'

const BINARY = 'application/octet-stream'

const names = {
  model: ModelName,
  cache_salt: Type.Optional(CacheSalt),
  ranks: Type.Optional(Ranks),
  request_id: Type.Optional(RequestId),
  dry_run: Type.Optional(
    Type.Boolean({ description: 'Only says which tiers hold what: no lease, no load, no counter.' }),
  ),
}
const JsonBody = Type.Object({ ...names, ...promptFields }, { additionalProperties: false })
const PrefetchBody = Type.Object(
  { model: ModelName, cache_salt: Type.Optional(CacheSalt), ranks: Type.Optional(Ranks), ...promptFields },
  { additionalProperties: false },
)
// With a JSON body nothing may stand in the query; with a binary one, the names stand there.
const BinaryQuery = Type.Object({ ...names, model: Type.Optional(ModelName) }, { additionalProperties: false })

const Answer = Type.Object({
  request_id: Type.String(),
  model: Type.String(),
  prompt_tokens: Type.Integer({ description: 'Tokens of the prompt, the rest behind its last whole chunk included.' }),
  requested_tokens: Count,
  hit_tokens: Count,
  chunk_tokens: Type.Integer(),
  hit_chunks: Type.Integer(),
  tiers: Type.Object({ l0: Count, l1: Count, l2: Count }, { description: 'Hit tokens by the tier that held them.' }),
  lease_id: Type.Union([Type.String(), Type.Null()], { description: 'DELETE /v1/leases/ID when done.' }),
  lease_ttl_ms: Type.Number(),
  hashes: Type.Array(Type.String(), { description: 'Every whole chunk of the prompt, root first.' }),
})
const Prefetched = Type.Object({
  model: Type.String(),
  requested_tokens: Count,
  resident_tokens: Type.Integer({ minimum: 0, description: 'Of the leading run that was in L1 before.' }),
  loaded_tokens: Type.Integer({ minimum: 0, description: 'By which that run is longer now.' }),
  chunk_tokens: Type.Integer(),
})

/** Lookups by token ids or by text, and the leases they leave; loads ahead of time. */
export function lookupRoutes(api: Api, parts: ApiParts): void {
  api.register(async (inner) => {
    inner.addContentTypeParser(BINARY, { parseAs: 'buffer', bodyLimit: 4 * TOKENS_MAX }, (_request, body, done) => {
      done(null, body)
    })
    addLookup(inner.withTypeProvider() as Api, parts)
  })
  addPrefetch(api, parts)
  addLeases(api, parts)
}

function addLookup(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const content = { 'application/json': { schema: JsonBody }, [BINARY]: { schema: {} } }
  const schema = {
    summary: 'Longest cached prefix of a prompt',
    description: `JSON with token ids, a text or a chat; or ${BINARY} of big-endian 32-bit token ids with the names in the query.`,
    querystring: BinaryQuery,
    body: { content },
    response: { 200: Answer, ...errorAnswers },
  }
  api.post('/v1/lookup', { schema, config: { scope: 'inference' }, bodyLimit: JSON_BODY_MAX }, async (request) => {
    const body = request.body as Buffer | Static<typeof JsonBody> | undefined
    const asked = questionOf(request.query, body)
    checkNames(asked)
    const tokens = Buffer.isBuffer(body) ? tokensOf(body) : await tokensOfPrompt(asked, parts)
    const layout = await layoutOf(engine, asked.model, asked.ranks)
    const requestId = asked.request_id ?? request.id
    const answer = await engine.lookup({
      model: asked.model,
      salt: asked.cache_salt ?? '',
      ranks: layout?.ranks ?? asked.ranks ?? 1,
      tokens,
      requestId,
      dryRun: asked.dry_run ?? false,
      ...traceOf(request, parts),
    })
    return { ...answerOf(answer, asked.model, requestId), prompt_tokens: tokens.length }
  })
}

function addPrefetch(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const schema = {
    summary: 'Load what L2 holds of a prompt into L1',
    description: 'Ahead of its request. Answers when the load has ended; leases nothing and counts no lookup.',
    querystring: NoQuery,
    body: PrefetchBody,
    response: { 200: Prefetched, ...errorAnswers },
  }
  api.post('/v1/prefetch', { schema, config: { scope: 'inference' }, bodyLimit: JSON_BODY_MAX }, async (request) => {
    const { model, cache_salt: salt = '', ranks } = request.body
    checkNames(request.body)
    const layout = await layoutOf(engine, model, ranks)
    if (layout === undefined) throw unregistered(model, ranks)
    const tokens = await tokensOfPrompt(request.body, parts)
    const warmed = await engine.prefetch({ model, salt, ranks: layout.ranks, tokens })
    return {
      model,
      requested_tokens: warmed.requestedTokens,
      resident_tokens: warmed.residentTokens,
      loaded_tokens: warmed.loadedTokens,
      chunk_tokens: warmed.chunkTokens,
    }
  })
}

function addLeases(api: Api, { engine }: ApiParts): void {
  const params = Type.Object({ id: OpaqueId })
  const response = { 204: Type.Null({ description: 'Done.' }), ...errorAnswers }
  const config = { scope: 'inference' } as const
  const gone = () => new CacheError('NOT_FOUND', 'there is no such lease, or it expired', { field: 'id' })

  const release = { summary: 'Release a lease', params, querystring: NoQuery, response }
  api.delete('/v1/leases/:id', { schema: release, config }, async (request, reply) => {
    if (!(await engine.releaseLease(request.params.id))) throw gone()
    return reply.code(204).send(null)
  })
  const renew = { summary: 'Give a lease its full time again', params, querystring: NoQuery, response }
  api.post('/v1/leases/:id/renew', { schema: renew, config }, async (request, reply) => {
    if (!(await engine.renewLease(request.params.id))) throw gone()
    return reply.code(204).send(null)
  })
}

function questionOf(
  query: Static<typeof BinaryQuery>,
  body: Buffer | Static<typeof JsonBody> | undefined,
): Static<typeof JsonBody> {
  if (body === undefined) throw badRequest('body', `the body is empty; send JSON, or ${BINARY} of token ids`)
  if (!Buffer.isBuffer(body)) {
    const extra = Object.keys(query).find((name) => query[name as keyof typeof query] !== undefined)
    if (extra !== undefined) throw badRequest(extra, `${extra} stands in the query; with a JSON body it goes there`)
    return body
  }
  const { model } = query
  if (model === undefined) throw badRequest('model', 'model is required in the query')
  return { ...query, model }
}

function tokensOf(body: Buffer): Uint32Array {
  if (body.length % 4 !== 0) throw badRequest('body', 'the body is not a whole number of 32-bit token ids')
  const bytes = new Uint8Array(body)
  Buffer.from(bytes.buffer).swap32()
  return new Uint32Array(bytes.buffer)
}

function answerOf(
  answer: LookupAnswer,
  model: string,
  requestId: string,
): Omit<Static<typeof Answer>, 'prompt_tokens'> {
  const bytes = Buffer.from(answer.hashes.buffer, answer.hashes.byteOffset, answer.hashes.byteLength)
  const count = bytes.length / HASH_BYTES
  return {
    request_id: requestId,
    model,
    requested_tokens: answer.requestedTokens,
    hit_tokens: answer.hitTokens,
    chunk_tokens: answer.chunkTokens,
    hit_chunks: answer.hitChunks,
    tiers: { ...answer.tiers },
    lease_id: answer.leaseId,
    lease_ttl_ms: answer.leaseTtlMs,
    hashes: Array.from({ length: count }, (_, at) => bytes.toString('hex', at * HASH_BYTES, (at + 1) * HASH_BYTES)),
  }
}
