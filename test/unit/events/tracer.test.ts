import { randomFillSync } from 'node:crypto'
import { expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import { L2_LOAD_SPAN, LOOKUP_SPAN, PREFETCH_SPAN, SPAN_MISS, SPAN_OK } from '../../../src/events/span-kinds.ts'
import { SPAN_OWN_TRACE, SPAN_REMOTE_PARENT, SpanRing } from '../../../src/events/span-ring.ts'
import { NO_ROW, NO_SPAN, Tracer } from '../../../src/events/tracer.ts'
import { heapGrowthBytes } from '../../support/heap.ts'
import { makeTracing } from '../../support/tracing.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${CALLER}-01`

it('records a tree: ids, parents, times and numbers', () => {
  const clock = new ManualClock(1_000)
  const { tracer, spans, cells } = makeTracing(clock)
  const root = tracer.root(LOOKUP_SPAN)
  clock.advance(5)
  const child = tracer.child(PREFETCH_SPAN, root)
  clock.advance(7)
  tracer.end(child, SPAN_OK, 3, 9, 4, 4096, 4, 1)
  clock.advance(1)
  tracer.end(root, SPAN_MISS, 3, NO_ROW, 10, 0, 1, 2, 3)
  const [inner, outer] = spans()
  expect(outer).toMatchObject({
    ...{ name: 'lookup', parent: '', startMs: 1_000, endMs: 1_013, tenant: 3, adapter: -1, outcome: 'miss' },
    ...{ chunks: 10, bytes: 0, numbers: [1, 2, 3], flags: SPAN_OWN_TRACE },
  })
  expect(inner).toMatchObject({
    ...{ name: 'prefetch', trace: outer!.trace, parent: outer!.id, startMs: 1_005, endMs: 1_012, adapter: 9 },
    ...{ chunks: 4, bytes: 4096, numbers: [4, 1], flags: SPAN_OWN_TRACE },
  })
  expect(inner!.id).not.toBe(outer!.id)
  expect(cells.spans.get(0, 'recorded')).toBe(2)
})

it("does as a caller decided, and goes on with the caller's trace", () => {
  const { tracer, spans } = makeTracing(new ManualClock(), { ratio: 0.000_001 })
  const recorded = tracer.remote(LOOKUP_SPAN, TRACEPARENT)
  tracer.end(tracer.child(PREFETCH_SPAN, recorded), SPAN_OK, 0, 0, 0, 0)
  tracer.end(recorded, SPAN_OK, 0, 0, 0, 0)
  const [child, parent] = spans()
  expect(parent).toMatchObject({ trace: TRACE, parent: CALLER, flags: SPAN_REMOTE_PARENT })
  expect(child).toMatchObject({ trace: TRACE, parent: parent!.id, flags: 0 })
  const all = makeTracing(new ManualClock(), { ratio: 1 })
  expect(all.tracer.remote(LOOKUP_SPAN, `00-${TRACE}-${CALLER}-00`)).toBe(NO_SPAN)
  for (const none of [undefined, '', 'nonsense', '\ud800'.repeat(60)]) {
    const span = all.tracer.remote(LOOKUP_SPAN, none)
    expect(span).not.toBe(NO_SPAN)
    all.tracer.end(span, SPAN_OK, 0, 0, 0, 0)
  }
  expect(all.spans().every(({ parent: none, trace }) => none === '' && trace !== TRACE)).toBe(true)
})

it('records the share of the traces that the ratio says, whole', () => {
  const { tracer, spans } = makeTracing(new ManualClock(), { ratio: 0.1, capacitySpans: 8192 })
  for (let lookup = 0; lookup < 10_000; lookup += 1) {
    const root = tracer.root(LOOKUP_SPAN)
    tracer.end(tracer.child(PREFETCH_SPAN, root), SPAN_OK, 0, 0, 0, 0)
    tracer.end(root, SPAN_OK, 0, 0, 0, 0)
  }
  const ended = spans()
  expect(ended.length / 2).toBeGreaterThan(900)
  expect(ended.length / 2).toBeLessThan(1_100)
  expect(new Set(ended.map(({ trace }) => trace)).size).toBe(ended.length / 2)
  expect(new Set(ended.map(({ id }) => id)).size).toBe(ended.length)
})

it('counts what ends while the ring is full, and takes up again when there is room', () => {
  const { tracer, spans, cells } = makeTracing(new ManualClock(), { capacitySpans: 4 })
  const one = () => tracer.end(tracer.root(LOOKUP_SPAN), SPAN_OK, 0, 0, 0, 0)
  for (let at = 0; at < 7; at += 1) one()
  expect(cells.spans.get(0, 'droppedRing')).toBe(3)
  expect(spans()).toHaveLength(4)
  one()
  expect(spans()).toHaveLength(1)
})

it('begins nothing while nobody takes spans', () => {
  const { tracer, ring } = makeTracing(new ManualClock())
  ring.isPaused = true
  expect(SpanRing.attach(ring.buffer).isPaused).toBe(true)
  expect(tracer.root(LOOKUP_SPAN)).toBe(NO_SPAN)
  expect(tracer.remote(LOOKUP_SPAN, TRACEPARENT)).toBe(NO_SPAN)
  ring.isPaused = false
  expect(tracer.root(LOOKUP_SPAN)).not.toBe(NO_SPAN)
})

it('lets children begin after their parent ended, until its row has another span', () => {
  const { tracer, spans } = makeTracing(new ManualClock(), { capacitySpans: 8192 })
  const parent = tracer.root(LOOKUP_SPAN)
  tracer.end(parent, SPAN_OK, 0, 0, 0, 0)
  tracer.end(parent, SPAN_OK, 0, 0, 0, 0) // once is enough
  expect(spans()).toHaveLength(1)
  expect(tracer.child(L2_LOAD_SPAN, parent)).not.toBe(NO_SPAN)
  for (let other = 0; other < 4096; other += 1) tracer.end(tracer.root(LOOKUP_SPAN), SPAN_OK, 0, 0, 0, 0)
  expect(tracer.child(L2_LOAD_SPAN, parent)).toBe(NO_SPAN)
})

it('bounds how many are open, counts the rest, and gives up those that were left behind', () => {
  const clock = new ManualClock()
  const { tracer, cells } = makeTracing(clock)
  let begun = 0
  for (let at = 0; at < 5_000; at += 1) if (tracer.root(LOOKUP_SPAN) !== NO_SPAN) begun += 1
  expect(begun).toBe(4_096)
  expect(cells.spans.get(0, 'droppedOpen')).toBe(5_000 - 4_096)
  clock.advance(900_000)
  expect(tracer.root(LOOKUP_SPAN)).not.toBe(NO_SPAN)
})

it('takes ids from a pool that is filled now and then', () => {
  const { tracer, fills } = makeTracing(new ManualClock(), { ratio: 0.01 })
  for (let lookup = 0; lookup < 512; lookup += 1) tracer.end(tracer.root(LOOKUP_SPAN), SPAN_OK, 0, 0, 0, 0)
  expect(fills()).toBeLessThanOrEqual(2)
})

it('records nothing when it is off', () => {
  const tracer = Tracer.off()
  const root = tracer.root(LOOKUP_SPAN)
  expect([root, tracer.remote(LOOKUP_SPAN, TRACEPARENT), tracer.childOrRoot(L2_LOAD_SPAN, root)]).toEqual([0, 0, 0])
  tracer.end(root, SPAN_OK, 0, 0, 0, 0)
})

it('allocates nothing to record', () => {
  const { tracer, ring } = makeTracing(new ManualClock(), { capacitySpans: 16_384, fill: randomFillSync })
  const record = () => {
    for (let at = 0; at < 2_000; at += 1) {
      const root = tracer.root(LOOKUP_SPAN)
      const child = tracer.child(PREFETCH_SPAN, root)
      tracer.end(child, SPAN_OK, at, 1, at, at * 65_536, at)
      tracer.end(root, SPAN_OK, at, 1, at, at * 65_536, at, at)
      tracer.end(tracer.remote(LOOKUP_SPAN, TRACEPARENT), SPAN_OK, at, 1, at, at * 65_536)
    }
  }
  for (let round = 0; round < 200; round += 1) {
    record() // until the compiler has made its code
    ring.drain(() => undefined)
  }
  // As for the event bus: one boxed number a span would take 96,000 bytes.
  const growths = Array.from({ length: 30 }, () => {
    const growth = heapGrowthBytes(record)
    ring.drain(() => undefined)
    return growth
  })
  expect(Math.min(...growths)).toBeLessThan(10_000)
})
