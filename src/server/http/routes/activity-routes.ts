import { type Static, Type } from 'typebox'
import type { ActivityFilter } from '../../../activities/activity.ts'
import type { Api, ApiParts } from '../api.ts'
import { parseRfc3339 } from '../rfc3339.ts'
import { badRequest, errorAnswers } from '../schemas.ts'

const SIZE_DEFAULT = 20
const SIZE_MAX = 100
const INT64_MAX = 2 ** 63

const Filter = Type.String({ minLength: 1, maxLength: 1024 })
const Time = Type.String({ maxLength: 64, description: 'RFC 3339, with an offset.' })
const Query = Type.Object(
  {
    userId: Type.Optional(Filter),
    action: Type.Optional(Filter),
    resourceType: Type.Optional(Filter),
    resourceId: Type.Optional(Filter),
    startTime: Type.Optional(Time),
    endTime: Type.Optional(Time),
    page: Type.Optional(Type.Integer({ minimum: 1, maximum: INT64_MAX, format: 'int64', description: 'Default 1.' })),
    size: Type.Optional(
      Type.Integer({ minimum: 1, maximum: SIZE_MAX, format: 'int64', description: `Default ${SIZE_DEFAULT}.` }),
    ),
  },
  { additionalProperties: false },
)
const ActivityRecord = Type.Object({
  activityId: Type.String(),
  actorType: Type.String(),
  userId: Type.String(),
  action: Type.String(),
  resourceType: Type.String(),
  resourceId: Type.String(),
  description: Type.String(),
  metadata: Type.Object({}, { additionalProperties: true }),
  occurredAt: Type.String({ format: 'date-time' }),
  recordedAt: Type.String({ format: 'date-time' }),
  actorId: Type.String(),
  actorDisplay: Type.String(),
})
const Int64 = Type.Unsafe<number | bigint>({ type: 'integer', format: 'int64' })
const Answer = Type.Object({ activities: Type.Array(ActivityRecord), total: Int64, page: Int64, size: Int64 })

/** The audit trail: who did what to which resource. */
export function activityRoutes(api: Api, { activities }: ApiParts): void {
  const schema = {
    summary: 'List activities',
    description: 'Newest first. Conditions are combined with AND; startTime is included, endTime excluded.',
    querystring: Query,
    response: { 200: Answer, ...errorAnswers },
  }
  api.get('/v1/activities', { schema, config: { scope: 'read' } }, async (request) => {
    const page = request.int64s.page ?? 1n
    const size = request.query.size ?? SIZE_DEFAULT
    const listed = await activities.list(filterOf(request.query), page, size)
    return { activities: listed.activities.map((activity) => ({ ...activity })), total: listed.total, page, size }
  })
}

function filterOf(query: Static<typeof Query>): ActivityFilter {
  const { startTime, endTime, page: _page, size: _size, ...equal } = query
  const startMs = timeOf('startTime', startTime)
  const endMs = timeOf('endTime', endTime)
  if (startMs !== undefined && endMs !== undefined && startMs > endMs) {
    throw badRequest('startTime', 'startTime is after endTime')
  }
  const start = startMs === undefined ? {} : { startMs }
  const end = endMs === undefined ? {} : { endMs }
  return { ...equal, ...start, ...end }
}

function timeOf(field: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const timeMs = parseRfc3339(text)
  if (timeMs !== undefined) return timeMs
  throw badRequest(field, `${field} must be an RFC 3339 time with an offset, such as 2026-01-31T12:00:00Z (+ as %2B)`)
}
