import { afterEach, beforeEach, describe } from 'vitest'
import { OutageDrill } from '../support/outage-drill.ts'
import { outageTests } from '../support/outage-tests.ts'
import { needsS3Server, S3Server, s3Adapter } from '../support/s3-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

describe('an s3 adapter', needsS3Server(), () => {
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

  outageTests({
    who: 'the server',
    scene: () => ({ drill, proxy }),
    outages: {
      'is stopped': { begin: () => server.end('SIGTERM'), end: () => server.restart() },
      'is killed': { begin: () => server.end('SIGKILL'), end: () => server.restart() },
      'is halted (SIGSTOP)': { begin: () => server.signal('SIGSTOP'), end: () => server.signal('SIGCONT') },
    },
    cuts: ['toClient', 'toServer'],
  })
})
