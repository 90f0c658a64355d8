import { randomInt } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import type { Clock } from '../core/clock.ts'
import { type AdapterFactories, makeAdapter } from '../l2/adapter-host.ts'
import { FaultAdapter } from '../l2/adapters/fault/fault-adapter.ts'
import { seededFaults } from '../l2/adapters/fault/seeded-faults.ts'
import { FilesystemAdapter } from '../l2/adapters/filesystem.ts'
import { MemoryAdapter } from '../l2/adapters/memory.ts'
import { lockFile } from '../native/file-lock.ts'

const random = () => randomInt(2 ** 32) / 2 ** 32
const readText = (path: string) => readFile(path, 'utf8')

// By the system's resolver: unlike plain DNS it knows the hosts file, and a cluster's search domains.
const addressesOf = async (name: string) => (await lookup(name, { all: true })).map(({ address }) => address)

function ownAddresses(): ReadonlySet<string> {
  return new Set(Object.values(networkInterfaces()).flatMap((some) => some?.map(({ address }) => address) ?? []))
}

/** How an io worker makes each type of adapter. Client libraries of storage servers are loaded by their first use. */
export function adapterFactories(clock: Clock): AdapterFactories {
  const factories: AdapterFactories = {
    memory: (options) => new MemoryAdapter(options),
    filesystem: (options) => new FilesystemAdapter(options, { clock, lock: lockFile }),
    redis: async (options) => {
      const { RedisAdapter } = await import('../l2/adapters/redis/redis-adapter.ts')
      return new RedisAdapter(options, { clock, random })
    },
    s3: async (options) => {
      const { S3Adapter } = await import('../l2/adapters/s3.ts')
      return new S3Adapter(options, { clock, random })
    },
    peer: async (options) => {
      const { PeerAdapter } = await import('../l2/adapters/peer/peer-adapter.ts')
      return new PeerAdapter(options, { clock, resolve: addressesOf, ownAddresses: ownAddresses(), readFile: readText })
    },
    fault: async (options) => {
      const inner = await makeAdapter(factories, options.inner)
      return new FaultAdapter(inner, { clock, nextFault: seededFaults(options) })
    },
  }
  return factories
}
