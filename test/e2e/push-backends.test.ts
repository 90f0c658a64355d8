import { afterEach, describe, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { HttpClient, promptOf } from '../support/http-client.ts'
import { Collector, OtlpPrometheus } from '../support/otel-backends.ts'
import { seriesName } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'

const SHARD_BYTES = 64 * 1024
/** Pairs of model and salt that `work` stores for. */
const TENANTS = 4
/** Time for everything to arrive, also on a busy machine. */
const ARRIVAL_MS = 40_000
/** Series whose values differ between two engines that do the same: times, speeds, batches, and what depends on them. */
const OF_THE_MOMENT = /_seconds|GB_per_second|event_bus|loop_|_ratio|l2_\w+_requests/
/** What a scraper or a receiver adds. */
const ADDED = ['job', 'instance', 'otel_scope_name', 'otel_scope_version', '__name__']

const open: { stop(): Promise<unknown> }[] = []
const homes: EngineHome[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.stop()
  for (const home of homes.splice(0)) await home.remove()
})

async function start(...flags: string[]): Promise<EngineProcess> {
  const home = new EngineHome()
  homes.push(home)
  return await home.start({ flags: ['--chunk-tokens', '16', ...flags] })
}

/** Two tenants of two models: stores, hits and misses. */
async function work(engine: EngineProcess): Promise<void> {
  const client = new HttpClient(engine)
  for (const model of ['one', 'two "quoted"']) {
    await client.register(model, SHARD_BYTES)
    for (const salt of ['', 'tenant,b:c']) {
      const tokens = promptOf(model.length + salt.length, 64)
      await client.store({ model, cache_salt: salt }, tokens, SHARD_BYTES)
      await client.release((await client.lookup(model, tokens, { cache_salt: salt })).lease_id)
      await client.lookup(model, promptOf(99, 64), { cache_salt: salt })
    }
  }
  await until('L2 is at rest', async () => ((await client.isL2Idle()) ? true : undefined))
}

type Samples = Map<string, number>

/** Our series by name and labels, without what was added on the way. */
function samplesOf(all: Iterable<{ name: string; labels: Readonly<Record<string, string>>; value: number }>): Samples {
  const samples: Samples = new Map()
  for (const { name, labels, value } of all) {
    if (!name.startsWith('cache_mp_')) continue
    const own = Object.entries(labels).filter(([label, text]) => !ADDED.includes(label) && text !== '')
    samples.set(seriesName(name, Object.fromEntries(own.map(([label, text]) => [label, bound(label, text)]))), value)
  }
  return samples
}

/** Bounds of buckets are written in more than one way: 1, 1.0. */
function bound(label: string, text: string): string {
  return label === 'le' && text !== '+Inf' ? `${Number(text)}` : text
}

function tenantsOf(samples: Samples): number[] {
  return [...samples].flatMap(([name, value]) => (name.startsWith('cache_mp_l2_tenant_usage_bytes') ? [value] : []))
}

/** The bus is empty, and what the adapter has told of its tenants, once a second, adds up to what it holds. */
function isAtRest(samples: Samples): boolean {
  const held = [...samples].find(([name]) => name.startsWith('cache_mp_l2_usage_bytes'))?.[1]
  return samples.get('cache_mp_event_bus_queue_depth[]') === 0 && tenantsOf(samples).reduce((a, b) => a + b, 0) === held
}

async function scraped(): Promise<Samples> {
  const engine = await start()
  await work(engine)
  const read = async () => samplesOf(parseExposition(await (await fetch(engine.metricsUrl)).text()).samples)
  // What the bus still holds, and what adapters report now and then, shows up later.
  return await until('the series are at rest', async () => {
    const now = await read()
    return isAtRest(now) && tenantsOf(now).length === TENANTS ? now : undefined
  })
}

/** Waits until the backend has every series, then compares names, labels and values at rest. */
async function expectSame(expected: Samples, read: () => Promise<Samples>): Promise<void> {
  const wanted = [...expected.keys()].toSorted()
  let found: Samples = new Map()
  const atRest = [...expected].filter(([name]) => !OF_THE_MOMENT.test(name))
  await until(
    'every series arrived with its last value',
    async () => {
      found = await read()
      const isThere =
        wanted.every((name) => found.has(name)) && atRest.every(([name, value]) => found.get(name) === value)
      return isThere ? true : undefined
    },
    ARRIVAL_MS,
  ).catch(() => {})
  expect({
    missing: wanted.filter((name) => !found.has(name)),
    surplus: [...found.keys()].filter((name) => !expected.has(name)),
  }).toEqual({ missing: [], surplus: [] })
  expect(atRest.map(([name]) => [name, found.get(name)])).toEqual(atRest)
}

describe.each(['json', 'protobuf'])('pushed as %s, the series are those of a scrape', (encoding) => {
  const flags = (endpoint: string) => [
    '--otlp-endpoint',
    endpoint,
    '--otlp-interval',
    '500ms',
    '--otlp-protocol',
    encoding,
    '--otlp-trace-ratio', // spans have counters of their own, which no scrape shows
    '0',
  ]

  it('behind a real OpenTelemetry Collector', async (context) => {
    const collector = await Collector.start(context)
    open.push(collector)
    const expected = await scraped()
    await work(await start(...flags(collector.endpoint)))
    await expectSame(expected, async () => samplesOf((await collector.scrape()).samples))
  })

  it('in a real Prometheus 3 that takes OTLP itself', async (context) => {
    const prometheus = await OtlpPrometheus.start(context)
    open.push(prometheus)
    const expected = await scraped()
    await work(await start(...flags(prometheus.endpoint)))
    await expectSame(expected, async () => {
      const rows = await prometheus.query('{__name__=~"cache_mp_.*"}')
      return samplesOf(rows.map(({ labels, value }) => ({ name: labels.__name__!, labels, value })))
    })
  })
})
