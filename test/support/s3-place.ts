import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { type Clock, SystemClock } from '../../src/core/clock.ts'
import type { S3AdapterOptions } from '../../src/l2/adapters/s3/options.ts'
import type { S3Adapter } from '../../src/l2/adapters/s3.ts'
import { needsS3Server, S3Server, s3Adapter } from './s3-server.ts'
import { S3Weather } from './s3-weather.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** A server for the tests of a file, a prefix for each test, and adapters and proxies, closed afterwards. */
export function useS3Place() {
  let server: S3Server
  let made = 0
  let ends: (() => Promise<void>)[] = []

  beforeAll(async () => {
    if (!needsS3Server().skip) server = await S3Server.start()
  })
  afterAll(() => server?.stop())
  beforeEach(() => {
    made += 1
    ends = []
  })
  afterEach(async () => {
    for (const end of ends.reverse()) await end()
  })

  return {
    /** From the first test on. */
    get server(): S3Server {
      return server
    },

    /** Below which the adapters of this test keep everything. */
    get prefix(): string {
      return `test-${made}/`
    },

    /** What to do after the test; what was named last is done first. */
    atEnd(end: () => Promise<void>): void {
      ends.push(end)
    },

    async opened(changes: Partial<S3AdapterOptions> = {}, clock: Clock = new SystemClock()): Promise<S3Adapter> {
      const adapter = s3Adapter(server.options({ prefix: this.prefix, relistMs: 0, ...changes }), clock)
      await adapter.open()
      ends.push(() => adapter.close())
      return adapter
    },

    async weather(): Promise<S3Weather> {
      const proxy = await S3Weather.start(server.port)
      ends.push(() => proxy.close())
      return proxy
    },

    async network(): Promise<TcpProxy> {
      const proxy = await TcpProxy.start({ host: '127.0.0.1', port: server.port })
      ends.push(() => proxy.close())
      return proxy
    },

    /** Paths of the files of a kind below the prefix: `objects`, `quarantine`. */
    files(kind: string): string[] {
      return readdirSync(join(server.files, this.prefix), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.parentPath.includes(`/${kind}/`))
        .map((entry) => join(entry.parentPath, entry.name))
    },
  }
}
