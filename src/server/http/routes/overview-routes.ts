import { Type } from 'typebox'
import type { Api, ApiParts } from '../api.ts'
import { Count, errorAnswers, NoQuery } from '../schemas.ts'

const Path = Type.Object({ bytes: Count, busy_seconds: Type.Number({ description: 'May run side by side.' }) })
const Adapter = Type.Object({
  name: Type.String(),
  state: Type.Enum(['active', 'draining', 'failed']),
  circuit: Type.Enum(['closed', 'half_open', 'open']),
  usage_bytes: Count,
  capacity_bytes: Type.Integer({ minimum: 0, format: 'int64', description: '0 = no limit.' }),
  objects: Count,
  inflight_stores: Count,
  inflight_loads: Count,
  stored_objects: Count,
  loaded_objects: Count,
  failed_objects: Count,
})
const Tenant = Type.Object({
  model: Type.String(),
  cache_salt: Type.String(),
  requested_tokens: Count,
  hit_tokens: Count,
  l1_usage_bytes: Count,
})
const Answer = Type.Object({
  version: Type.String(),
  started_at: Type.String({ format: 'date-time', description: 'Another value: another process, with new totals.' }),
  time_ms: Type.Number({ description: 'A clock that never jumps: rates are differences over its differences.' }),
  device: Type.Union([Type.Object({ kind: Type.String(), name: Type.String() }), Type.Null()]),
  tokens: Type.Object({
    lookups: Count,
    requested: Count,
    hit: Count,
    hit_l0: Count,
    hit_l1: Count,
    hit_l2: Count,
  }),
  l1: Type.Object({
    capacity_bytes: Count,
    usage_bytes: Count,
    quarantined_bytes: Count,
    read_chunks: Count,
    written_chunks: Count,
    evicted_chunks: Count,
  }),
  paths: Type.Object({ l0_l1_store: Path, l0_l1_load: Path, l2_store: Path, l2_load: Path }),
  adapters: Type.Array(Adapter),
  would_hit: Type.Object({
    asked_chunks: Count,
    points: Type.Array(Type.Object({ l1_bytes: Count, ratio: Type.Number({ minimum: 0, maximum: 1 }) }), {
      description: 'Share of the chunks asked for since the start that an L1 of this size would have held.',
    }),
  }),
  tenants: Type.Array(Tenant, { description: 'Those that asked for the most tokens.' }),
  tenants_total: Count,
})

/** What the dashboard page draws, and what any script may poll: cheap, because the engine itself is not asked. */
export function overviewRoutes(api: Api, { overview }: ApiParts): void {
  const schema = {
    summary: 'The engine at a glance',
    description: 'Totals since the start and gauges of now. Read from shared memory: costs the data path nothing.',
    querystring: NoQuery,
    response: { 200: Answer, ...errorAnswers },
  }
  api.get('/v1/overview', { schema, config: { scope: 'read' } }, async () => {
    const { adapters, tenants, would_hit, ...rest } = overview.read()
    return {
      ...rest,
      adapters: [...adapters],
      tenants: [...tenants],
      would_hit: { ...would_hit, points: [...would_hit.points] },
    }
  })
}
