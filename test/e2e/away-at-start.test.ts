import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { freePort } from '../support/free-port.ts'
import { HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { needsRedis, RedisServer } from '../support/redis-server.ts'
import { BUCKET, needsS3Server, S3Server } from '../support/s3-server.ts'
import { until } from '../support/until.ts'

const MODEL = 'm'
const SHARD_BYTES = 64 * 1024
const CHUNK_TOKENS = 16
const CHUNKS = 3
// Tried again soon; no slow machine is taken for a server that is away.
const TIMES = 'circuit-open=100ms,lookup-deadline=20s,load-deadline=20s,store-deadline=20s'

/** Several starts of engines and servers. */
const PATIENCE_MS = 240_000

const patiently = <Value>(what: string, attempt: () => Promise<Value | undefined>) => until(what, attempt, 90_000)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(l2: string): Promise<{ engine: EngineProcess; client: HttpClient }> {
  const home = new EngineHome()
  cleanups.push(() => home.remove())
  const token = await home.token('admin')
  const engine = await home.start({ flags: ['--chunk-tokens', `${CHUNK_TOKENS}`, '--l2', `name=far,${TIMES},${l2}`] })
  const client = new HttpClient(engine, token)
  await client.register(MODEL, SHARD_BYTES)
  return { engine, client }
}

async function health(client: HttpClient) {
  const { status, body } = await client.ask('GET', '/readyz')
  return { status, far: body.l2[0] }
}

const AWAY = { status: 200, far: { name: 'far', state: 'active', circuit: 'open', reached: false } }
const THERE = { status: 200, far: { name: 'far', state: 'active', circuit: 'closed', reached: true } }

/** Works without L2, and says so; after `bringBack` everything goes to L2 and comes from it, what was stored before, too. */
async function comesByItself(l2: string, bringBack: () => unknown): Promise<void> {
  const { engine, client } = await start(l2)
  expect(await health(client)).toEqual(AWAY)
  expect(engine.stderr).toContain('the engine starts without it and goes on trying')
  const before = promptOf(1, CHUNKS * CHUNK_TOKENS)
  await client.store({ model: MODEL }, before, SHARD_BYTES)
  const hit = await client.lookup(MODEL, before)
  expect(hit.tiers).toEqual({ l0: 0, l1: CHUNKS * CHUNK_TOKENS, l2: 0 })
  await client.release(hit.lease_id)
  expect(await client.must('GET', '/v1/l2/adapters')).toMatchObject({
    adapters: [{ circuit: 'open', last_error: expect.stringMatching(/.+/) }],
  })
  await bringBack()
  await patiently('the adapter is reached', async () => (await health(client)).far.reached || undefined)
  expect(await health(client)).toEqual(THERE)
  expect(engine.stderr).toContain('an adapter that was away at the start was reached')
  const after = promptOf(2, CHUNKS * CHUNK_TOKENS)
  await client.store({ model: MODEL }, after, SHARD_BYTES)
  await patiently('L2 has what was stored before and after', async () => {
    const { adapters } = (await client.status()).l2
    return adapters[0].objects === 2 * CHUNKS || undefined
  })
  await client.must('POST', '/v1/clear', { tiers: ['l1'] })
  for (const tokens of [before, after]) await expectFromL2(client, tokens)
}

async function expectFromL2(client: HttpClient, tokens: readonly number[]): Promise<void> {
  const found = await client.lookup(MODEL, tokens)
  expect(found.tiers).toEqual({ l0: 0, l1: 0, l2: CHUNKS * CHUNK_TOKENS })
  for (const hash of found.hashes) {
    expect(Buffer.compare((await client.get(hash, { model: MODEL }))!, shardOf(hash, SHARD_BYTES))).toBe(0)
  }
  await client.release(found.lease_id)
}

it('an engine starts while its Redis is down, and uses it once it is there', needsRedis(), async () => {
  const server = await RedisServer.start()
  cleanups.push(() => server.dispose())
  await server.stop()
  await comesByItself(`type=redis,capacity=64MiB,url=${server.url}`, () => server.restart())
})

it('an engine starts while its S3 is down, and uses it once it is there', {
  ...needsS3Server(),
  timeout: PATIENCE_MS,
}, async () => {
  const server = await S3Server.start()
  cleanups.push(() => server.stop())
  await server.end()
  const { region, accessKey, secretKey } = server.options()
  const keys = `access-key=${accessKey},secret-key=${secretKey},region=${region}`
  await comesByItself(`type=s3,capacity=64MiB,bucket=${BUCKET},endpoint=${server.endpoint},${keys}`, () =>
    server.restart(),
  )
})

it(
  'an engine starts while its peer, and the file with its token, are missing, and asks it once they are there',
  async () => {
    const port = await freePort()
    const home = new EngineHome()
    cleanups.push(() => home.remove())
    const tokenFile = join(home.folder, 'token')
    const { client } = await start(`type=peer,urls=http://127.0.0.1:${port},token-file=${tokenFile},answer=20s`)
    expect(await health(client)).toEqual(AWAY)
    const token = await home.token('inference')
    writeFileSync(tokenFile, token)
    await patiently('the adapter is reached', async () => (await health(client)).far.reached || undefined)
    const tokens = promptOf(3, CHUNKS * CHUNK_TOKENS)
    const early = await client.lookup(MODEL, tokens) // the peer itself is still down
    expect(early.hit_chunks).toBe(0)
    const peer = await home.start({ httpPort: port, flags: ['--chunk-tokens', `${CHUNK_TOKENS}`, '--l2', 'none'] })
    const holder = new HttpClient(peer, token)
    await holder.register(MODEL, SHARD_BYTES)
    await holder.store({ model: MODEL }, tokens, SHARD_BYTES)
    await patiently('the peer is asked', async () => {
      const { lease_id, hit_chunks } = await client.lookup(MODEL, tokens)
      await client.release(lease_id)
      return hit_chunks === CHUNKS || undefined
    })
  },
  PATIENCE_MS,
)

it(
  'an engine whose adapter has start=fail does not start while its server is down',
  async () => {
    const home = new EngineHome()
    cleanups.push(() => home.remove())
    const ports = ['--http-port', '0', '--mp-port', '0', '--prometheus-port', '0', '--l1-size', '16MiB']
    const l2 = `name=far,type=redis,capacity=64MiB,url=redis://127.0.0.1:${await freePort()},start=fail`
    const { code, stderr } = await runCommand(['serve', '--data-dir', home.dataDir, ...ports, '--l2', l2], 120_000)
    expect(stderr).toMatch(/ECONNREFUSED/)
    expect(code).toBe(1)
  },
  PATIENCE_MS,
)
