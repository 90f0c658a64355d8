import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { acceptsAt, freePort } from './free-port.ts'
import { skipUnless } from './skip-unless.ts'
import { until } from './until.ts'

/** Servers that speak RESP, by the name of their program. */
export type RedisProgram = 'redis-server' | 'valkey-server'

export function hasProgram(program: string): boolean {
  return spawnSync(program, ['--version']).status === 0
}

/**
 * Options of a `describe` or `it` that needs a real server: skipped and said so where there is none. In CI (environment
 * variable CI=true) redis-server must be there, and the tests fail instead.
 */
export function needsRedis(program: RedisProgram = 'redis-server') {
  const isWanted = process.env.CI === 'true' && program === 'redis-server'
  return skipUnless(isWanted || hasProgram(program), `${program} is missing: apt-get install ${program}`)
}

export interface RedisServerOptions {
  readonly program?: RedisProgram
  /** More arguments, such as `--maxmemory 10mb`. */
  readonly args?: readonly string[]
  /** Serves TLS only. */
  readonly tls?: TestCertificates
}

/** A real server on a free port of 127.0.0.1, in a directory of its own, that keeps nothing on disk. */
export class RedisServer {
  readonly port: number
  readonly program: RedisProgram
  readonly #args: readonly string[]
  readonly #directory: string
  #child: ChildProcess | undefined
  #exited: Promise<unknown> = Promise.resolve()

  private constructor(port: number, { program = 'redis-server', args = [], tls }: RedisServerOptions) {
    this.port = port
    this.program = program
    this.#directory = mkdtempSync(join(tmpdir(), 'kvtier-redis-'))
    const ports =
      tls === undefined
        ? ['--port', `${port}`]
        : ['--port', '0', '--tls-port', `${port}`, '--tls-auth-clients', 'no'].concat([
            '--tls-cert-file',
            tls.cert,
            '--tls-key-file',
            tls.key,
            '--tls-ca-cert-file',
            tls.ca,
          ])
    const base = ['--bind', '127.0.0.1', '--dir', this.#directory, '--save', '', '--appendonly', 'no']
    this.#args = [...ports, ...base, '--loglevel', 'warning', ...args]
  }

  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), options)
    await server.restart()
    return server
  }

  get address(): string {
    return `127.0.0.1:${this.port}`
  }

  get url(): string {
    return `redis://${this.address}`
  }

  /** Starts a server that was stopped or killed, on the same port. Its objects are gone. */
  async restart(): Promise<void> {
    const child = spawn(this.program, this.#args, { stdio: 'ignore' })
    this.#child = child
    const end = () => child.kill('SIGKILL')
    process.once('exit', end)
    this.#exited = once(child, 'exit')
      .catch(() => undefined)
      .finally(() => process.off('exit', end))
    let failure: unknown
    child.on('error', (error) => {
      failure = error
    })
    await until(`${this.program} listens`, async () => {
      if (failure !== undefined || child.exitCode !== null)
        throw new Error(`${this.program} did not start`, { cause: failure })
      return (await acceptsAt(this.port)) ? true : undefined
    })
  }

  /** Stops the server as an operator would. */
  async stop(): Promise<void> {
    this.#child?.kill('SIGTERM')
    await this.#exited
  }

  /** kill -9 */
  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#exited
  }

  /** SIGSTOP: the system still accepts connections, nobody answers. */
  hang(): void {
    this.#child?.kill('SIGSTOP')
  }

  resume(): void {
    this.#child?.kill('SIGCONT')
  }

  /** What redis-cli answers, trimmed. For servers without TLS. */
  cli(...words: string[]): string {
    const { stdout } = spawnSync(cliOf(this.program), ['-p', `${this.port}`, ...words], { encoding: 'utf8' })
    return stdout.trim()
  }

  /** Ends the server, whatever its state, and removes its directory. */
  async dispose(): Promise<void> {
    await this.kill()
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** A Cluster of three masters. */
export async function startRedisCluster(options: RedisServerOptions = {}): Promise<RedisServer[]> {
  const cluster = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000']
  const args = [...cluster, ...(options.args ?? [])]
  const servers = await Promise.all([0, 1, 2].map(() => RedisServer.start({ ...options, args })))
  const create = ['--cluster', 'create', ...servers.map(({ address }) => address), '--cluster-replicas', '0']
  spawnSync(cliOf(servers[0]!.program), [...create, '--cluster-yes'])
  await until('the cluster is whole', () =>
    servers.every((server) => server.cli('cluster', 'info').includes('cluster_state:ok')) ? true : undefined,
  )
  return servers
}

/** PEM files of an authority and of a certificate that it gave to 127.0.0.1 and localhost. */
export interface TestCertificates {
  readonly ca: string
  readonly cert: string
  readonly key: string
  readonly remove: () => void
}

export function makeCertificates(): TestCertificates {
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-tls-'))
  const at = (name: string) => join(folder, name)
  const openssl = (...words: string[]) => {
    const { status, stderr } = spawnSync('openssl', words, { encoding: 'utf8' })
    if (status !== 0) throw new Error(`openssl ${words[0]}: ${stderr}`)
  }
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  writeFileSync(at('names'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n')
  openssl('req', '-x509', ...ec, '-keyout', at('ca.key'), '-out', at('ca.pem'), '-subj', '/CN=test authority')
  openssl('req', ...ec, '-keyout', at('key.pem'), '-out', at('request'), '-subj', '/CN=localhost')
  const sign = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-extfile', at('names')]
  openssl('x509', '-req', '-in', at('request'), ...sign, '-out', at('cert.pem'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  return { ca: at('ca.pem'), cert: at('cert.pem'), key: at('key.pem'), remove }
}

function cliOf(program: RedisProgram): string {
  return program.replace('-server', '-cli')
}
