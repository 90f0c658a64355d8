import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { CATALOGUE } from '../../src/metrics/catalogue.ts'
import { HIT_RATE_QUERY, LINT_ALLOWED, needProgram, Prometheus, promtoolCheck } from '../support/debian-prometheus.ts'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { type ParsedExposition, parseExposition, seriesValue } from '../support/exposition-parser.ts'
import { HttpClient, promptOf } from '../support/http-client.ts'
import { until } from '../support/until.ts'

const MODEL = 'metrics-model'
const CHUNK_TOKENS = 16
const SHARD_BYTES = 256 * 1024
const FLAGS = ['--chunk-tokens', `${CHUNK_TOKENS}`]

let home: EngineHome

beforeEach(() => {
  home = new EngineHome()
})
afterEach(() => home.remove())

async function scrape(engine: EngineProcess): Promise<ParsedExposition> {
  return parseExposition(await (await fetch(engine.metricsUrl)).text())
}

/** Names of our own metrics that are shown. */
function shownNames({ types }: ParsedExposition): string[] {
  return [...types.keys()].filter(isOurs).sort()
}

function isOurs(name: string): boolean {
  return name.startsWith('cache_mp_')
}

/** Spoils the bytes of every object on disk, behind the header. */
function spoilObjects(dataDir: string): void {
  for (const path of readdirSync(join(dataDir, 'l2'), { recursive: true, encoding: 'utf8' })) {
    if (!/\/[0-9a-f]{64}$/.test(path)) continue
    const file = join(dataDir, 'l2', path)
    const bytes = readFileSync(file)
    bytes[bytes.length - 7]! ^= 0xff
    writeFileSync(file, bytes)
  }
}

/** Looks a prompt up, reads the hits, and releases them. @returns the answer. */
async function readPrompt(client: HttpClient, tokens: readonly number[]) {
  const answer = await client.lookup(MODEL, tokens)
  for (const hash of answer.hashes.slice(0, answer.hit_chunks)) await client.get(hash, { model: MODEL })
  await client.release(answer.lease_id)
  return answer
}

async function l2Idle(client: HttpClient): Promise<void> {
  await until('L2 is at rest', async () => ((await client.isL2Idle()) ? true : undefined))
}

it('an idle engine shows exactly what is always on, and the beats of its loops', async () => {
  const engine = await home.start()
  await until('a first tick', async () => {
    const ticks = seriesValue(await scrape(engine), 'cache_mp_l1_eviction_loop_ticks_total') ?? 0
    return ticks > 0 ? true : undefined
  })
  const idle = await scrape(engine)
  const always = CATALOGUE.filter((metric) => metric.always).map(({ name }) => name)
  // These run by themselves, or tell a fact of the start: they have their first recording without any traffic.
  const byThemselves = [
    'cache_mp_device_info',
    'cache_mp_l1_eviction_loop_ticks_total',
    'cache_mp_loop_heartbeat_age_seconds',
  ]
  expect(shownNames(idle)).toEqual([...new Set([...always, ...byThemselves])].sort())
  const l2 = { l2_name: 'disk' }
  expect(seriesValue(idle, 'cache_mp_l2_usage_bytes', l2)).toBe(0)
  expect(seriesValue(idle, 'cache_mp_num_inflight_l2_stores', l2)).toBe(0)
  expect(seriesValue(idle, 'cache_mp_l2_adapters', { state: 'active' })).toBe(1)
  expect(seriesValue(idle, 'cache_mp_l2_adapters', { state: 'draining' })).toBe(0)
  expect(seriesValue(idle, 'cache_mp_event_bus_dropped_events_total')).toBe(0)
})

/** What this traffic cannot bring about, and why. */
const UNREACHABLE = [
  /_p2p_/, // there is no peer adapter
  /^cache_mp_l0_(?!(?:capacity|free|used)_blocks$)/, // clients of the HTTP API bring no GPU blocks
  /^cache_mp_event_bus_dropped_events_by_type_total$/, // nothing is dropped
  /^cache_mp_loop_errors_total$/, // no loop fails
  /^cache_mp_l1_recovered_chunks_total$/, // L1 starts empty
  /^cache_mp_l1_read_failure_chunks_total$/, // every promise is kept
  /^cache_mp_l2_store_skipped_chunks_total$/, // no queue is full
  /^cache_mp_l2_load_skipped_chunks_total$/, // no load waits for another
  /^cache_mp_trace_/, // spans are recorded where they are pushed
  /^cache_mp_l2_evacuation_failed_chunks_total$/, // every object has room
  /^cache_mp_reuse_history_dropped_chunks_total$/, // the history holds far more
]

/** Stores, hits in both tiers, quotas passed, evictions, expired leases, corrupt objects, pins, refusals, a clear, jobs. */
async function bringAboutEverything(engine: EngineProcess): Promise<void> {
  const client = new HttpClient(engine)
  const admin = new HttpClient(engine, await home.token('admin'))
  const query = { model: MODEL }
  await client.register(MODEL, SHARD_BYTES)
  await passQuotas(client, admin)
  const prompts = Array.from({ length: 20 }, (_, number) => promptOf(number, 4 * CHUNK_TOKENS))
  for (const tokens of prompts) await client.store(query, tokens, SHARD_BYTES) // 20 MiB: L1 evicts
  await l2Idle(client)
  expect((await readPrompt(client, prompts[19]!)).tiers).toEqual({ l0: 0, l1: 64, l2: 0 })
  expect((await readPrompt(client, prompts[0]!)).tiers).toEqual({ l0: 0, l1: 0, l2: 64 })
  await client.lookup(MODEL, prompts[0]!) // and never released
  spoilObjects(home.dataDir)
  expect((await readPrompt(client, prompts[9]!)).hit_chunks).toBe(0)
  for (const salt of ['a', 'b', 'c', 'd']) await client.lookup(MODEL, prompts[1]!, { cache_salt: salt })
  await until('the lease expires', async () => ((await client.status()).l1.openLeases === 0 ? true : undefined))
  for (const tokens of prompts) await admin.ask('POST', '/v1/pins', { model: MODEL, tokens }) // until L1 is full of pins
  await client.register('larger', SHARD_BYTES * 16)
  const refused = client.store({ model: 'larger' }, promptOf(99, CHUNK_TOKENS), SHARD_BYTES * 16)
  await expect(refused).rejects.toThrow(/503 .*NO_ROOM/)
  await admin.must('POST', '/v1/clear', { model: MODEL, tiers: ['l1'] })
  await runJob(admin, { kind: 'verify', adapter: 'disk' }) // what was spoiled goes
  await runJob(admin, { kind: 'evacuate', adapter: 'small', target: 'disk' })
}

/** A tenant that has more than its quota of L2, and then may hold nothing in L1. */
async function passQuotas(client: HttpClient, admin: HttpClient): Promise<void> {
  const tenant = { model: MODEL, cache_salt: 'bounded' }
  await admin.must('PUT', '/v1/quotas/bounded', { l2_bytes: SHARD_BYTES * 2 })
  await client.store(tenant, promptOf(50, 4 * CHUNK_TOKENS), SHARD_BYTES)
  await l2Idle(client)
  await admin.must('PUT', '/v1/quotas/bounded', { l1_bytes: 1, l2_bytes: SHARD_BYTES * 2 })
  await expect(client.store(tenant, promptOf(51, CHUNK_TOKENS), SHARD_BYTES)).rejects.toThrow(/503/)
}

async function runJob(admin: HttpClient, order: object): Promise<void> {
  const { id } = await admin.must('POST', '/v1/l2/jobs', order)
  await until('the job ends', async () => {
    return (await admin.must('GET', `/v1/l2/jobs/${id}`)).state === 'done' ? true : undefined
  })
}

it('everything that HTTP traffic can reach is shown, in both formats, and promtool takes it', async (context) => {
  needProgram(context, 'promtool')
  const flags = ['--lease-ttl', '500ms', '--max-tenants', '3', '--l1-ghosts', '40', '--l1-pin-ratio', '1']
  const adapters = ['--l2', 'name=small,type=memory,capacity=1MiB', '--l2', 'name=disk,type=filesystem,capacity=64MiB']
  const engine = await home.start({ l1Size: '8MiB', flags: [...FLAGS, ...flags, ...adapters] })
  await bringAboutEverything(engine)

  const isReachable = (name: string) => !UNREACHABLE.some((form) => form.test(name))
  const wanted = CATALOGUE.map(({ name }) => name).filter(isReachable)
  let missing: string[] = []
  const shown = await until(
    'all is shown',
    async () => {
      const names = shownNames(await scrape(engine))
      missing = wanted.filter((name) => !names.includes(name))
      return missing.length === 0 ? names : undefined
    },
    10_000,
  ).catch(() => [])
  expect(missing).toEqual([])
  expect(shown.filter((name) => !isReachable(name))).toEqual([]) // else it is reachable

  const text = await fetch(engine.metricsUrl, { headers: { accept: 'text/plain;version=0.0.4' } })
  expect(text.headers.get('content-type')).toMatch(/^text\/plain; ?version=0\.0\.4/)
  const body = await text.text()
  const { names, lines, status } = promtoolCheck(body)
  expect(
    names.filter((name) => !LINT_ALLOWED.includes(name)),
    lines.join('\n'),
  ).toEqual([])
  expect(status).toBe(3)

  const open = await fetch(engine.metricsUrl, { headers: { accept: 'application/openmetrics-text;version=1.0.0' } })
  expect(open.headers.get('content-type')).toMatch(/^application\/openmetrics-text; ?version=1\.0\.0/)
  const openText = await open.text()
  expect(openText.endsWith('\n# EOF\n')).toBe(true)
  const samples = (parsed: ParsedExposition) =>
    [...new Set(parsed.samples.map(({ name }) => name))].filter(isOurs).sort()
  expect(samples(parseExposition(openText))).toEqual(samples(parseExposition(body)))
})

it('a real Prometheus scrapes the engine, and its hit rate is that of the traffic', async (context) => {
  needProgram(context, 'prometheus')
  const engine = await home.start({ flags: FLAGS })
  const client = new HttpClient(engine)
  await client.register(MODEL, SHARD_BYTES)
  const prompts = Array.from({ length: 8 }, (_, number) => promptOf(number, 8 * CHUNK_TOKENS))
  for (const tokens of prompts) await client.store({ model: MODEL }, tokens, SHARD_BYTES, 5)
  // Five of eight chunks hit at every moment, so that the extrapolation of rate() leaves the ratio as it is.
  const ask = () => Promise.all(prompts.map((tokens) => readPrompt(client, tokens)))
  await ask()
  const prometheus = await Prometheus.start(Number(new URL(engine.metricsUrl).port))
  try {
    await prometheus.scrapedTwice()
    const answers = await ask()
    const hits = answers.reduce((sum, { hit_tokens }) => sum + hit_tokens, 0)
    const requested = answers.reduce((sum, { requested_tokens }) => sum + requested_tokens, 0)
    expect(hits / requested).toBe(5 / 8)
    expect(await prometheus.value(HIT_RATE_QUERY)).toBeCloseTo(5 / 8, 6)
    const names = await prometheus.get<string[]>('/api/v1/label/__name__/values')
    expect(names).toEqual(expect.arrayContaining(['cache_mp_l1_usage_ratio', 'cache_mp_l2_usage_bytes']))
    await prometheus.value(`sum(cache_mp_lookup_requested_tokens_total) == ${2 * requested}`)
  } finally {
    await prometheus.stop()
  }
})

it('hostile model names and salts are series of their own', async () => {
  const engine = await home.start({ flags: FLAGS })
  const client = new HttpClient(engine)
  // Control characters are refused, and so are @ / \ in salts; what is left may still break an exposition.
  const models = [
    'a',
    'a"',
    'a,b:c',
    'a",cache_salt="x',
    '\\',
    '\\n',
    '\\"',
    '{}=',
    '#',
    ' ',
    'ü€😀',
    '__proto__',
    '\u2028',
  ]
  const salts = ['', ',b:', '"', '",model_name="a', '{}', 'ü', ' ']
  const wanted = new Map<string, number>()
  for (const [at, model] of models.entries()) {
    await client.register(model, SHARD_BYTES)
    for (const [column, salt] of salts.entries()) {
      const chunks = 1 + at * salts.length + column
      await client.lookup(model, promptOf(chunks, chunks * CHUNK_TOKENS), { cache_salt: salt })
      wanted.set(JSON.stringify([model, salt]), chunks * CHUNK_TOKENS)
    }
  }
  const { samples } = await scrape(engine)
  const asked = samples.filter(({ name }) => name === 'cache_mp_lookup_requested_tokens_total')
  const found = asked.map(
    ({ labels, value }) => [JSON.stringify([labels.model_name, labels.cache_salt]), value] as const,
  )
  expect(new Map(found)).toEqual(wanted)
})
