import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { pythonEnvironment } from '../../test/compat/python-environment.ts'
import { freePort } from '../../test/support/free-port.ts'
import { MpPeer, opFrame, withinTime } from './mp-peer.ts'

const START_MS = 120_000
const TRY_MS = 500
const MAIN = 'import sys; from lmcache.cli.main import main; sys.exit(main())'

/**
 * The original server of the MP wire, `lmcache server` as its documentation starts it: engine-driven transfers through
 * shared memory, LRU, its metrics on. Without a GPU it takes its own CPU device. The version is the one that
 * `test/compat` pins; its packages, about 6 GB, go into the user's cache folder once.
 */
export class OriginalServer {
  readonly address: string
  readonly #child: ChildProcess
  readonly #segment: string
  readonly #exit: Promise<unknown>

  private constructor(child: ChildProcess, address: string, segment: string) {
    this.#child = child
    this.address = address
    this.#segment = segment
    this.#exit = once(child, 'close')
  }

  /** @param l1Gib memory of its L1. @throws Error when it cannot be installed or does not start: what it printed. */
  static async start(l1Gib: number): Promise<OriginalServer> {
    const environment = pythonEnvironment('requirements-real.txt')
    if ('missing' in environment) throw new Error(environment.missing)
    const [port, httpPort, metricsPort] = [await freePort(), await freePort(), await freePort()]
    const segment = `kvtier-bench-original-${process.pid}`
    const flags = {
      '--host': '127.0.0.1',
      '--port': port,
      '--http-port': httpPort,
      '--prometheus-port': metricsPort,
      '--l1-size-gb': l1Gib,
      '--eviction-policy': 'LRU',
      '--supported-transfer-mode': 'engine_driven',
      '--shm-name': segment,
    }
    const argv = ['-W', 'ignore', '-c', MAIN, 'server', '--no-l1-use-lazy']
    argv.push(...Object.entries(flags).flatMap(([name, value]) => [name, String(value)]))
    const child = spawn(environment.python, argv, {
      cwd: tmpdir(),
      env: { ...process.env, LMCACHE_TRACK_USAGE: 'false', LMCACHE_LOG_LEVEL: 'WARNING' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const printed: string[] = []
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => printed.push(text))
    }
    const server = new OriginalServer(child, `127.0.0.1:${port}`, segment)
    try {
      await server.#answers()
    } catch (error) {
      await server.stop()
      throw new Error(`the original server did not start:\n${printed.join('').slice(-4000)}`, { cause: error })
    }
    return server
  }

  get pid(): number {
    return this.#child.pid!
  }

  /** Ends it and takes its memory away. */
  async stop(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exit
    for (const name of [this.#segment, `lmcache_l1_pool_${this.#segment}`])
      rmSync(join('/dev/shm', name), { force: true })
  }

  /** Resolves once it answers a ping. */
  async #answers(): Promise<void> {
    const peer = new MpPeer(this.address)
    const until = performance.now() + START_MS
    try {
      for (;;) {
        if (this.#child.exitCode !== null) throw new Error(`exit code ${this.#child.exitCode}`)
        const answer = withinTime(peer.ask(opFrame('ping'), [encodePayload.nil()]), 'a ping', TRY_MS)
        const isThere = await answer.then(
          () => true,
          () => false,
        )
        if (isThere) return
        if (performance.now() > until) throw new Error('no answer in time')
      }
    } finally {
      peer.close()
    }
  }
}
