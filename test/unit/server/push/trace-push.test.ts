import { resourceFromAttributes } from '@opentelemetry/resources'
import { expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { L2_LOAD_SPAN, LOOKUP_SPAN, SPAN_ERROR, SPAN_OK } from '../../../../src/events/span-kinds.ts'
import { MetricCells } from '../../../../src/metrics/cells.ts'
import type { SendResult } from '../../../../src/server/push/otlp-sender.ts'
import { TracePush } from '../../../../src/server/push/trace-push.ts'
import { TraceStates } from '../../../../src/server/push/trace-states.ts'
import { spansOf } from '../../../support/otlp-receiver.ts'
import { makeTracing } from '../../../support/tracing.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${CALLER}-01`
const TAKEN: SendResult = { outcome: 'taken', answer: new Uint8Array() }
const DOWN: SendResult = { outcome: 'later', afterMs: 0, reason: 'connection refused' }
const NO_ROUTE: SendResult = { outcome: 'refused', reason: 'status 404', status: 404 }

/** A push that is answered as the list says, then always taken. */
function pushing(answers: SendResult[], { queueSpans = 2_048, encoding = 'json' as 'json' | 'protobuf' } = {}) {
  const clock = new ManualClock(1_000, 1_700_000_001_000)
  const cells = MetricCells.create({ maxTenants: 2 })
  const tracing = makeTracing(clock, { cells, capacitySpans: 8_192 })
  const states = new TraceStates()
  const bodies: Uint8Array[] = []
  const log: string[] = []
  const note = (_: object, message: string) => log.push(message)
  const sender = {
    send: async (path: string, _type: string, body: Uint8Array) => {
      expect(path).toBe('/v1/traces')
      bodies.push(body)
      return answers.shift() ?? TAKEN
    },
  }
  const push = new TracePush(
    {
      sender,
      encoding,
      ring: tracing.ring,
      facts: {
        resource: resourceFromAttributes({ 'service.name': 'kvtier' }),
        scope: { name: 'kvtier', version: '1' },
        tenants: cells.tenants,
        adapters: cells.adapters,
        states,
        ownState: 'ot=th:0',
        epochMs: () => 1_700_000_000_000,
      },
      intervalMs: 1_000,
      clock,
      random: () => 0.5,
      log: { warn: note, info: note },
      cells: cells.spanPush,
    },
    queueSpans,
  )
  const settle = async () => {
    for (let turn = 0; turn < 40; turn += 1) await Promise.resolve()
  }
  const advance = async (ms: number) => {
    clock.advance(ms)
    await settle()
  }
  const record = (count: number) => {
    for (let at = 0; at < count; at += 1) tracing.tracer.end(tracing.tracer.root(LOOKUP_SPAN), SPAN_OK, 0, -1, at, 0)
    push.drain()
  }
  const spans = () => bodies.flatMap((body) => spansOf(JSON.parse(new TextDecoder().decode(body))))
  const counts = () => cells.spanPush.fields.map((field) => cells.spanPush.get(0, field))
  return { ...tracing, push, clock, cells, states, bodies, log, advance, settle, record, spans, counts }
}

it('writes a span with its names, times, parent, state and outcome', async () => {
  const { tracer, push, clock, cells, states, advance, spans } = pushing([])
  const tenant = cells.tenants.tenantOf('model', 'salt')
  const adapter = cells.adapters.rowOf('disk')
  states.note(TRACEPARENT, 'vendor=1')
  const lookup = tracer.remote(LOOKUP_SPAN, TRACEPARENT)
  clock.advance(0.25)
  const load = tracer.child(L2_LOAD_SPAN, lookup)
  clock.advance(2)
  tracer.end(load, SPAN_ERROR, tenant, adapter, 3, 0)
  tracer.end(lookup, SPAN_OK, tenant, -1, 8, 4_096, 1, 2, 5)
  tracer.end(tracer.root(LOOKUP_SPAN), SPAN_OK, -1, -1, 1, 0)
  push.start()
  push.drain()
  await advance(1_000)
  const [inner, outer, own] = spans()
  expect(outer).toEqual({
    name: 'lookup',
    traceId: TRACE,
    spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
    parentSpanId: CALLER,
    traceState: 'vendor=1',
    kind: 2,
    flags: 0x301,
    startMs: 1_700_000_001_000,
    endMs: 1_700_000_001_002.25,
    statusCode: 0,
    attributes: {
      ...{ 'kvtier.model_name': 'model', 'kvtier.cache_salt': 'salt', 'kvtier.outcome': 'ok', 'kvtier.chunks': 8 },
      ...{ 'kvtier.bytes': 4_096, 'kvtier.hit_chunks_l0': 1, 'kvtier.hit_chunks_l1': 2, 'kvtier.hit_chunks_l2': 5 },
    },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
    events: [],
    links: [],
  })
  expect(inner).toMatchObject({
    ...{ name: 'l2_load', parentSpanId: outer!.spanId, traceState: 'vendor=1', kind: 1, flags: 0x101, statusCode: 2 },
    attributes: { 'kvtier.l2_name': 'disk', 'kvtier.shards': 3, 'kvtier.loaded_shards': 0, 'kvtier.outcome': 'error' },
  })
  expect(own).toMatchObject({ parentSpanId: undefined, traceState: 'ot=th:0' })
  expect(own!.attributes).not.toHaveProperty('kvtier.model_name')
})

it('writes protobuf when it is asked to', async () => {
  const { bodies, push, record, advance } = pushing([], { encoding: 'protobuf' })
  push.start()
  record(3)
  await advance(1_000)
  expect(Buffer.from(bodies[0]!).includes('kvtier.hit_chunks_l1')).toBe(true)
  expect(() => JSON.parse(Buffer.from(bodies[0]!).toString())).toThrow()
})

it('sends nothing when there is nothing, a batch as soon as it is full, and the rest with the interval', async () => {
  const { push, bodies, record, advance, settle, counts } = pushing([])
  push.start()
  await advance(3_000)
  expect(bodies).toHaveLength(0)
  record(511)
  await settle()
  expect(bodies).toHaveLength(0)
  record(600)
  await settle()
  expect(bodies).toHaveLength(3)
  record(5)
  await advance(1_000)
  expect(bodies).toHaveLength(4)
  expect(counts()).toEqual([1_116, 0, 0])
})

it('keeps the newest while the receiver is away, counts what it drops, backs off, and sends all when it is back', async () => {
  const { push, bodies, log, record, advance, spans, counts } = pushing([DOWN, DOWN, DOWN], { queueSpans: 600 })
  push.start()
  record(500)
  await advance(1_000) // fails: next in 1 s
  await advance(1_000) // fails: next in 2 s
  record(500)
  expect(push.waiting).toBe(600)
  await advance(1_999)
  expect(bodies).toHaveLength(2)
  await advance(1) // fails: next in 4 s
  bodies.length = 0
  await advance(4_000)
  expect(spans().map(({ attributes }) => attributes['kvtier.chunks'])).toEqual([
    ...Array.from({ length: 100 }, (_, at) => 400 + at),
    ...Array.from({ length: 500 }, (_, at) => at),
  ])
  expect(counts()).toEqual([600, 400, 0])
  expect(log).toEqual([
    expect.stringContaining('could not be pushed'),
    expect.stringContaining('could not be pushed'),
    expect.stringContaining('pushed again'),
  ])
})

it('leaves a receiver alone for as long as it asks', async () => {
  const { push, bodies, record, advance } = pushing([{ outcome: 'later', afterMs: 60_000, reason: 'status 429' }])
  push.start()
  record(1)
  await advance(1_000)
  await advance(59_999)
  expect(bodies).toHaveLength(1)
  await advance(1)
  expect(bodies).toHaveLength(2)
})

it('drops what is refused, and counts it, also where only a part is', async () => {
  const partial = new TextEncoder().encode('{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}')
  const answers: SendResult[] = [
    { outcome: 'refused', reason: 'status 400', status: 400 },
    { outcome: 'taken', answer: partial },
  ]
  const { push, log, record, advance, counts } = pushing(answers)
  push.start()
  record(4)
  await advance(1_000)
  expect(counts()).toEqual([0, 0, 4])
  record(10)
  await advance(2_000)
  expect(counts()).toEqual([8, 0, 6])
  expect(log).toContain('the OTLP receiver did not keep all spans')
})

it('pauses for a receiver without traces, tells it once, and asks again later', async () => {
  const { push, tracer, ring, bodies, log, record, advance } = pushing([NO_ROUTE, NO_ROUTE])
  push.start()
  record(3)
  await advance(1_000)
  expect([ring.isPaused, push.waiting, tracer.root(LOOKUP_SPAN)]).toEqual([true, 0, 0])
  await advance(599_000)
  expect(bodies).toHaveLength(1)
  await advance(1_000)
  expect(ring.isPaused).toBe(false)
  record(1)
  await advance(1_000)
  expect([bodies.length, ring.isPaused]).toEqual([2, true])
  expect(log).toEqual([expect.stringContaining('takes no traces')])
})

it('sends what is left at the end, whatever the back-off, and waits no longer than it may', async () => {
  const { push, bodies, record, advance, counts } = pushing([DOWN])
  push.start()
  record(2)
  await advance(1_000)
  record(2)
  await push.close(1_000)
  expect(bodies).toHaveLength(2)
  expect(counts()).toEqual([4, 0, 0])
  await advance(3_600_000)
  expect(bodies).toHaveLength(2)
})

it('remembers states of recorded traces only, and not for ever', () => {
  const states = new TraceStates()
  states.note(`00-${TRACE}-${CALLER}-00`, 'vendor=1')
  states.note('nonsense', 'vendor=1')
  states.note(TRACEPARENT, 'line\nbreak')
  states.note(TRACEPARENT, 'x'.repeat(513))
  expect(states.of(TRACE)).toBeUndefined()
  states.note(TRACEPARENT, 'vendor=1')
  expect(states.of(TRACE)).toBe('vendor=1')
  for (let trace = 1; trace <= 4_096; trace += 1) {
    states.note(`00-${trace.toString(16).padStart(32, '0')}-${CALLER}-01`, 'other=2')
  }
  expect(states.of(TRACE)).toBeUndefined()
})
