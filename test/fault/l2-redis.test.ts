import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { OUTCOME_CORRUPT, OUTCOME_FULL, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { objectKey } from '../../src/l2/adapters/redis/object-keys.ts'
import { REDIS_DEFAULT, type RedisAdapterOptions } from '../../src/l2/adapters/redis/options.ts'
import { RedisAdapter } from '../../src/l2/adapters/redis/redis-adapter.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { spaceDigest } from '../../src/l2/space-table.ts'
import {
  blanks,
  chainBatch,
  loadChain,
  lookupChain,
  NEVER,
  payloads,
  SPACE,
  storeChain,
} from '../support/l2-objects.ts'
import { settle } from '../support/l2-set.ts'
import { random } from '../support/random.ts'
import { needsRedis, RedisServer, startRedisCluster } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

/** Objects large enough to be cut in the middle. */
const LARGE = { ...SPACE, model: 'large', shardBytes: 1_000_000 }
const MARK = 0xa5

let opened: RedisAdapter[] = []

async function open(url: string, options: Partial<RedisAdapterOptions> = {}): Promise<RedisAdapter> {
  const all = { ...REDIS_DEFAULT, url, ...options }
  const adapter = new RedisAdapter(all, { clock: new SystemClock(), random: () => 0.5 })
  opened.push(adapter)
  await adapter.open()
  return adapter
}

/** Name of chunk `index` of a chain. */
function nameOf(chain: number, index: number, space = SPACE): string {
  return objectKey(REDIS_DEFAULT.prefix, spaceDigest(space), chainBatch(space, chain, index, index + 1), 0)
}

afterEach(async () => {
  for (const adapter of opened.splice(0)) {
    adapter.verify()
    await adapter.close()
  }
})

describe('the redis adapter and its server', needsRedis(), () => {
  let server: RedisServer
  let proxy: TcpProxy

  beforeEach(async () => {
    server = await RedisServer.start()
    proxy = await TcpProxy.start({ host: '127.0.0.1', port: server.port })
  })

  afterEach(async () => {
    server.resume()
    await proxy.close()
    await server.dispose()
  })

  const throughProxy = (options: Partial<RedisAdapterOptions> = {}) => open(`redis://127.0.0.1:${proxy.port}`, options)

  it.each(['stop', 'kill'] as const)('refuses at once after a %s, and comes back by itself', async (how) => {
    const adapter = await open(server.url)
    await storeChain(adapter, 1, 0, 3)
    await server[how]()
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await expect(loadChain(adapter, 1, 0, 3)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
      await expect(storeChain(adapter, 2, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
      await expect(lookupChain(adapter, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    }
    await server.restart()
    const outcomes = await until('the adapter is back', () => loadChain(adapter, 1, 0, 3))
    expect(outcomes).toEqual([OUTCOME_NOT_FOUND, OUTCOME_NOT_FOUND, OUTCOME_NOT_FOUND])
    expect(adapter.usage()).toMatchObject({ objects: 0, bytes: 0 })
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
  })

  it('lets go of a load that a hung server does not answer, and never writes into it afterwards', async () => {
    const adapter = await open(server.url, { connections: 1 })
    await storeChain(adapter, 1, 0, 2, LARGE)
    server.hang()
    const abort = new AbortController()
    const targets = blanks(2, LARGE.shardBytes)
    const load = adapter.load(chainBatch(LARGE, 1, 0, 2), targets, new Uint8Array(2), abort.signal)
    const lookup = adapter.lookup(chainBatch(LARGE, 1, 0, 2), new Uint8Array(2), abort.signal)
    await settle() // sent, and not answered
    abort.abort()
    await expect(load).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    await expect(lookup).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    for (const target of targets) target.fill(MARK)
    await expect(lookupChain(adapter, 1, 0, 2, LARGE)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    server.resume()
    await until('the adapter is back', () => loadChain(adapter, 1, 0, 2, LARGE))
    expect(targets.every((target) => target.every((byte) => byte === MARK))).toBe(true)
  })

  it('lets go of a load in the middle of an object', async () => {
    const adapter = await throughProxy({ connections: 1 })
    await storeChain(adapter, 1, 0, 2, LARGE)
    const before = proxy.passed.toClient
    proxy.throttleBytesPerSecond = 5_000_000
    const abort = new AbortController()
    const targets = blanks(2, LARGE.shardBytes)
    const load = adapter.load(chainBatch(LARGE, 1, 0, 2), targets, new Uint8Array(2), abort.signal)
    await until('a part has arrived', () => (proxy.passed.toClient > before + 300_000 ? true : undefined))
    abort.abort()
    await expect(load).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    for (const target of targets) target.fill(MARK)
    proxy.throttleBytesPerSecond = 0
    await until('the adapter is back', () => loadChain(adapter, 1, 0, 2, LARGE))
    expect(targets.every((target) => target.every((byte) => byte === MARK))).toBe(true)
  })

  it('lets go of a store in the middle of its bytes, and never sends what they become', async () => {
    const adapter = await throughProxy({ connections: 1 })
    await storeChain(adapter, 1, 0, 1)
    proxy.blackhole()
    const huge = { ...LARGE, shardBytes: 32_000_000 } // more than the network takes in between
    const source = new Uint8Array(huge.shardBytes).fill(1)
    const abort = new AbortController()
    const store = adapter.store(chainBatch(huge, 2, 0, 1), [source], new Uint8Array(1), abort.signal)
    await settle()
    abort.abort()
    await expect(store).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    source.fill(MARK) // the arena is written to again
    proxy.heal()
    expect(await until('the adapter is back', () => lookupChain(adapter, 2, 0, 1, huge))).toEqual([0])
    expect(server.cli('dbsize')).toBe('1')
    source.fill(1)
    expect(await adapter.store(chainBatch(huge, 2, 0, 1), [source], new Uint8Array(1), NEVER)).toBe(huge.shardBytes)
  })

  it('rejects a store that was given up while others made room', async () => {
    const adapter = await open(server.url, { capacityBytes: 2 * (HEADER_BYTES + SPACE.shardBytes) })
    await storeChain(adapter, 1, 0, 2)
    server.hang()
    const [first, second] = [new AbortController(), new AbortController()]
    const store = (chain: number, { signal }: AbortController) =>
      adapter.store(chainBatch(SPACE, chain, 0, 1), payloads(chain, 0, 1), new Uint8Array(1), signal)
    const stores = [store(2, first), store(3, second)]
    await settle()
    second.abort()
    first.abort()
    for (const one of stores) await expect(one).rejects.toMatchObject({ code: expect.stringMatching(/^L2_/) })
    server.resume()
    expect(await until('the adapter is back', () => storeChain(adapter, 4, 0, 2))).toEqual([OUTCOME_OK, OUTCOME_OK])
  })

  it.each([1, 500, 4096, 100_000, 999_999])(
    'serves nothing torn when the connection is reset at byte %i',
    async (at) => {
      const adapter = await throughProxy({ connections: 1 })
      await storeChain(adapter, 1, 0, 2, LARGE)
      proxy.cutAfter(at)
      const outcomes = new Uint8Array(2)
      const targets = blanks(2, LARGE.shardBytes)
      await adapter.load(chainBatch(LARGE, 1, 0, 2), targets, outcomes, NEVER).catch(() => 0)
      expect([...outcomes]).not.toContain(OUTCOME_OK)
      expect(await until('the adapter is back', () => loadChain(adapter, 1, 0, 2, LARGE))).toEqual([
        OUTCOME_OK,
        OUTCOME_OK,
      ])
    },
  )

  it.each([1, 500, 5_000, 999_999])('stores nothing torn when the connection is reset at byte %i', async (at) => {
    const adapter = await throughProxy({ connections: 1 })
    proxy.cutAfter(at, 'toServer')
    await storeChain(adapter, 1, 0, 2, LARGE).catch(() => [])
    expect(server.cli('dbsize')).toBe('0')
    expect(await until('it is stored', () => storeChain(adapter, 1, 0, 2, LARGE))).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(await loadChain(adapter, 1, 0, 2, LARGE)).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(adapter.usage()).toMatchObject({ objects: 2, bytes: 2 * (HEADER_BYTES + LARGE.shardBytes) })
  })

  it('counts what was written although the answer was lost', async () => {
    const adapter = await throughProxy({ connections: 1 })
    await storeChain(adapter, 9, 0, 1)
    proxy.cutAfter(1) // the first byte of the answer to EXISTS or SET
    await storeChain(adapter, 1, 0, 1).catch(() => [])
    await until('the scan has seen it', async () => {
      await loadChain(adapter, 9, 0, 1)
      return adapter.usage().objects === Number(server.cli('dbsize')) ? true : undefined
    })
  })

  it('is full when the server is out of memory, and goes on when there is room', async () => {
    const adapter = await open(server.url)
    server.cli('config', 'set', 'maxmemory', '4mb')
    const outcomes = await storeChain(adapter, 1, 0, 4, LARGE)
    expect(outcomes).toContain(OUTCOME_FULL)
    const held = outcomes.filter((outcome) => outcome === OUTCOME_OK).length
    expect(adapter.usage().objects).toBe(held)
    server.cli('config', 'set', 'maxmemory', '0')
    expect(await storeChain(adapter, 1, 0, 4, LARGE)).toEqual(Array(4).fill(OUTCOME_OK))
  })

  it('is full for an object that the protocol cannot carry, and asks nobody', async () => {
    const adapter = await throughProxy()
    const space = { ...SPACE, shardBytes: 512 * 1024 ** 2 }
    const before = proxy.passed.toServer
    const outcomes = new Uint8Array(1)
    await adapter.store(chainBatch(space, 1, 0, 1), [new Uint8Array(space.shardBytes)], outcomes, NEVER)
    expect([...outcomes]).toEqual([OUTCOME_FULL])
    expect(proxy.passed.toServer).toBe(before)
  })

  it('takes what the server evicts for not found, and for gone', async () => {
    const adapter = await open(server.url)
    await storeChain(adapter, 1, 0, 3)
    server.cli('del', nameOf(1, 1))
    expect(await lookupChain(adapter, 1, 0, 3)).toEqual([1, 0, 1])
    expect(adapter.usage().objects).toBe(2)
    server.cli('del', nameOf(1, 2))
    expect(await loadChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_NOT_FOUND, OUTCOME_NOT_FOUND])
    server.cli('del', nameOf(1, 0))
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
    expect(server.cli('dbsize')).toBe('3')
    expect(adapter.usage().objects).toBe(3)
  })

  it.each([1, 2])(
    'never serves a record with a flipped bit, wherever it is (seed %i)',
    async (seed) => {
      const adapter = await open(server.url)
      const next = random(seed)
      const bytes = HEADER_BYTES + SPACE.shardBytes
      const offsets = [0, 8, 10, 12, 24, 32, 64, 96, 104, 112, 4092, 4096, bytes - 1]
      for (let sample = 0; sample < 40; sample += 1) offsets.push(next(bytes))
      for (const [at, offset] of offsets.entries()) {
        await storeChain(adapter, at, 0, 1)
        const key = nameOf(at, 0)
        const bit = offset * 8 + next(8)
        const isSet = server.cli('getbit', key, `${bit}`) === '1'
        server.cli('setbit', key, `${bit}`, isSet ? '0' : '1')
        expect(await loadChain(adapter, at, 0, 1), `offset ${offset}`).toEqual([OUTCOME_CORRUPT])
        expect(adapter.usage().checksumFailures).toBe(at + 1)
        expect(await loadChain(adapter, at, 0, 1)).toEqual([OUTCOME_NOT_FOUND])
      }
      expect(adapter.usage()).toMatchObject({ objects: 0, bytes: 0 })
      expect(server.cli('keys', 'kvtier:q:*').split('\n')).toHaveLength(offsets.length)
    },
    60_000,
  )

  it('takes a record that is cut short or goes on for corrupt', async () => {
    const adapter = await open(server.url, { quarantineMs: 0 })
    await storeChain(adapter, 1, 0, 2)
    server.cli('append', nameOf(1, 0), 'x')
    server.cli('set', nameOf(1, 1), '')
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OUTCOME_CORRUPT, OUTCOME_CORRUPT])
    expect(server.cli('dbsize')).toBe('0')
  })

  it('knows everything again after a restart, and in which order to evict it', async () => {
    const objectBytes = HEADER_BYTES + SPACE.shardBytes
    const first = await open(server.url)
    await storeChain(first, 1, 0, 2)
    await storeChain(first, 2, 0, 2)
    server.cli('set', 'somebody:else', 'x')
    server.cli('set', 'kvtier:o:not-ours', 'x')
    const second = await open(server.url, { capacityBytes: 3 * objectBytes })
    expect(second.usage()).toMatchObject({ objects: 3, bytes: 3 * objectBytes, evictedObjects: 1 })
    expect([await lookupChain(second, 1, 0, 1), await lookupChain(second, 2, 0, 1)]).toEqual([[1], [1]])
    expect(server.cli('dbsize')).toBe('5')
    expect(await second.clear({}, NEVER)).toBe(3)
    expect(server.cli('dbsize')).toBe('2')
  })

  it('finds at once what another engine stored under the same prefix, and counts it with the next scan', async () => {
    const one = await open(server.url)
    const other = await open(server.url)
    await storeChain(one, 1, 0, 3)
    expect(await lookupChain(other, 1, 0, 3)).toEqual([1, 1, 1])
    expect(await storeChain(other, 1, 0, 1)).toEqual([OUTCOME_OK])
    expect(other.usage().objects).toBe(1)
    await other.list('', 10, NEVER)
    expect(other.usage()).toEqual(one.usage())
    expect(await other.clear({}, NEVER)).toBe(3)
    expect(await lookupChain(one, 1, 0, 3)).toEqual([0, 0, 0])
    expect(one.usage().objects).toBe(0)
  })

  it('refuses a server that wants another password, and tells nobody the password', async () => {
    server.cli('config', 'set', 'requirepass', 'right')
    const wrong = open(server.url, { password: 'hunter2' })
    await expect(wrong).rejects.toMatchObject({ code: 'L2_UNAVAILABLE', message: expect.stringContaining('WRONGPASS') })
    await expect(wrong).rejects.not.toMatchObject({ message: expect.stringContaining('hunter2') })
    await expect(open(server.url)).rejects.toMatchObject({ message: expect.stringContaining('NOAUTH') })
    opened = []
  })

  it('refuses to open where no server is, or one that does not answer', async () => {
    server.hang()
    await expect(open(server.url, { connectTimeoutMs: 300 })).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    await server.kill()
    await expect(open(server.url)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    opened = []
  })
})

describe('the redis adapter and a Cluster', needsRedis(), () => {
  let servers: RedisServer[]

  beforeAll(async () => {
    servers = await startRedisCluster()
  }, 60_000)

  afterAll(async () => {
    await Promise.all(servers.map((server) => server.dispose()))
  })

  it('follows a slot that moves while it is used, and after it has moved', async () => {
    const adapter = await open(servers[0]!.url, { isCluster: true })
    await storeChain(adapter, 1, 0, 6)
    const key = nameOf(1, 0)
    const slot = servers[0]!.cli('cluster', 'keyslot', key)
    const from = servers.find((server) => server.cli('exists', key) === '1')!
    const to = servers.find((server) => server !== from)!
    const idOf = (server: RedisServer) => server.cli('cluster', 'myid')
    to.cli('cluster', 'setslot', slot, 'importing', idOf(from))
    from.cli('cluster', 'setslot', slot, 'migrating', idOf(to))
    from.cli('migrate', '127.0.0.1', `${to.port}`, key, '0', '5000')
    expect(await loadChain(adapter, 1, 0, 6)).toEqual(Array(6).fill(OUTCOME_OK))
    for (const server of servers) server.cli('cluster', 'setslot', slot, 'node', idOf(to))
    expect(await loadChain(adapter, 1, 0, 6)).toEqual(Array(6).fill(OUTCOME_OK))
    expect(await lookupChain(adapter, 1, 0, 6)).toEqual(Array(6).fill(1))
    expect(await adapter.clear({}, NEVER)).toBe(6)
  })

  it('goes on with the other servers when one is gone', async () => {
    servers[0]!.cli('config', 'set', 'cluster-require-full-coverage', 'no')
    for (const server of servers) server.cli('config', 'set', 'cluster-require-full-coverage', 'no')
    const adapter = await open(servers[0]!.url, { isCluster: true })
    await storeChain(adapter, 1, 0, 30)
    await servers[2]!.kill()
    const outcomes = await loadChain(adapter, 1, 0, 30)
    const served = outcomes.filter((outcome) => outcome === OUTCOME_OK).length
    expect(served).toBe(Number(servers[0]!.cli('dbsize')) + Number(servers[1]!.cli('dbsize')))
    expect(served).toBeLessThan(30)
    expect(outcomes).not.toContain(OUTCOME_NOT_FOUND)
  })
})
