import { Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { type Api, type ApiParts, recordAct } from '../api.ts'
import type { QuotaInfo, QuotaLimits } from '../engine-port.ts'
import { CacheSalt, Count, checkNames, errorAnswers, NoQuery } from '../schemas.ts'

/** Salts of one answer at most. */
const SALTS_MAX = 1000

const Limit = (tier: string) =>
  Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      format: 'int64',
      description: `Bytes of ${tier}; 0 = no limit. Absent = the default.`,
    }),
  )
const QuotaBody = Type.Object(
  { l1_bytes: Limit('L1'), l2_bytes: Limit('each L2 adapter') },
  { additionalProperties: false, minProperties: 1 },
)
const Quota = Type.Object({
  cache_salt: Type.String(),
  source: Type.Union([Type.Literal('own'), Type.Literal('default')]),
  l1_bytes: Type.Integer({ minimum: 0, format: 'int64', description: 'Limit in force; 0 = none.' }),
  l2_bytes: Type.Integer({ minimum: 0, format: 'int64', description: 'Limit in force, in each adapter; 0 = none.' }),
  l1_usage_bytes: Count,
  l2_usage: Type.Array(Type.Object({ l2_name: Type.String(), bytes: Count }), {
    description: 'By adapter that keeps account of salts and has objects of this one.',
  }),
})
const Quotas = Type.Object({
  defaults: Type.Object(
    { l1_bytes: Count, l2_bytes: Count },
    { description: 'Of salts without a quota of their own.' },
  ),
  quotas: Type.Array(Quota, { description: 'Salts with a quota of their own or bytes, the largest in L1 first.' }),
  left_out: Type.Integer({ minimum: 0, description: `Salts beyond the ${SALTS_MAX} of one answer.` }),
})
const Salt = Type.Object({ cache_salt: CacheSalt })
const WHERE = 'The salt is the rest of the path, percent-encoded; nothing for the empty salt.'

/** What each cache salt may hold in L1 and L2, over all its models. */
export function quotaRoutes(api: Api, parts: ApiParts): void {
  const { engine } = parts
  const list = {
    summary: 'Quotas and usage of cache salts',
    querystring: NoQuery,
    response: { 200: Quotas, ...errorAnswers },
  }
  api.get('/v1/quotas', { schema: list, config: { scope: 'admin' } }, async () => {
    const { defaults, salts, leftOut } = await engine.quotas(SALTS_MAX)
    const limits = { l1_bytes: defaults.l1DefaultBytes, l2_bytes: defaults.l2DefaultBytes }
    return { defaults: limits, quotas: salts.map(quotaOf), left_out: leftOut }
  })

  const one = {
    summary: 'Quota and usage of a cache salt',
    description: WHERE,
    params: Salt,
    querystring: NoQuery,
    response: { 200: Quota, ...errorAnswers },
  }
  api.get('/v1/quotas/:cache_salt', { schema: one, config: { scope: 'admin' } }, async (request) => {
    checkNames(request.params)
    return quotaOf(await engine.quota(request.params.cache_salt))
  })
  addPut(api, parts)
  addDelete(api, parts)
}

function addPut(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Set the quota of a cache salt',
    description: `In force at once, and kept for the next start. What the salt holds beyond it is removed. ${WHERE}`,
    params: Salt,
    querystring: NoQuery,
    body: QuotaBody,
    response: { 200: Quota, ...errorAnswers },
  }
  api.put('/v1/quotas/:cache_salt', { schema, config: { scope: 'admin' } }, async (request) => {
    const { cache_salt: salt } = request.params
    checkNames(request.params)
    const limits = limitsOf(request.body)
    await parts.engine.setQuota(salt, limits)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_QUOTA_SET',
      resourceType: 'tenant',
      resourceId: salt,
      description: 'Set the quota of a cache salt.',
      metadata: { cacheSalt: salt, ...limits },
    })
    return quotaOf(await parts.engine.quota(salt))
  })
}

function addDelete(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Give a cache salt the default quota again',
    description: WHERE,
    params: Salt,
    querystring: NoQuery,
    response: { 204: Type.Null({ description: 'Done.' }), ...errorAnswers },
  }
  api.delete('/v1/quotas/:cache_salt', { schema, config: { scope: 'admin' } }, async (request, reply) => {
    const { cache_salt: salt } = request.params
    checkNames(request.params)
    if (!(await parts.engine.setQuota(salt))) {
      throw new CacheError('NOT_FOUND', 'this cache salt has no quota of its own', { field: 'cache_salt' })
    }
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_QUOTA_DELETE',
      resourceType: 'tenant',
      resourceId: salt,
      description: 'Gave a cache salt the default quota again.',
      metadata: { cacheSalt: salt },
    })
    return reply.code(204).send(null)
  })
}

function limitsOf({ l1_bytes: l1Bytes, l2_bytes: l2Bytes }: { l1_bytes?: number; l2_bytes?: number }): QuotaLimits {
  return { ...(l1Bytes === undefined ? {} : { l1Bytes }), ...(l2Bytes === undefined ? {} : { l2Bytes }) }
}

function quotaOf({ salt, isOwn, l1Bytes, l2Bytes, l1UsageBytes, l2Usage }: QuotaInfo) {
  return {
    cache_salt: salt,
    source: isOwn ? ('own' as const) : ('default' as const),
    l1_bytes: l1Bytes,
    l2_bytes: l2Bytes,
    l1_usage_bytes: l1UsageBytes,
    l2_usage: l2Usage.map(({ adapter, bytes }) => ({ l2_name: adapter, bytes })),
  }
}
