import { type Static, Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { HASH_BYTES } from '../../../core/hash-chain.ts'
import { type Api, type ApiParts, layoutOf } from '../api.ts'
import type { ModelLayout } from '../engine-port.ts'
import {
  badRequest,
  CacheSalt,
  Count,
  checkNames,
  errorAnswers,
  Hash,
  ModelName,
  NoQuery,
  RANKS_MAX,
} from '../schemas.ts'
import { traceOf } from '../trace-headers.ts'

/** Shards of one question at most. */
export const LOOKUP_SHARDS_MAX = 4096

const Body = Type.Object(
  {
    model: ModelName,
    cache_salt: Type.Optional(CacheSalt),
    ranks: Type.Integer({ minimum: 1, maximum: RANKS_MAX }),
    rank: Type.Integer({ minimum: 0, maximum: RANKS_MAX - 1 }),
    chunk_bytes: Count,
    layout: Type.String({ maxLength: 64, description: 'Both must be those under which the model is registered here.' }),
    hashes: Type.Array(Hash, { maxItems: LOOKUP_SHARDS_MAX }),
  },
  { additionalProperties: false },
)
const Answer = Type.Object({ found: Type.Array(Type.Boolean(), { description: 'One for each hash, in their order.' }) })

/**
 * What another engine asks before it fetches shards by `GET /v1/chunks/HASH`. Both are answered from L1 alone: an
 * engine never asks its own peers for a peer, so no question goes round.
 */
export function peerRoutes(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const schema = {
    summary: 'Which shards can be read',
    description: 'For peers: many shards of one rank at a time, from L1 alone. Counts and touches nothing.',
    querystring: NoQuery,
    body: Body,
    response: { 200: Answer, ...errorAnswers },
  }
  api.post('/v1/chunks/lookup', { schema, config: { scope: 'inference' } }, async (request) => {
    const { body } = request
    checkNames(body)
    if (body.rank >= body.ranks) throw badRequest('rank', `rank is ${body.rank} of ${body.ranks} ranks, from 0`)
    const layout = await layoutOf(engine, body.model, body.ranks)
    if (layout === undefined) return { found: body.hashes.map(() => false) }
    checkSameLayout(layout, { shardBytes: body.chunk_bytes, layout: body.layout })
    const { model, ranks, rank, cache_salt: salt = '' } = body
    const { traceparent } = traceOf(request, parts)
    const found = await engine.statShards({ model, salt, ranks, rank, hashes: hashesOf(body) }, traceparent)
    return { found: Array.from(found, (one) => one === 1) }
  })
}

/** @throws CacheError LAYOUT_MISMATCH when bytes of the one would be read as bytes of the other. */
export function checkSameLayout(own: ModelLayout, asked: Pick<ModelLayout, 'shardBytes' | 'layout'>): void {
  if (own.shardBytes === asked.shardBytes && own.layout === asked.layout) return
  const message = `the model "${own.model}" is registered here with another layout, or other chunk_bytes`
  throw new CacheError('LAYOUT_MISMATCH', message, { field: 'layout' })
}

// With a buffer of its own: what crosses to another thread is cloned with all its memory.
function hashesOf({ hashes }: Static<typeof Body>): Uint8Array {
  const bytes = new Uint8Array(hashes.length * HASH_BYTES)
  for (const [at, hex] of hashes.entries()) bytes.set(Buffer.from(hex, 'hex'), at * HASH_BYTES)
  return bytes
}
