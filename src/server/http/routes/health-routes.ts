import { Type } from 'typebox'
import { within } from '../../../core/within.ts'
import type { Api, ApiParts } from '../api.ts'
import { errorAnswers, NoQuery } from '../schemas.ts'
import type { AdapterReadiness } from '../storage-port.ts'

/** An engine that does not answer within this time is not ready. */
const READINESS_TIMEOUT_MS = 1000
const SILENT = 'the engine does not answer'

const Status = Type.Object(
  { simulated: Type.Array(Type.String(), { description: 'What is not real, in words.' }) },
  { additionalProperties: true },
)
const Ready = Type.Object({
  ready: Type.Boolean(),
  reasons: Type.Array(Type.String()),
  l2: Type.Array(
    Type.Object({
      name: Type.String(),
      state: Type.String(),
      circuit: Type.String(),
      reached: Type.Boolean({ description: 'False: its server has been away since the start; it is tried again.' }),
    }),
    { description: 'L2 adapters: none of them is needed to be ready, because L1 serves without them.' },
  ),
})

/** Whether the process lives, whether it should get traffic, and everything it knows of itself. */
export function healthRoutes(api: Api, parts: ApiParts): void {
  const health = {
    summary: 'The process lives',
    querystring: NoQuery,
    response: { 200: Type.Object({ status: Type.Literal('ok') }), ...errorAnswers },
  }
  api.get('/healthz', { schema: health, config: { scope: 'public' } }, async () => ({ status: 'ok' as const }))

  const ready = {
    summary: 'The engine should get traffic',
    description: '503 with the reasons when a loop stalls, too much is quarantined, or the device is lost.',
    querystring: NoQuery,
    response: { 200: Ready, 503: Ready, ...errorAnswers },
  }
  api.get('/readyz', { schema: ready, config: { scope: 'public' } }, async (_request, reply) => {
    const { reasons, l2 } = await readiness(parts)
    return reply.code(reasons.length === 0 ? 200 : 503).send({ ready: reasons.length === 0, reasons, l2 })
  })

  const status = {
    summary: 'Everything the engine knows of itself',
    querystring: NoQuery,
    response: { 200: Status, ...errorAnswers },
  }
  api.get('/status', { schema: status, config: { scope: 'read' } }, async () => {
    const { simulated, ...rest } = await parts.engine.status()
    return { simulated: [...simulated], ...rest }
  })
}

interface Readiness {
  readonly reasons: string[]
  readonly l2: AdapterReadiness[]
}

async function readiness({ engine, storage, clock }: ApiParts): Promise<Readiness> {
  try {
    const answers = Promise.all([engine.readiness(), storage.health()])
    if (!(await within(clock, READINESS_TIMEOUT_MS, answers))) return { reasons: [SILENT], l2: [] }
    const [reasons, l2] = await answers
    return { reasons, l2 }
  } catch (error) {
    return { reasons: [error instanceof Error ? error.message : SILENT], l2: [] }
  }
}
