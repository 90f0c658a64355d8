import { Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { type Api, type ApiParts, recordAct } from '../api.ts'
import type { LateWorkerInfo } from '../engine-port.ts'
import { Count, errorAnswers, NoQuery } from '../schemas.ts'

const LateWorker = Type.Object({
  worker: Type.String({ description: 'Its instance id, 63 bits: a string.' }),
  model: Type.String(),
  silent: Type.Boolean({ description: 'It was silent for too long; else it works on, and is only late.' }),
  silent_seconds: Type.Number({ minimum: 0, description: 'Since it was last heard of.' }),
  transfers: Count,
  write_bytes: Count,
  read_bytes: Count,
})
const ReleaseBody = Type.Object(
  {
    worker: Type.Optional(Type.String({ pattern: '^\\d{1,20}$', description: 'Instance id; absent = every worker.' })),
  },
  { additionalProperties: false },
)

/** What is kept for workers whose leases have expired, and the order to use it again. */
export function quarantineRoutes(api: Api, parts: ApiParts): void {
  const list = {
    summary: 'Workers that may still copy though their leases have expired',
    description: 'Their slots are kept until they say that they are done, register again, or are released here.',
    querystring: NoQuery,
    response: { 200: Type.Object({ workers: Type.Array(LateWorker) }), ...errorAnswers },
  }
  api.get('/v1/quarantine', { schema: list, config: { scope: 'read' } }, async () => {
    return { workers: (await parts.engine.quarantine()).map(workerOf) }
  })

  const release = {
    summary: 'Use the quarantined slots of a worker, or of all, again',
    description: 'Only when its process is gone: one that still copies would then read or write the chunks of others.',
    querystring: NoQuery,
    body: ReleaseBody,
    response: { 200: Type.Object({ workers: Type.Array(LateWorker) }), ...errorAnswers },
  }
  api.post('/v1/quarantine/release', { schema: release, config: { scope: 'admin' } }, async (request) => {
    const { worker } = request.body
    const freed = await parts.engine.releaseQuarantine(worker ?? null)
    if (freed.length === 0 && worker !== undefined) {
      throw new CacheError('NOT_FOUND', 'nothing is quarantined for this worker', { field: 'worker' })
    }
    for (const { worker: id, model, writeBytes, readBytes } of freed) {
      await recordAct(parts, request, {
        action: 'ACTIVITY_ACTION_QUARANTINE_RELEASE',
        resourceType: 'worker',
        resourceId: id,
        description: `Freed the quarantined slots of a worker of model ${model}.`,
        metadata: { model, writeBytes, readBytes },
      })
    }
    return { workers: freed.map(workerOf) }
  })
}

function workerOf({ worker, model, isSilent, silentMs, transfers, writeBytes, readBytes }: LateWorkerInfo) {
  const sizes = { transfers, write_bytes: writeBytes, read_bytes: readBytes }
  return { worker, model, silent: isSilent, silent_seconds: silentMs / 1000, ...sizes }
}
