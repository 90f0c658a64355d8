import { type Attributes, SpanKind, type SpanStatus, SpanStatusCode, TraceFlags } from '@opentelemetry/api'
import type { JsonTraceSerializer } from '@opentelemetry/otlp-transformer'
import type { Resource } from '@opentelemetry/resources'
import { SPAN_KINDS, SPAN_OUTCOMES } from '../../events/span-kinds.ts'
import { SPAN_AT, SPAN_OWN_TRACE, SPAN_REMOTE_PARENT } from '../../events/span-ring.ts'
import { hrTimeOf } from '../../metrics/otlp.ts'

/** A span as the serializers of the OpenTelemetry project take it. */
export type SpanData = Parameters<typeof JsonTraceSerializer.serializeRequest>[0][number]

/** What spans are told with besides their records. */
export interface SpanFacts {
  readonly resource: Resource
  readonly scope: { readonly name: string; readonly version: string }
  /** Names of rows; undefined when there is none. */
  readonly tenants: { labels(row: number): { readonly model: string; readonly salt: string } | undefined }
  readonly adapters: { label(row: number): string | undefined }
  /** What came with a trace from elsewhere. */
  readonly states: { of(traceId: string): string | undefined }
  /** The `ot` state of traces that begin here: how they were chosen. */
  readonly ownState: string
  /** Milliseconds since 1970 when the engine's clock read 0. */
  readonly epochMs: () => number
}

const NO_STATUS: SpanStatus = { code: SpanStatusCode.UNSET }

/** The span of the record at `at`. Attributes are named `kvtier.*`; those of metrics have the names of their labels. */
export function spanDataOf(records: Float64Array, at: number, facts: SpanFacts): SpanData {
  const kind = SPAN_KINDS[records[at + SPAN_AT.kind]!]!
  const outcome = SPAN_OUTCOMES[records[at + SPAN_AT.outcome]!]!
  const flags = records[at + SPAN_AT.flags]!
  const traceId = hexOf(records, at + SPAN_AT.trace, 4)
  const parentId = hexOf(records, at + SPAN_AT.parent, 2)
  const hasParent = records[at + SPAN_AT.parent]! !== 0 || records[at + SPAN_AT.parent + 1]! !== 0
  const state = (flags & SPAN_OWN_TRACE) === 0 ? facts.states.of(traceId) : facts.ownState
  const context = {
    traceId,
    traceFlags: TraceFlags.SAMPLED,
    ...(state === undefined ? {} : { traceState: stateOf(state) }),
  }
  const spanContext = { ...context, spanId: hexOf(records, at + SPAN_AT.id, 2) }
  const isRemote = (flags & SPAN_REMOTE_PARENT) !== 0
  const epochMs = facts.epochMs()
  const startMs = records[at + SPAN_AT.startMs]!
  const endMs = records[at + SPAN_AT.endMs]!
  return {
    name: kind.name,
    kind: kind.isServer ? SpanKind.SERVER : SpanKind.INTERNAL,
    spanContext: () => spanContext,
    ...(hasParent ? { parentSpanContext: { ...context, spanId: parentId, isRemote } } : {}),
    startTime: hrTimeOf(epochMs + startMs),
    endTime: hrTimeOf(epochMs + endMs),
    duration: hrTimeOf(endMs - startMs),
    status: outcome.isError ? { code: SpanStatusCode.ERROR, message: outcome.name } : NO_STATUS,
    attributes: attributesOf(records, at, facts),
    links: [],
    events: [],
    ended: true,
    resource: facts.resource,
    instrumentationScope: facts.scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }
}

function attributesOf(records: Float64Array, at: number, { tenants, adapters }: SpanFacts): Attributes {
  const kind = SPAN_KINDS[records[at + SPAN_AT.kind]!]!
  const tenant = tenants.labels(records[at + SPAN_AT.tenant]!)
  const adapter = adapters.label(records[at + SPAN_AT.adapter]!)
  const attributes: Attributes = {
    ...(tenant === undefined ? {} : { 'kvtier.model_name': tenant.model, 'kvtier.cache_salt': tenant.salt }),
    ...(adapter === undefined ? {} : { 'kvtier.l2_name': adapter }),
    'kvtier.outcome': SPAN_OUTCOMES[records[at + SPAN_AT.outcome]!]!.name,
    [`kvtier.${kind.unit}`]: records[at + SPAN_AT.chunks]!,
    'kvtier.bytes': records[at + SPAN_AT.bytes]!,
  }
  for (const [place, name] of kind.numbers.entries()) {
    attributes[`kvtier.${name}`] = records[at + SPAN_AT.numbers + place]!
  }
  return attributes
}

function hexOf(records: Float64Array, at: number, words: number): string {
  let text = ''
  for (let word = 0; word < words; word += 1) text += records[at + word]!.toString(16).padStart(8, '0')
  return text
}

/** A state that is passed on as it came. */
function stateOf(text: string): NonNullable<ReturnType<SpanData['spanContext']>['traceState']> {
  const state = { serialize: () => text, get: () => undefined, set: () => state, unset: () => state }
  return state
}
