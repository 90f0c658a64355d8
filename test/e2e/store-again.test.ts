import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EngineHome } from '../support/engine-process.ts'
import { HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { needsRedis, RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

const MODEL = 'm'
const SHARD_BYTES = 64 * 1024
const CHUNK_TOKENS = 16
const CHUNKS = 16
/** Bytes of stores in flight: the others wait in the engine when it is killed. */
const BUDGET = '128KiB'
const IN_FLIGHT = 2

describe('a kill while stores wait for L2', needsRedis(), () => {
  let home: EngineHome
  let server: RedisServer

  beforeEach(async () => {
    home = new EngineHome()
    server = await RedisServer.start()
  })
  afterEach(async () => {
    server.resume()
    await home.remove()
    await server.dispose()
  })

  it('loses none of them: the next engine stores what L1 kept and L2 lacks', async () => {
    const token = await home.token('admin')
    const times = 'store-deadline=120s,lookup-deadline=20s,load-deadline=20s'
    const l2 = `name=redis,type=redis,url=${server.url},capacity=64MiB,store-budget=${BUDGET},${times}`
    const flags = ['--chunk-tokens', `${CHUNK_TOKENS}`, '--l2', l2]
    const first = await home.start({ flags })
    const client = new HttpClient(first, token)
    await client.register(MODEL, SHARD_BYTES)
    const tokens = promptOf(1, CHUNKS * CHUNK_TOKENS)
    const { hashes } = await client.lookup(MODEL, tokens, { dry_run: true })
    server.hang()
    for (const [at, hash] of hashes.entries()) {
      const parent = at === 0 ? 'root' : hashes[at - 1]!
      expect((await client.put(hash, { model: MODEL, parent }, shardOf(hash, SHARD_BYTES))).status).toBe(201)
    }
    expect((await client.status()).l2.queuedStores).toBeGreaterThanOrEqual(CHUNKS - IN_FLIGHT)
    await first.stop('SIGKILL')
    server.resume()
    // What was sent before the kill may have arrived; what waited has not.
    expect(Number(server.cli('dbsize'))).toBeLessThanOrEqual(IN_FLIGHT)

    const second = new HttpClient(await home.start({ flags }), token)
    await until('L2 has every chunk', () => Number(server.cli('dbsize')) === CHUNKS || undefined, 90_000)
    await until('nothing is in flight', async () => (await second.isL2Idle()) || undefined)
    await second.must('POST', '/v1/clear', { tiers: ['l1'] })
    const found = await second.lookup(MODEL, tokens)
    expect(found.tiers).toEqual({ l0: 0, l1: 0, l2: CHUNKS * CHUNK_TOKENS })
    for (const hash of found.hashes) {
      expect(Buffer.compare((await second.get(hash, { model: MODEL }))!, shardOf(hash, SHARD_BYTES))).toBe(0)
    }
    await second.release(found.lease_id)
    const { adapters } = (await second.status()).l2
    expect(adapters).toMatchObject([{ objects: CHUNKS, circuit: 'closed' }])
  }, 240_000)
})
