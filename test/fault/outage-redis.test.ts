import { afterEach, beforeEach, describe } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { REDIS_DEFAULT } from '../../src/l2/adapters/redis/options.ts'
import { RedisAdapter } from '../../src/l2/adapters/redis/redis-adapter.ts'
import { OutageDrill } from '../support/outage-drill.ts'
import { outageTests } from '../support/outage-tests.ts'
import { needsRedis, RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

describe('a redis adapter', needsRedis(), () => {
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

  outageTests({
    who: 'the server',
    scene: () => ({ drill, proxy }),
    outages: {
      'is stopped': { begin: () => server.stop(), end: () => server.restart() },
      'is killed': { begin: () => server.kill(), end: () => server.restart() },
      'is halted (SIGSTOP)': { begin: () => server.hang(), end: () => server.resume() },
      'is out of memory': {
        begin: () => server.cli('config', 'set', 'maxmemory', '1'),
        end: () => server.cli('config', 'set', 'maxmemory', '0'),
      },
    },
    cuts: ['toClient', 'toServer'],
  })
})
