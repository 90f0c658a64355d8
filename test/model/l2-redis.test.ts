import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { REDIS_DEFAULT, type RedisAdapterOptions } from '../../src/l2/adapters/redis/options.ts'
import { RedisAdapter } from '../../src/l2/adapters/redis/redis-adapter.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { chainBatch, loadChain, lookupChain, NEVER, SPACE, storeChain } from '../support/l2-objects.ts'
import { random } from '../support/random.ts'
import { needsRedis, RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

const OBJECT_BYTES = HEADER_BYTES + SPACE.shardBytes
const CAPACITY = 12

describe('engines that share a Redis', needsRedis(), () => {
  let server: RedisServer
  let opened: RedisAdapter[] = []

  beforeAll(async () => {
    server = await RedisServer.start()
  })

  afterAll(() => server.dispose())

  afterEach(async () => {
    for (const adapter of opened) await adapter.close()
    opened = []
  })

  async function open(prefix: string, options: Partial<RedisAdapterOptions> = {}): Promise<RedisAdapter> {
    const all = { ...REDIS_DEFAULT, url: server.url, prefix, ...options }
    const adapter = new RedisAdapter(all, { clock: new SystemClock(), random: () => 0.5 })
    opened.push(adapter)
    await adapter.open()
    return adapter
  }

  const namesOf = (prefix: string) =>
    server
      .cli('keys', `${prefix}o:*`)
      .split('\n')
      .filter((name) => name !== '')

  // Oracle: the names that the server has.
  it.each([1, 2, 3])('serve nothing wrong, and count right after each scan (seed %i)', async (seed) => {
    const next = random(seed)
    const prefix = `model-${seed}:`
    const capacityBytes = CAPACITY * OBJECT_BYTES
    const engines = [await open(prefix, { capacityBytes }), await open(prefix, { capacityBytes })]
    for (let step = 0; step < 100; step += 1) {
      const engine = engines[next(2)]!
      const chain = next(5)
      const to = 1 + next(6)
      const action = next(10)
      if (action < 5) expect(await storeChain(engine, chain, 0, to)).not.toContain(OUTCOME_FAILED)
      else if (action < 8) {
        const outcomes = await loadChain(engine, chain, 0, to) // throws when other bytes are served
        for (const outcome of outcomes) expect([OUTCOME_FAILED, OUTCOME_CORRUPT]).not.toContain(outcome)
      } else if (action < 9) await engine.remove(chainBatch(SPACE, chain, to - 1, to), NEVER)
      else server.cli('del', namesOf(prefix)[next(5)] ?? 'none') // as `maxmemory` does
      engine.verify()
      if (step % 20 !== 19) continue
      await until('it counts what is there, and no more than may be', async () => {
        await engine.list('', 1, NEVER)
        const { objects, bytes } = engine.usage()
        expect(bytes).toBe(objects * OBJECT_BYTES)
        return bytes <= capacityBytes && objects === namesOf(prefix).length ? true : undefined
      })
    }
  })

  it('keep a salt under its quota with leaves of its own', async () => {
    const adapter = await open('quota:')
    const alice = { ...SPACE, salt: 'alice' }
    await storeChain(adapter, 1, 0, 4, alice)
    await storeChain(adapter, 1, 0, 4)
    await adapter.setQuotas({ bySalt: [['alice', 3 * OBJECT_BYTES]] }, NEVER)
    expect(await lookupChain(adapter, 1, 0, 4, alice)).toEqual([1, 1, 1, 0])
    await storeChain(adapter, 2, 0, 1, alice)
    expect(await lookupChain(adapter, 1, 0, 3, alice)).toEqual([1, 1, 0])
    expect(await loadChain(adapter, 1, 0, 4)).toEqual(Array(4).fill(OUTCOME_OK))
    expect(adapter.usage()).toMatchObject({ quotaEvictedObjects: 2, evictedObjects: 0 })
    expect(await adapter.tenants(NEVER)).toContainEqual({
      model: 'm',
      salt: 'alice',
      bytes: 3 * OBJECT_BYTES,
      objects: 3,
    })
  })
})
