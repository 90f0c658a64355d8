import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { PEER_DEFAULT } from '../../src/l2/adapters/peer/options.ts'
import { PeerAdapter } from '../../src/l2/adapters/peer/peer-adapter.ts'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { HttpClient, shardOf } from '../support/http-client.ts'
import { DRILL_MODEL, drillChains, OutageDrill } from '../support/outage-drill.ts'
import { outageTests } from '../support/outage-tests.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

let home: EngineHome
let peer: EngineProcess
let proxy: TcpProxy
let drill: OutageDrill

beforeAll(async () => {
  home = new EngineHome()
  peer = await home.start({ flags: ['--l2', 'none'] })
  const client = new HttpClient(peer)
  const { model, shardBytes, ranks, layout } = DRILL_MODEL
  await client.must('POST', '/v1/models', { model, chunk_bytes: shardBytes, ranks, layout })
  for (const chain of drillChains()) {
    for (let index = 0; index < chain.count; index += 1) {
      const parent = index === 0 ? 'root' : chain.hex(index - 1)
      const put = await client.put(chain.hex(index), { model, parent }, shardOf(chain.hex(index), shardBytes))
      expect(put.status).toBeLessThan(300)
    }
  }
})

beforeEach(async () => {
  const { hostname, port } = new URL(peer.httpUrl)
  proxy = await TcpProxy.start({ host: hostname, port: Number(port) })
  const options = { ...PEER_DEFAULT, urls: [`http://127.0.0.1:${proxy.port}`], answerMs: 200 }
  const parts = { resolve: async () => [], ownAddresses: new Set<string>(), readFile: async () => '' }
  drill = await OutageDrill.start(new PeerAdapter(options, { clock: new SystemClock(), ...parts }), 5)
})

afterEach(async () => {
  proxy.heal()
  process.kill(peer.addresses.pid, 'SIGCONT')
  await drill.stop()
  await proxy.close()
})

afterAll(() => home.remove())

outageTests({
  who: 'a peer',
  scene: () => ({ drill, proxy }),
  outages: {
    'is halted (SIGSTOP)': {
      begin: () => process.kill(peer.addresses.pid, 'SIGSTOP'),
      end: () => process.kill(peer.addresses.pid, 'SIGCONT'),
    },
  },
  cuts: ['toClient'],
})
