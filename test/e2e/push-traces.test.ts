import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { HttpClient, promptOf } from '../support/http-client.ts'
import { Collector, OtlpPrometheus } from '../support/otel-backends.ts'
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'

// Each test starts several engines, and a busy machine takes long for that.
vi.setConfig({ testTimeout: 240_000 })

const MODEL = 'traced-model'
const SHARD_BYTES = 64 * 1024
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${CALLER}-01`

// A slow machine is no silent peer.
const PATIENT = 'answer=20s,lookup-deadline=20s,load-deadline=20s'

let receiver: OtlpReceiver
const homes: EngineHome[] = []
beforeEach(async () => {
  receiver = await OtlpReceiver.start()
})
afterEach(async () => {
  for (const home of homes.splice(0)) await home.remove()
  await receiver.stop()
})

async function start(ratio: string, endpoint = receiver.endpoint, ...more: string[]): Promise<EngineProcess> {
  const home = new EngineHome()
  homes.push(home)
  const push = ['--otlp-endpoint', endpoint, '--otlp-interval', '200ms', '--otlp-timeout', '2s']
  return await home.start({ flags: ['--chunk-tokens', '16', ...push, '--otlp-trace-ratio', ratio, ...more] })
}

/** A store of four chunks and a lookup that hits them. */
async function work(engine: EngineProcess, headers: Record<string, string> = {}): Promise<void> {
  const client = new HttpClient(engine)
  client.headers = headers
  const tokens = promptOf(1, 64)
  await client.register(MODEL, SHARD_BYTES)
  await client.store({ model: MODEL }, tokens, SHARD_BYTES)
  await client.release((await client.lookup(MODEL, tokens)).lease_id)
  await until('L2 is at rest', async () => ((await client.isL2Idle()) ? true : undefined))
}

function named(name: string): ReceivedSpan[] {
  return receiver.spans().filter((span) => span.name === name)
}

async function sent(name: string): Promise<ReceivedSpan> {
  return await until(`a span ${name} arrives`, () => named(name)[0])
}

it('pushes the spans of what clients do, with counts, names and outcome', async () => {
  const engine = await start('1')
  await work(engine)
  await engine.stop()
  const [lookup] = named('lookup')
  expect(lookup).toMatchObject({
    parentSpanId: undefined,
    attributes: {
      'kvtier.model_name': MODEL,
      'kvtier.cache_salt': '',
      'kvtier.outcome': 'ok',
      'kvtier.chunks': 4,
      'kvtier.bytes': 4 * SHARD_BYTES,
      'kvtier.hit_chunks_l1': 4,
    },
  })
  expect(Math.abs(lookup!.endMs - Date.now())).toBeLessThan(60_000)
  expect(lookup!.endMs).toBeGreaterThan(lookup!.startMs)
  const stores = named('store')
  expect(stores).toHaveLength(4)
  const batches = named('l2_store')
  expect(batches.reduce((sum, { attributes }) => sum + Number(attributes['kvtier.stored_shards']), 0)).toBe(4)
  for (const batch of batches) {
    const parent = stores.find(({ spanId }) => spanId === batch.parentSpanId)
    expect(batch.traceId).toBe(parent?.traceId)
    expect(batch.startMs).toBeGreaterThanOrEqual(parent!.startMs)
  }
})

it("goes on with a caller's trace, whatever the ratio, and passes its state on", async () => {
  const engine = await start('0.000001')
  await work(engine, { traceparent: TRACEPARENT, tracestate: 'vendor=a1,other=b2' })
  await engine.stop()
  const [lookup] = named('lookup')
  expect(lookup).toMatchObject({ traceId: TRACE, parentSpanId: CALLER, traceState: 'vendor=a1,other=b2', kind: 2 })
  expect(lookup!.flags & 0x300).toBe(0x300) // the parent is another process's
  expect(new Set(receiver.spans().map(({ traceId }) => traceId))).toEqual(new Set([TRACE]))
  const store = named('store')[0]!
  const below = named('l2_store')[0]!
  expect(named('store').map(({ spanId }) => spanId)).toContain(below.parentSpanId)
  expect([store.traceState, below.traceState]).toEqual(['vendor=a1,other=b2', 'vendor=a1,other=b2'])
  expect(below.flags & 0x300).toBe(0x100)
})

it('traces nothing of a caller that does not record, nor of any at ratio 0', async () => {
  const quiet = await start('1')
  await work(quiet, { traceparent: `00-${TRACE}-${CALLER}-00` })
  await quiet.stop()
  expect(receiver.spans().filter(({ name }) => name !== 'l2_store')).toEqual([])
  receiver.requests.length = 0
  const off = await start('0')
  await work(off, { traceparent: TRACEPARENT })
  await off.stop()
  expect(receiver.requests.filter(({ path }) => path === '/v1/traces')).toEqual([])
})

it("has another engine's part of a trace below the question and the fetches that asked for it", async () => {
  const holder = await start('0.000001')
  const asking = await start(
    '0.000001',
    receiver.endpoint,
    '--l2',
    `name=peers,type=peer,urls=${holder.httpUrl},${PATIENT}`,
  )
  const [there, here] = [new HttpClient(holder), new HttpClient(asking)]
  for (const client of [there, here]) await client.register(MODEL, SHARD_BYTES)
  const tokens = promptOf(2, 32)
  await there.store({ model: MODEL }, tokens, SHARD_BYTES)
  here.headers = { traceparent: TRACEPARENT }
  const found = await here.lookup(MODEL, tokens)
  expect(found.hit_chunks).toBe(2)
  await here.release(found.lease_id)
  await asking.stop()
  await holder.stop()
  const [question, answer] = [named('l2_lookup')[0]!, named('peer_lookup')]
  expect(answer).toMatchObject([
    {
      traceId: TRACE,
      parentSpanId: question.spanId,
      kind: 2,
      attributes: { 'kvtier.model_name': MODEL, 'kvtier.shards': 2, 'kvtier.found_shards': 2, 'kvtier.outcome': 'ok' },
    },
  ])
  const load = named('l2_load')[0]!
  const reads = named('retrieve')
  expect(reads.map(({ traceId, parentSpanId }) => [traceId, parentSpanId])).toEqual([
    [TRACE, load.spanId],
    [TRACE, load.spanId],
  ])
  expect(new Set(receiver.spans().map(({ traceId }) => traceId))).toEqual(new Set([TRACE]))
})

it('takes a malformed context for none', async () => {
  const engine = await start('1')
  await work(engine, { traceparent: `00-${'0'.repeat(32)}-${CALLER}-01`, tracestate: 'vendor=a1' })
  await engine.stop()
  expect(named('lookup')[0]).toMatchObject({ parentSpanId: undefined, traceState: 'ot=th:0' })
})

it('tells once of a receiver without traces, and goes on with metrics', async () => {
  receiver.answer = (response, { path }) => response.writeHead(path === '/v1/traces' ? 404 : 200).end('')
  const engine = await start('1')
  await work(engine)
  await until('it is told', () => (engine.stderr.includes('takes no traces') ? true : undefined))
  await work(engine)
  const pushes = receiver.bodies().length
  await until('metrics go on', () => (receiver.bodies().length > pushes + 1 ? true : undefined))
  expect(engine.stderr.match(/takes no traces/g)).toHaveLength(1)
  expect(receiver.requests.filter(({ path }) => path === '/v1/traces')).toHaveLength(1)
})

it('keeps spans while the receiver is away, and pushes them once it is back', async () => {
  const { port, endpoint } = receiver
  await receiver.stop()
  const engine = await start('1', endpoint)
  await work(engine)
  await until('a failure is told', () => (engine.stderr.includes('traces could not be pushed') ? true : undefined))
  receiver = await OtlpReceiver.start(port)
  await sent('lookup')
  await until('the recovery is told', () => (engine.stderr.includes('traces are pushed again') ? true : undefined))
})

it('gives up traces, and nothing else, where a real Prometheus takes metrics only', async (context) => {
  const prometheus = await OtlpPrometheus.start(context)
  try {
    const engine = await start('1', prometheus.endpoint, '--otlp-protocol', 'protobuf')
    await work(engine)
    await until('it is told', () => (engine.stderr.includes('takes no traces') ? true : undefined))
    await until('metrics arrive', async () => {
      const [series] = await prometheus.query('cache_mp_trace_spans_dropped_total{reason="refused"}')
      return series !== undefined && series.value > 0 ? true : undefined
    })
  } finally {
    await prometheus.stop()
  }
})

describe.each(['json', 'protobuf'])('as %s', (encoding) => {
  it('is understood by a real OpenTelemetry Collector', async (context) => {
    const collector = await Collector.start(context)
    try {
      const engine = await start('0.5', collector.endpoint, '--otlp-protocol', encoding)
      await work(engine, { traceparent: TRACEPARENT, tracestate: 'vendor=a1' })
      await engine.stop()
      const spans = collector.spans().filter(({ trace }) => trace === TRACE)
      const [lookup] = spans.filter(({ name }) => name === 'lookup')
      expect(lookup).toMatchObject({ parent: CALLER, kind: 'Server', state: 'vendor=a1' })
      expect(Math.abs(lookup!.startMs - Date.now())).toBeLessThan(60_000)
      expect(lookup!.attributes).toMatchObject({
        'kvtier.model_name': MODEL,
        'kvtier.outcome': 'ok',
        'kvtier.chunks': '4',
        'kvtier.bytes': `${4 * SHARD_BYTES}`,
      })
      const stores = spans.filter(({ name }) => name === 'store')
      expect(stores).toHaveLength(4)
      const below = spans.filter(({ name }) => name === 'l2_store')
      expect(below.length).toBeGreaterThan(0)
      for (const { parent } of below) expect(stores.map(({ id }) => id)).toContain(parent)
    } finally {
      await collector.stop()
    }
  })
})
