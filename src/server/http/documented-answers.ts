import type { FastifySchema } from 'fastify'
import type { RouteScope } from './auth.ts'
import { ErrorAnswer } from './schemas.ts'

const MEANINGS: Readonly<Record<number, string>> = {
  400: 'A field is missing, unknown or out of range.',
  401: 'A token is required, or the one sent is unknown, expired or revoked.',
  403: 'The token lacks the scope, or the Host or Origin is foreign.',
  404: 'What the request names is not there.',
  409: 'Refused by the state of the engine.',
  413: 'The body is over the limit.',
  415: 'The body is of a type that this route does not take.',
  429: 'Too many requests of this token or address; see Retry-After.',
  431: 'The headers, or the path and query, are over the limit.',
  500: 'A bug in kvtier.',
  503: 'The engine cannot serve it now.',
}

/**
 * The answers of a route as its document lists them: its own, and each status that an error of it can have. The schema of
 * the route itself has one entry for all errors, by which they are serialized.
 */
export function documentedAnswers(schema: FastifySchema, scope: RouteScope, method: string): Record<string, unknown> {
  const { '4xx': _client, '5xx': _server, ...own } = (schema.response ?? {}) as Record<string, unknown>
  const names = schema.params !== undefined || schema.body !== undefined
  const isBody = schema.body !== undefined || method === 'PUT' || method === 'POST'
  const statuses = [
    400,
    403,
    431,
    500,
    503,
    ...(scope === 'public' ? [] : [401, 429]),
    ...(names || isBody ? [404, 409] : []),
    ...(isBody || method === 'DELETE' ? [413, 415] : []),
  ]
  const errors = statuses.filter((status) => !Object.hasOwn(own, status))
  const documented = errors.map((status) => [status, { ...ErrorAnswer, description: MEANINGS[status] }])
  return { ...own, ...Object.fromEntries(documented) }
}
