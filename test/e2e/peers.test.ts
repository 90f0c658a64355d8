import { afterEach, expect, it, vi } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

// Each test starts several engines, and a busy machine takes long for that.
vi.setConfig({ testTimeout: 240_000 })

const CHUNK_TOKENS = 16
const SHARD_BYTES = 4 * 1024 ** 2
const CHUNKS = 4
const MODEL = 'm'
const QUERY = { model: MODEL }

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Node {
  readonly home: EngineHome
  readonly engine: EngineProcess
  readonly client: HttpClient
}

// A slow machine is no silent peer: what times out has tests of its own.
const PATIENT = 'answer=20s,lookup-deadline=20s,load-deadline=20s'

/** An engine without L2 but its peers. */
async function start(peers: string | undefined, home = new EngineHome(), token?: string): Promise<Node> {
  const l2 = peers === undefined ? 'none' : `name=peers,type=peer,${PATIENT},${peers}`
  cleanups.push(() => home.remove())
  const flags = ['--chunk-tokens', `${CHUNK_TOKENS}`, '--l2', l2]
  const engine = await home.start({ l1Size: '96MiB', flags })
  const client = new HttpClient(engine, token)
  return { home, engine, client }
}

async function proxyOf(engine: EngineProcess): Promise<TcpProxy> {
  const { hostname, port } = new URL(engine.httpUrl)
  const proxy = await TcpProxy.start({ host: hostname, port: Number(port) })
  cleanups.push(() => proxy.close())
  return proxy
}

/** Hit chunks of a prompt; the bytes of each are right, and the lease is given back. */
async function hitsOf({ client }: Node, tokens: readonly number[]) {
  const found = await client.lookup(MODEL, tokens)
  for (const hash of found.hashes.slice(0, found.hit_chunks)) {
    const bytes = await client.get(hash, QUERY)
    expect(Buffer.compare(bytes!, shardOf(hash, SHARD_BYTES)), hash).toBe(0)
  }
  await client.release(found.lease_id)
  return { chunks: found.hit_chunks, fromL2: found.tiers.l2 / CHUNK_TOKENS }
}

async function metric({ engine }: Node, name: string): Promise<number | undefined> {
  const text = await (await fetch(engine.metricsUrl)).text()
  const line = text.split('\n').find((one) => one.startsWith(`${name} `) || one.startsWith(`${name}{`))
  return line === undefined ? undefined : Number(line.split(' ').at(-1))
}

/** Nothing of the peers is in flight any more. */
async function expectRest(node: Node): Promise<void> {
  await until('nothing is in flight', async () => {
    const { l1, lookups } = await node.client.status()
    return (l1.openLeases === 0 && lookups.pending === 0) || undefined
  })
  expect(await metric(node, 'cache_mp_active_p2p_lookup_jobs')).toBe(0)
  expect(await metric(node, 'cache_mp_num_inflight_l2_loads')).toBe(0)
}

it('an engine serves what a peer has, byte for byte, and what one peer lacks another may have', async () => {
  const [one, other] = [await start(undefined), await start(undefined)]
  const asking = await start(`urls=${one.engine.httpUrl}+${other.engine.httpUrl}`)
  for (const { client } of [one, other, asking]) await client.register(MODEL, SHARD_BYTES)
  const tokens = promptOf(1, CHUNKS * CHUNK_TOKENS)
  await one.client.store(QUERY, tokens, SHARD_BYTES, 2)
  await other.client.store(QUERY, tokens, SHARD_BYTES)
  expect(await hitsOf(asking, tokens)).toEqual({ chunks: CHUNKS, fromL2: CHUNKS })
  expect(await hitsOf(asking, tokens)).toEqual({ chunks: CHUNKS, fromL2: 0 })
  await expectRest(asking)
  expect(await metric(one, 'cache_mp_active_p2p_lookup_jobs')).toBeUndefined()
  expect(await metric(asking, 'cache_mp_l2_store_submitted_requests_total')).toBeUndefined()
})

it('a question goes one hop: in a ring of three, an engine does not ask its peers for a peer', async () => {
  const last = await start(undefined)
  const middle = await start(`urls=${last.engine.httpUrl}`)
  const first = await start(`urls=${middle.engine.httpUrl}`)
  const admin = new HttpClient(last.engine, await last.home.token('admin'))
  await admin.must('POST', '/v1/l2/adapters', { name: 'peers', type: 'peer', urls: [first.engine.httpUrl] })
  for (const client of [admin, middle.client, first.client]) await client.register(MODEL, SHARD_BYTES)
  const tokens = promptOf(2, CHUNKS * CHUNK_TOKENS)
  await admin.store(QUERY, tokens, SHARD_BYTES)
  expect(await hitsOf(first, tokens)).toEqual({ chunks: 0, fromL2: 0 })
  expect(await metric(middle, 'cache_mp_lookups_total')).toBeUndefined()
  expect(await hitsOf(middle, tokens)).toEqual({ chunks: CHUNKS, fromL2: CHUNKS })
  expect(await hitsOf(first, tokens)).toEqual({ chunks: CHUNKS, fromL2: CHUNKS })
})

it('a peer wants a token, and has nothing for another layout', async () => {
  const home = new EngineHome()
  const token = await home.token('inference')
  const guarded = await start(undefined, home, token)
  await guarded.client.register(MODEL, SHARD_BYTES)
  const tokens = promptOf(3, CHUNKS * CHUNK_TOKENS)
  await guarded.client.store(QUERY, tokens, SHARD_BYTES)
  const { httpUrl } = guarded.engine

  const stranger = await start(`urls=${httpUrl},token=kvt_wrong`)
  await stranger.client.register(MODEL, SHARD_BYTES)
  expect(await hitsOf(stranger, tokens)).toEqual({ chunks: 0, fromL2: 0 })
  const { adapters } = await stranger.client.must('GET', '/v1/l2/adapters')
  expect(adapters).toMatchObject([{ type: 'peer', last_error: expect.stringContaining('401') }])
  expect(JSON.stringify(adapters)).not.toContain('kvt_wrong')

  const friend = await start(`urls=${httpUrl},token=${token}`)
  await friend.client.register(MODEL, SHARD_BYTES)
  expect(await hitsOf(friend, tokens)).toEqual({ chunks: CHUNKS, fromL2: CHUNKS })

  const foreign = await start(`urls=${httpUrl},token=${token}`)
  await foreign.client.must('POST', '/v1/models', { model: MODEL, chunk_bytes: SHARD_BYTES, layout: 'another' })
  expect(await hitsOf(foreign, tokens)).toEqual({ chunks: 0, fromL2: 0 })
})

it('a peer that dies in the middle of a fetch takes nothing along but what it had', async () => {
  const [dying, staying] = [await start(undefined), await start(undefined)]
  const proxy = await proxyOf(dying.engine)
  const asking = await start(`urls=http://127.0.0.1:${proxy.port}+${staying.engine.httpUrl}`)
  for (const { client } of [dying, staying, asking]) await client.register(MODEL, SHARD_BYTES)
  // Nobody has the last chunk, so every lookup hears of all that have the others.
  const [whole, half] = [promptOf(4, (CHUNKS + 1) * CHUNK_TOKENS), promptOf(5, (CHUNKS + 1) * CHUNK_TOKENS)]
  for (const tokens of [whole, half]) await dying.client.store(QUERY, tokens, SHARD_BYTES, CHUNKS)
  await staying.client.store(QUERY, whole, SHARD_BYTES, CHUNKS)

  proxy.throttleBytesPerSecond = 4 * SHARD_BYTES
  const before = proxy.passed.toClient
  const looking = [hitsOf(asking, whole), hitsOf(asking, half)]
  await until('bytes of a shard are on their way', () => proxy.passed.toClient > before + 64 * 1024 || undefined)
  await dying.engine.stop('SIGKILL')
  const [fromBoth, fromDying] = await Promise.all(looking)
  expect(fromBoth).toMatchObject({ chunks: CHUNKS })
  expect(fromDying!.chunks).toBeLessThan(CHUNKS)
  await expectRest(asking)
  expect(await hitsOf(asking, whole)).toEqual({ chunks: CHUNKS, fromL2: 0 })
})
