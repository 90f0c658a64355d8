import { Type } from 'typebox'
import type { Api, ApiParts } from '../api.ts'
import { recordAct } from '../api.ts'
import type { ModelLayout } from '../engine-port.ts'
import { badRequest, checkNames, errorAnswers, ModelName, NoQuery, RANKS_MAX } from '../schemas.ts'

/** Bytes of one shard at most. */
const SHARD_BYTES_MAX = 2 ** 32

const Registration = Type.Object(
  {
    model: ModelName,
    chunk_bytes: Type.Integer({
      minimum: 1,
      maximum: SHARD_BYTES_MAX,
      description: 'Bytes one rank stores of a chunk.',
    }),
    ranks: Type.Optional(Type.Integer({ minimum: 1, maximum: RANKS_MAX, default: 1, description: 'World size.' })),
    layout: Type.Optional(
      Type.String({ maxLength: 64, default: '', description: 'Fingerprint of the layout; another one is refused.' }),
    ),
  },
  { additionalProperties: false },
)
const Model = Type.Object({
  model: Type.String(),
  chunk_bytes: Type.Integer(),
  ranks: Type.Integer(),
  layout: Type.String(),
  chunk_tokens: Type.Optional(Type.Integer()),
})

/** Registration of models: the size of a chunk is the client's to say. */
export function modelRoutes(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const register = {
    summary: 'Register a model',
    description: 'Idempotent. Another size or layout under the same name and ranks is refused.',
    querystring: NoQuery,
    body: Registration,
    response: { 200: Model, ...errorAnswers },
  }
  api.post('/v1/models', { schema: register, config: { scope: 'inference' } }, async (request) => {
    const { model, chunk_bytes: shardBytes, ranks = 1, layout = '' } = request.body
    checkNames({ model })
    if (!/^[\x20-\x7e]*$/.test(layout)) throw badRequest('layout', 'layout may hold printable ASCII only')
    const isNew = (await engine.findModel(model, ranks)).status === 'unknown'
    await engine.registerModel({ model, shardBytes, ranks, layout })
    if (isNew) {
      await recordAct(parts, request, {
        action: 'ACTIVITY_ACTION_MODEL_REGISTER',
        resourceType: 'model',
        resourceId: model,
        description: `Registered model ${model}.`,
        metadata: { chunkBytes: shardBytes, ranks, layout },
      })
    }
    const match = await engine.findModel(model, ranks)
    return modelOf(match.status === 'found' ? match.layout : { model, shardBytes, ranks, layout })
  })

  const list = {
    summary: 'Registered models',
    querystring: NoQuery,
    response: { 200: Type.Object({ models: Type.Array(Model) }), ...errorAnswers },
  }
  api.get('/v1/models', { schema: list, config: { scope: 'read' } }, async () => {
    return { models: (await engine.models()).map(modelOf) }
  })
}

function modelOf({ model, shardBytes, ranks, layout, chunkTokens }: ModelLayout) {
  const chunk = chunkTokens === undefined ? {} : { chunk_tokens: chunkTokens }
  return { model, chunk_bytes: shardBytes, ranks, layout, ...chunk }
}
