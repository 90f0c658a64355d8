import { afterEach, beforeEach, describe, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { REDIS_DEFAULT } from '../../src/l2/adapters/redis/options.ts'
import { RedisAdapter } from '../../src/l2/adapters/redis/redis-adapter.ts'
import { DRILL_SHARD_BYTES, OutageDrill } from '../support/outage-drill.ts'
import { needsRedis, RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

interface Outage {
  begin(): unknown
  end(): unknown
}

describe('traffic goes on', needsRedis(), () => {
  let server: RedisServer
  let proxy: TcpProxy
  let drill: OutageDrill

  beforeEach(async () => {
    server = await RedisServer.start()
    proxy = await TcpProxy.start({ host: '127.0.0.1', port: server.port })
    const options = { ...REDIS_DEFAULT, url: `redis://127.0.0.1:${proxy.port}`, connectTimeoutMs: 300 }
    drill = await OutageDrill.start(new RedisAdapter(options, { clock: new SystemClock(), random: () => 0.5 }), 3)
  })

  afterEach(async () => {
    proxy.heal()
    server.resume()
    await drill.stop()
    await proxy.close()
    await server.dispose()
  })

  const OUTAGES: Record<string, Outage> = {
    'is stopped': { begin: () => server.stop(), end: () => server.restart() },
    'is killed': { begin: () => server.kill(), end: () => server.restart() },
    'is halted (SIGSTOP)': { begin: () => server.hang(), end: () => server.resume() },
    'is out of memory': {
      begin: () => server.cli('config', 'set', 'maxmemory', '1'),
      end: () => server.cli('config', 'set', 'maxmemory', '0'),
    },
    'is behind a network that swallows everything': { begin: () => proxy.blackhole(), end: () => proxy.heal() },
    'refuses connections, and resets those that are open': {
      begin: () => {
        proxy.isRefusing = true
        proxy.cut()
      },
      end: () => {
        proxy.isRefusing = false
      },
    },
    'is behind a slow network': {
      begin: () => {
        proxy.throttleBytesPerSecond = DRILL_SHARD_BYTES / 2
      },
      end: () => {
        proxy.throttleBytesPerSecond = 0
      },
    },
  }

  it.each(Object.keys(OUTAGES))('while the server %s, and it is used again afterwards', async (name) => {
    const { begin, end } = OUTAGES[name]!
    await drill.warms()
    await begin()
    await drill.traffic(60)
    await end()
    await drill.recovers()
    await drill.rests()
  })

  it('while connections are reset in the middle of objects, both ways', async () => {
    for (let turn = 0; turn < 20; turn += 1) {
      proxy.cutAfter(DRILL_SHARD_BYTES / 2, turn % 2 === 0 ? 'toClient' : 'toServer')
      await drill.traffic(8)
    }
    await drill.recovers()
    await drill.rests()
  })
})
