import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyRequest,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify'
import type { ActivityDraft, ActivityLog } from '../../activities/activity.ts'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import type { TokenizerPort } from '../../tokenizer/tokenizer-port.ts'
import { actorOf } from './auth.ts'
import type { EnginePort, ModelLayout } from './engine-port.ts'
import type { OverviewSource } from './overview-source.ts'
import { badRequest } from './schemas.ts'
import type { StoragePort } from './storage-port.ts'
import type { TextOptions } from './text-fields.ts'

/** The fastify instance of the API: its schemas are TypeBox, so handlers are typed by them. */
export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** What the routes work with. */
export interface ApiParts {
  readonly engine: EnginePort
  readonly storage: StoragePort
  /** The whole arena, shared with the data thread. */
  readonly arena: Uint8Array
  readonly activities: ActivityLog
  readonly overview: OverviewSource
  readonly tokenizer: TokenizerPort
  readonly textOptions: TextOptions
  readonly clock: Clock
  /** Told what came with each traced request; absent = nothing is traced. */
  readonly traceStates?: { note(traceparent: string, state: string): void }
}

/**
 * Writes an administrative act to the audit trail, in the name of the request's caller. Await it before the answer:
 * an act that is answered as done is in the trail.
 *
 * @throws CacheError ACTIVITY_LOG_FAILED; what was done is then in the log of the process.
 */
export async function recordAct(
  { activities }: Pick<ApiParts, 'activities'>,
  request: FastifyRequest,
  act: Omit<ActivityDraft, 'actor'>,
): Promise<void> {
  const draft = { ...act, actor: actorOf(request), metadata: { ...act.metadata, requestId: request.id } }
  try {
    await activities.append(draft)
  } catch (error) {
    request.log.error({ err: error, act: draft }, 'an act was done, and could not be written to the activity log')
    throw error
  }
}

/**
 * The layout under which a model is registered; undefined when it is not.
 *
 * @throws CacheError BAD_REQUEST when `ranks` is needed to tell several apart.
 */
export async function layoutOf(engine: EnginePort, model: string, ranks?: number): Promise<ModelLayout | undefined> {
  const match = await engine.findModel(model, ranks)
  if (match.status === 'found') return match.layout
  if (match.status === 'unknown') return undefined
  throw badRequest('ranks', `the model is registered with several world sizes (${match.ranks.join(', ')}): send ranks`)
}

/** The error of a request that needs a registered model. */
export function unregistered(model: string, ranks?: number): CacheError {
  const which = ranks === undefined ? '' : ` with ${ranks} ranks`
  const message = `model "${model}" is not registered${which}: POST /v1/models with its chunk_bytes, ranks and layout`
  return new CacheError('MODEL_UNKNOWN', message, { field: 'model' })
}
