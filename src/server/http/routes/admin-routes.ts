import { Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import type { Api, ApiParts } from '../api.ts'
import { layoutOf, recordAct, unregistered } from '../api.ts'
import type { PinInfo } from '../engine-port.ts'
import { promptFields, tokensOfPrompt } from '../prompt-tokens.ts'
import {
  badRequest,
  CacheSalt,
  Count,
  checkNames,
  errorAnswers,
  ModelName,
  NoQuery,
  OpaqueId,
  Ranks,
} from '../schemas.ts'

const TIERS = ['l0', 'l1', 'l2'] as const

const ClearBody = Type.Object(
  {
    model: Type.Optional(ModelName),
    cache_salt: Type.Optional(CacheSaltWithoutDefault()),
    tiers: Type.Optional(
      Type.Array(Type.Enum([...TIERS]), { minItems: 1, uniqueItems: true, description: 'Default: all.' }),
    ),
  },
  { additionalProperties: false },
)
const Cleared = Type.Object({ l0_blocks: Count, l1_chunks: Count, l2_objects: Count })
const PinBody = Type.Object(
  { model: ModelName, cache_salt: Type.Optional(CacheSalt), ranks: Type.Optional(Ranks), ...promptFields },
  { additionalProperties: false },
)
const Pin = Type.Object({
  pin_id: Type.String(),
  model: Type.String(),
  cache_salt: Type.String(),
  tokens: Count,
  chunks: Count,
  bytes: Count,
  created_at: Type.String({ format: 'date-time' }),
})

/** What operators see of the tiers and do to them. */
export function adminRoutes(api: Api, parts: ApiParts): void {
  addClear(api, parts)
  addPins(api, parts)
}

function addClear(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Remove chunks',
    description:
      'Of a model and salt, of a model, or all. Leased chunks vanish from lookups at once. Pins of chunks cleared from L1 end.',
    querystring: NoQuery,
    body: ClearBody,
    response: { 200: Cleared, ...errorAnswers },
  }
  api.post('/v1/clear', { schema, config: { scope: 'admin' } }, async (request) => {
    const { model, cache_salt: salt, tiers = [...TIERS] } = request.body
    checkNames(request.body)
    if (salt !== undefined && model === undefined) {
      throw badRequest('cache_salt', 'cache_salt needs a model beside it')
    }
    const filter = { ...(model === undefined ? {} : { model }), ...(salt === undefined ? {} : { salt }), tiers }
    const cleared = await parts.engine.clear(filter)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_CACHE_CLEAR',
      resourceType: 'cache',
      resourceId: model ?? '',
      description: `Cleared ${tiers.join(', ')} of ${model === undefined ? 'every model' : `model ${model}`}.`,
      metadata: { ...filter, ...cleared },
    })
    return { l0_blocks: cleared.l0Blocks, l1_chunks: cleared.l1Shards, l2_objects: cleared.l2Objects }
  })
}

function addPins(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const create = {
    summary: 'Pin the resident chunks of a prompt in L1',
    description: 'Of token ids, of a text, or of a chat.',
    querystring: NoQuery,
    body: PinBody,
    response: { 201: Pin, ...errorAnswers },
  }
  api.post('/v1/pins', { schema: create, config: { scope: 'admin' } }, async (request, reply) => {
    const { model, cache_salt: salt = '', ranks } = request.body
    checkNames(request.body)
    const layout = await layoutOf(engine, model, ranks)
    if (layout === undefined) throw unregistered(model, ranks)
    const tokens = await tokensOfPrompt(request.body, parts)
    const answer = await engine.pin({ model, salt, ranks: layout.ranks, tokens })
    if (answer.status === 'nothing_resident') {
      throw new CacheError('NOT_FOUND', 'no whole chunk of the prompt is in L1', { field: 'tokens' })
    }
    if (answer.status === 'over_limit') {
      throw new CacheError('PIN_LIMIT', 'the pin would pass --l1-pin-ratio; remove others first', { field: 'tokens' })
    }
    const { pin } = answer
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_PIN_CREATE',
      resourceType: 'pin',
      resourceId: pin.pinId,
      description: `Pinned ${pin.chunks} chunks of model ${model}.`,
      metadata: { model, cacheSalt: salt, chunks: pin.chunks, bytes: pin.bytes },
    })
    return reply.code(201).send(pinOf(pin))
  })

  const list = {
    summary: 'Pins',
    querystring: NoQuery,
    response: { 200: Type.Object({ pins: Type.Array(Pin) }), ...errorAnswers },
  }
  api.get('/v1/pins', { schema: list, config: { scope: 'read' } }, async () => {
    return { pins: (await engine.pins()).map(pinOf) }
  })

  const remove = {
    summary: 'Remove a pin',
    params: Type.Object({ id: OpaqueId }),
    querystring: NoQuery,
    response: { 204: Type.Null({ description: 'Done.' }), ...errorAnswers },
  }
  api.delete('/v1/pins/:id', { schema: remove, config: { scope: 'admin' } }, async (request, reply) => {
    const { id } = request.params
    if (!(await engine.unpin(id))) throw new CacheError('NOT_FOUND', 'there is no such pin', { field: 'id' })
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_PIN_DELETE',
      resourceType: 'pin',
      resourceId: id,
      description: 'Removed a pin.',
    })
    return reply.code(204).send(null)
  })
}

// In a filter an absent salt means every salt, so the schema must not fill one in.
function CacheSaltWithoutDefault() {
  return Type.String({ maxLength: 128, description: 'Absent = every salt; only with model.' })
}

function pinOf(pin: PinInfo) {
  return {
    pin_id: pin.pinId,
    model: pin.model,
    cache_salt: pin.salt,
    tokens: pin.tokens,
    chunks: pin.chunks,
    bytes: pin.bytes,
    created_at: pin.createdAt,
  }
}
