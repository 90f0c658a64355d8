import { afterEach, beforeEach, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { HttpClient, promptOf } from '../support/http-client.ts'
import { OtlpReceiver, seriesName } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'

const MODEL = 'push-model'
const SHARD_BYTES = 64 * 1024
const FLAGS = ['--chunk-tokens', '16']
/** What differs between two engines that do the same: times, speeds, and what depends on them. */
const OF_THE_MOMENT = /_seconds|GB_per_second|event_bus|loop_|_ratio|nodejs_|process_/

let receiver: OtlpReceiver
const homes: EngineHome[] = []
beforeEach(async () => {
  receiver = await OtlpReceiver.start()
})
afterEach(async () => {
  for (const home of homes.splice(0)) await home.remove()
  await receiver.stop()
})

async function start(flags: readonly string[]): Promise<EngineProcess> {
  const home = new EngineHome()
  homes.push(home)
  return await home.start({ flags: [...FLAGS, ...flags] })
}

function pushFlags(interval = '200ms'): string[] {
  // Spans have counters of their own, which no scrape shows.
  const quiet = ['--otlp-timeout', '2s', '--otlp-trace-ratio', '0']
  return ['--otlp-endpoint', receiver.endpoint, '--otlp-interval', interval, ...quiet]
}

/** A store, a hit and a miss. */
async function work(engine: EngineProcess): Promise<void> {
  const client = new HttpClient(engine)
  const tokens = promptOf(1, 64)
  await client.register(MODEL, SHARD_BYTES)
  await client.store({ model: MODEL }, tokens, SHARD_BYTES)
  await client.release((await client.lookup(MODEL, tokens)).lease_id)
  await client.lookup(MODEL, promptOf(2, 64))
  await until('L2 is at rest', async () => ((await client.isL2Idle()) ? true : undefined))
}

it('pushes the series that a scrape of the same work shows, and serves no metrics meanwhile', async () => {
  const scraped = await start([])
  const pushed = await start(pushFlags())
  expect(pushed.addresses.metrics).toBeUndefined()
  await work(scraped)
  await work(pushed)
  const text = await until('the adapter has told what each tenant holds', async () => {
    const exposition = await (await fetch(scraped.metricsUrl)).text()
    const told = /^cache_mp_l2_tenant_usage_bytes\{.*\} (\d+)$/m.exec(exposition)?.[1]
    const held = /^cache_mp_l2_usage_bytes\{.*\} (\d+)$/m.exec(exposition)?.[1]
    return told !== undefined && told === held ? exposition : undefined
  })
  const expected = new Map(
    parseExposition(text)
      .samples.filter(({ name }) => !name.endsWith('_bucket'))
      .map(({ name, labels, value }) => [seriesName(name, labels), value] as const),
  )
  const atRest = [...expected].filter(([name]) => name.startsWith('cache_mp_') && !OF_THE_MOMENT.test(name))
  await until('everything was pushed with its last value', () => {
    const values = receiver.values()
    const isThere = [...expected.keys()]
      .filter((name) => name.startsWith('cache_mp_'))
      .every((name) => values.has(name))
    return (isThere && atRest.every(([name, value]) => values.get(name) === value)) || undefined
  })
  const values = receiver.values()
  expect([...values.keys()].filter((name) => name.startsWith('cache_mp_')).toSorted()).toEqual(
    [...expected.keys()].filter((name) => name.startsWith('cache_mp_')).toSorted(),
  )
  for (const [name, value] of expected) if (!OF_THE_MOMENT.test(name)) expect(values.get(name), name).toBe(value)
  expect(pushed.stderr).toContain('so a scrape of it is refused')
})

it('says what it is in resource attributes', async () => {
  await start([...pushFlags(), '--otlp-attributes', 'deployment.environment.name=test', '--otlp-pod-name', 'pod-7'])
  const [body] = await until('a push', () => (receiver.bodies().length > 0 ? receiver.bodies() : undefined))
  const attributes = body!.resourceMetrics[0]!.resource.attributes.map(({ key, value }) => [key, value.stringValue])
  expect(Object.fromEntries(attributes)).toMatchObject({
    'service.name': 'kvtier',
    'service.instance.id': expect.stringMatching(/-[0-9a-f]{8}$/),
    'service.version': expect.stringMatching(/^\d/),
    'deployment.environment.name': 'test',
    'k8s.pod.name': 'pod-7',
  })
})

it('pushes a last time while it stops', async () => {
  const engine = await start(pushFlags('1h'))
  await work(engine)
  expect(receiver.requests).toHaveLength(0)
  expect(await engine.stop()).toBe(0)
  expect(
    receiver.values().get(seriesName('cache_mp_lookup_requested_tokens_total', { cache_salt: '', model_name: MODEL })),
  ).toBe(128)
})

it('works on without a receiver, keeps its counts, and pushes them once there is one', async () => {
  const { port } = receiver
  const flags = pushFlags()
  await receiver.stop()
  const engine = await start(flags)
  await until('a failure is told', () => (engine.stderr.includes('connection refused') ? true : undefined))
  await work(engine)
  receiver = await OtlpReceiver.start(port)
  const name = seriesName('cache_mp_lookup_requested_tokens_total', { cache_salt: '', model_name: MODEL })
  await until('the counts arrive', () => (receiver.values().get(name) === 128 ? true : undefined))
  await until('the recovery is told', () => (engine.stderr.includes('pushed again') ? true : undefined))
})

it('stops in time although its receiver never answers', async () => {
  receiver.answer = () => {}
  const engine = await start(pushFlags())
  await until('a push', () => (receiver.requests.length > 0 ? true : undefined))
  expect(await engine.stop()).toBe(0)
})

it('listens on no metrics port, also where one is asked for', async () => {
  const engine = await start([...pushFlags(), '--prometheus-enabled'])
  expect(engine.addresses.metrics).toBeUndefined()
  expect(engine.stderr).toContain('--prometheus-enabled is not followed')
})
