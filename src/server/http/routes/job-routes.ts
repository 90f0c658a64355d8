import { type Static, Type } from 'typebox'
import { type Api, type ApiParts, recordAct } from '../api.ts'
import { Count, errorAnswers, NoQuery, OpaqueId } from '../schemas.ts'
import type { JobInfo } from '../storage-port.ts'

export const RateBytes = Type.Integer({
  minimum: 0,
  maximum: 2 ** 40,
  description: 'Bytes of objects a second at most; 0 = no limit. Default: 134217728 to verify, 268435456 to evacuate.',
})
const Kind = Type.Enum(['verify', 'stats', 'evacuate'], {
  description: 'verify: read and check every object. stats: count them by model and salt. evacuate: copy them.',
})

/** How far a job is. */
export const Job = Type.Object({
  id: Type.String(),
  kind: Type.String(),
  adapter: Type.String(),
  target: Type.Union([Type.String(), Type.Null()]),
  state: Type.String({ description: 'running, done, cancelled or failed' }),
  elapsed_ms: Type.Integer(),
  objects_total: Type.Integer({ description: 'What the adapter held when the job began.' }),
  bytes_total: Count,
  bytes_left: Count,
  objects: Type.Integer({ description: 'Looked at so far.' }),
  bytes: Count,
  ok: Type.Integer({ description: 'Verified, counted, or copied.' }),
  present: Type.Integer({ description: 'The target of an evacuation had them already.' }),
  not_found: Type.Integer({ description: 'Gone before they were read.' }),
  corrupt: Type.Integer({ description: 'Quarantined.' }),
  failed: Type.Integer(),
  full: Type.Integer({ description: 'The target of an evacuation had no room.' }),
  corrupt_objects: Type.Array(
    Type.Object({ model: Type.String(), cache_salt: Type.String(), rank: Type.Integer(), hash: Type.String() }),
    { description: 'The first 100.' },
  ),
  spaces: Type.Array(
    Type.Object({
      model: Type.String(),
      cache_salt: Type.String(),
      ranks: Type.Integer(),
      object_bytes: Count,
      objects: Count,
      bytes: Count,
    }),
    { description: 'Of a stats job: the largest first; past 100, the others are one row.' },
  ),
  error: Type.String({ description: 'What the job failed with, or empty.' }),
})
const StartBody = Type.Object(
  {
    kind: Kind,
    adapter: Type.String({ minLength: 1, maxLength: 64 }),
    target: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'Only to evacuate: another adapter.' }),
    ),
    rate_bytes: Type.Optional(RateBytes),
  },
  { additionalProperties: false },
)
const Params = Type.Object({ id: OpaqueId })

/** Work on all objects of an L2 adapter, in the background. */
export function jobRoutes(api: Api, parts: ApiParts): void {
  const { storage } = parts
  const list = {
    summary: 'Jobs over all objects of an L2 adapter',
    description: 'Those that run, and the last 64 that have ended; oldest first.',
    querystring: NoQuery,
    response: { 200: Type.Object({ jobs: Type.Array(Job) }), ...errorAnswers },
  }
  api.get('/v1/l2/jobs', { schema: list, config: { scope: 'admin' } }, async () => {
    return { jobs: (await storage.jobs()).map(jobOf) }
  })

  const one = {
    summary: 'How far a job is',
    params: Params,
    querystring: NoQuery,
    response: { 200: Job, ...errorAnswers },
  }
  api.get('/v1/l2/jobs/:id', { schema: one, config: { scope: 'admin' } }, async (request) => {
    return jobOf(await storage.job(request.params.id))
  })
  addStart(api, parts)
  addCancel(api, parts)
}

function addStart(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'Verify, count or evacuate all objects of an L2 adapter',
    description: 'Answers at once; the job runs in the background. One job of a kind on an adapter at a time.',
    querystring: NoQuery,
    body: StartBody,
    response: { 202: Job, ...errorAnswers },
  }
  api.post('/v1/l2/jobs', { schema, config: { scope: 'admin' } }, async (request, reply) => {
    const { kind, adapter, target, rate_bytes: rateBytes } = request.body
    const order = {
      kind,
      adapter,
      ...(target === undefined ? {} : { target }),
      ...(rateBytes === undefined ? {} : { rateBytes }),
    }
    const job = await parts.storage.startJob(order)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_ADAPTER_JOB_START',
      resourceType: 'adapter',
      resourceId: adapter,
      description: `Started ${job.id}: ${kind} ${adapter}${target === undefined ? '' : ` to ${target}`}.`,
      metadata: { jobId: job.id, ...order },
    })
    return reply.code(202).send(jobOf(job))
  })
}

function addCancel(api: Api, parts: ApiParts): void {
  const schema = {
    summary: 'End a job',
    description: 'What it did stays done. Started again, an evacuation goes on where it was.',
    params: Params,
    querystring: NoQuery,
    response: { 202: Job, ...errorAnswers },
  }
  api.delete('/v1/l2/jobs/:id', { schema, config: { scope: 'admin' } }, async (request, reply) => {
    const job = await parts.storage.cancelJob(request.params.id)
    await recordAct(parts, request, {
      action: 'ACTIVITY_ACTION_ADAPTER_JOB_CANCEL',
      resourceType: 'adapter',
      resourceId: job.adapter,
      description: `Ended ${job.id}: ${job.kind} ${job.adapter}.`,
      metadata: { jobId: job.id, kind: job.kind, objects: job.counts.objects },
    })
    return reply.code(202).send(jobOf(job))
  })
}

export function jobOf(job: JobInfo): Static<typeof Job> {
  const { counts } = job
  return {
    id: job.id,
    kind: job.kind,
    adapter: job.adapter,
    target: job.target,
    state: job.state,
    elapsed_ms: Math.round(job.elapsedMs),
    objects_total: job.objectsTotal,
    bytes_total: job.bytesTotal,
    bytes_left: job.bytesLeft,
    objects: counts.objects,
    bytes: counts.bytes,
    ok: counts.ok,
    present: counts.present,
    not_found: counts.notFound,
    corrupt: counts.corrupt,
    failed: counts.failed,
    full: counts.full,
    corrupt_objects: job.corrupt.map(({ salt, ...rest }) => ({ ...rest, cache_salt: salt })),
    spaces: job.spaces.map(({ model, salt, ranks, shardBytes, objects, bytes }) => {
      return { model, cache_salt: salt, ranks, object_bytes: shardBytes, objects, bytes }
    }),
    error: job.error,
  }
}
