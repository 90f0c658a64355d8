import { afterAll, beforeAll } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { REDIS_DEFAULT, type RedisAdapterOptions } from '../../src/l2/adapters/redis/options.ts'
import { RedisAdapter } from '../../src/l2/adapters/redis/redis-adapter.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { SPACE } from '../support/l2-objects.ts'
import {
  hasProgram,
  makeCertificates,
  needsRedis,
  RedisServer,
  startRedisCluster,
  type TestCertificates,
} from '../support/redis-server.ts'
import { l2AdapterContract, remote, type Subject } from './l2-adapter-contract.ts'

const PASSWORD = 'correct horse'
/** Just what the README asks for. */
const COMMANDS = 'ping get set exists unlink rename pexpire getrange object scan select'.split(' ')
const RIGHTS = ['~kvtier-*', '-@all', ...COMMANDS.map((name) => `+${name}`)]
const ACL_USER = ['--user', 'kvtier', 'on', `>${PASSWORD}`, ...RIGHTS, '--user', 'default', 'off']

/** The servers of this file, each in use by one subject at a time. */
const servers: Record<string, RedisServer[]> = {}
let certificates: TestCertificates | undefined
let made = 0

beforeAll(async () => {
  if (needsRedis().skip) return
  certificates = makeCertificates()
  servers.single = [await RedisServer.start()]
  servers.user = [await RedisServer.start({ args: ACL_USER })]
  servers.tls = [await RedisServer.start({ tls: certificates })]
  servers.cluster = await startRedisCluster()
  if (hasProgram('valkey-server')) servers.valkey = [await RedisServer.start({ program: 'valkey-server' })]
}, 60_000)

afterAll(async () => {
  await Promise.all(
    Object.values(servers)
      .flat()
      .map((server) => server.dispose()),
  )
  certificates?.remove()
})

/** Adapters with a prefix of their own on the servers of one name. */
function redis(name: string, options: () => Partial<RedisAdapterOptions> = () => ({})): Subject {
  return {
    objectBytes: HEADER_BYTES + SPACE.shardBytes,
    make: (capacityBytes) => {
      made += 1
      const { url } = servers[name]![0]!
      const own = { url, prefix: `kvtier-${made}:`, capacityBytes, ...options() }
      const adapter = new RedisAdapter({ ...REDIS_DEFAULT, ...own }, { clock: new SystemClock(), random: () => 0.5 })
      return { adapter, dispose: () => undefined }
    },
  }
}

const single = redis('single')
const arena = new Uint8Array(new SharedArrayBuffer(1 << 20), 512)
const needsServer = needsRedis()

l2AdapterContract('redis', single, needsServer)
l2AdapterContract('remote redis, from the arena,', remote(single, { ...REDIS_DEFAULT, url: '' }, arena), needsServer)
l2AdapterContract(
  'redis, one byte at a time in flight,',
  redis('single', () => ({ pipelineBytes: 1, connections: 1 })),
  needsServer,
)
l2AdapterContract(
  'redis with an ACL user, in another database,',
  redis('user', () => ({ url: `${servers.user![0]!.url}/1`, username: 'kvtier', password: PASSWORD })),
  needsServer,
)
l2AdapterContract(
  'redis over TLS',
  redis('tls', () => ({ url: `rediss://${servers.tls![0]!.address}`, tlsCaFile: certificates!.ca })),
  needsServer,
)
l2AdapterContract(
  'redis Cluster',
  redis('cluster', () => ({ isCluster: true })),
  needsServer,
)
l2AdapterContract('valkey', redis('valkey'), needsRedis('valkey-server'))
