import type { FastifyRequest } from 'fastify'
import type { ApiParts } from './api.ts'

/**
 * The trace context that a request came with, unchecked; nothing when it came without. What its `tracestate` says is
 * kept on this thread, for the spans of the trace.
 */
export function traceOf({ headers }: FastifyRequest, { traceStates }: ApiParts): { readonly traceparent?: string } {
  const { traceparent, tracestate } = headers
  if (typeof traceparent !== 'string' || traceStates === undefined) return {}
  if (typeof tracestate === 'string') traceStates.note(traceparent, tracestate)
  return { traceparent }
}
