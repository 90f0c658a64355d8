import { afterEach, beforeEach, describe, it } from 'vitest'
import { DRILL_SHARD_BYTES, OutageDrill } from '../support/outage-drill.ts'
import { needsS3Server, S3Server, s3Adapter } from '../support/s3-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

interface Outage {
  begin(): unknown
  end(): unknown
}

describe('traffic goes on', needsS3Server(), () => {
  let server: S3Server
  let proxy: TcpProxy
  let drill: OutageDrill

  beforeEach(async () => {
    server = await S3Server.start()
    proxy = await TcpProxy.start({ host: '127.0.0.1', port: server.port })
    const options = server.options({ endpoint: `http://127.0.0.1:${proxy.port}` })
    drill = await OutageDrill.start(s3Adapter(options), 4)
  })

  afterEach(async () => {
    proxy.heal()
    server.signal('SIGCONT')
    await drill.stop()
    await proxy.close()
    await server.stop()
  })

  const OUTAGES: Record<string, Outage> = {
    'is stopped': { begin: () => server.end('SIGTERM'), end: () => server.restart() },
    'is killed': { begin: () => server.end('SIGKILL'), end: () => server.restart() },
    'is halted (SIGSTOP)': { begin: () => server.signal('SIGSTOP'), end: () => server.signal('SIGCONT') },
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
