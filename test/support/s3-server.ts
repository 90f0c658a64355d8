import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import type { LookupFunction } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, SystemClock } from '../../src/core/clock.ts'
import { S3_DEFAULT, type S3AdapterOptions } from '../../src/l2/adapters/s3/options.ts'
import { S3Adapter } from '../../src/l2/adapters/s3.ts'
import { acceptsAt, freePort } from './free-port.ts'
import type { TestCertificates } from './redis-server.ts'
import { skipUnless } from './skip-unless.ts'
import { until } from './until.ts'

/** As in `install-s3-server.sh`. */
const VERSION = 'v1.8.0'
const PROGRAM = join(
  process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
  'kvtier',
  `versitygw-${VERSION}`,
  'versitygw',
)

export const BUCKET = 'chunks'
const REGION = 'eu-test-1'
const ACCESS_KEY = 'kvtier-test'
const SECRET_KEY = 'kvtier/test+secret'
/** Buckets are names below it: they resolve to this machine by `loopbackLookup` alone. */
const DOMAIN = 's3.kvtier.test'

/**
 * Options of a `describe` or `it` that needs the server: skipped and said so where it is not built. In CI (environment
 * variable CI=true) it must be, and the tests fail instead.
 */
export function needsS3Server() {
  const isWanted = process.env.CI === 'true' || existsSync(PROGRAM)
  return skipUnless(isWanted, 'the S3 server is missing: run test/support/install-s3-server.sh')
}

/** An adapter that is not open yet. Names of hosts are this machine. */
export function s3Adapter(options: S3AdapterOptions, clock: Clock = new SystemClock()): S3Adapter {
  return new S3Adapter(options, { clock, random: () => 0.5, lookup: loopbackLookup })
}

/** A versitygw of its own on a free port of this machine: objects are files of a temporary directory. */
export class S3Server {
  readonly port: number
  readonly #directory: string
  readonly #tls: TestCertificates | undefined
  #child: ChildProcess | undefined

  private constructor(port: number, directory: string, tls: TestCertificates | undefined) {
    this.port = port
    this.#directory = directory
    this.#tls = tls
  }

  /** @param tls serves https alone. */
  static async start(tls?: TestCertificates): Promise<S3Server> {
    const directory = mkdtempSync(join(tmpdir(), 'kvtier-s3-'))
    mkdirSync(join(directory, 'data', BUCKET), { recursive: true })
    const server = new S3Server(await freePort(), directory, tls)
    await server.restart()
    return server
  }

  /** Folder of the files that are the objects of the bucket. */
  get files(): string {
    return join(this.#directory, 'data', BUCKET)
  }

  get endpoint(): string {
    return `http${this.#tls === undefined ? '' : 's'}://127.0.0.1:${this.port}`
  }

  /** Options of an adapter on this server. */
  options(changes: Partial<S3AdapterOptions> = {}): S3AdapterOptions {
    return {
      ...S3_DEFAULT,
      endpoint: this.endpoint,
      bucket: BUCKET,
      region: REGION,
      accessKey: ACCESS_KEY,
      secretKey: SECRET_KEY,
      ...changes,
    }
  }

  /** Options of an adapter that names the bucket in the host name. Needs `loopbackLookup`. */
  virtualHost(changes: Partial<S3AdapterOptions> = {}): S3AdapterOptions {
    return this.options({ endpoint: `http://${DOMAIN}:${this.port}`, addressing: 'virtual-host', ...changes })
  }

  /** Starts the server again on its port and its files. */
  async restart(): Promise<void> {
    const flags = [
      '--port',
      `127.0.0.1:${this.port}`,
      '--region',
      REGION,
      '--access',
      ACCESS_KEY,
      '--secret',
      SECRET_KEY,
    ]
    const serving = ['--keep-alive', '--quiet', '--virtual-domain', DOMAIN]
    const tls = this.#tls === undefined ? [] : ['--cert', this.#tls.cert, '--key', this.#tls.key]
    const child = spawn(PROGRAM, [...flags, ...serving, ...tls, 'posix', join(this.#directory, 'data')], {
      stdio: 'ignore',
    })
    this.#child = child
    await until('the S3 server', async () => {
      if (child.exitCode !== null) throw new Error(`the S3 server ended with ${child.exitCode}`)
      return (await acceptsAt(this.port)) ? true : undefined
    })
  }

  /** SIGTERM, SIGKILL, or SIGSTOP and SIGCONT. */
  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name)
  }

  /** Ends the process; its files stay. */
  async end(name: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(name)
    await exited
  }

  /** Ends the process and removes its files. */
  async stop(): Promise<void> {
    await this.end('SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** Resolves every name to this machine. */
export const loopbackLookup: LookupFunction = (_name, options, done) => {
  if (options.all) done(null, [{ address: '127.0.0.1', family: 4 }])
  else done(null, '127.0.0.1', 4)
}
