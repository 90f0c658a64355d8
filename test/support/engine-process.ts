import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Addresses, segmentName } from '../../src/app/data-dir.ts'
import { PARTS_MAX } from '../../src/l1/model-parts.ts'
import { partName } from '../../src/native/segment-parts.ts'
import { REPOSITORY } from './source-tree.ts'
import { until } from './until.ts'

const MAIN = 'src/cli/main.ts'
/** For an engine to listen: machines may be busy. */
const START_MS = 110_000
/** No colours, no debugging, and none of the options of whoever runs the tests. */
const ENVIRONMENT = Object.fromEntries(
  Object.entries({ ...process.env, NO_COLOR: '1', DEBUG: '' }).filter(([name]) => !name.startsWith('KVTIER_')),
)

/** What a command printed, and its exit code: null after a kill. */
export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command of the CLI to its end. One that does not end is killed after `deadlineMs`. @param env more variables */
export async function runCommand(
  argv: readonly string[],
  deadlineMs = 30_000,
  env: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  const child = spawn(process.execPath, [MAIN, ...argv], {
    cwd: REPOSITORY,
    env: { ...ENVIRONMENT, ...env },
    timeout: deadlineMs,
    killSignal: 'SIGKILL',
  })
  const printed = collect(child)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout: printed.stdout.join(''), stderr: printed.stderr.join('') }
}

export interface EngineProcessOptions {
  readonly dataDir: string
  /** Relative to the repository. */
  readonly main?: string
  /** Default: 64MiB; '' = what the engine chooses. */
  readonly l1Size?: string
  /** Default: a free one. */
  readonly mpPort?: number
  /** Default: a free one. */
  readonly httpPort?: number
  /** Flags of `serve`, after those for free ports and a small L1. */
  readonly flags?: readonly string[]
  /** Flags of node itself. */
  readonly nodeFlags?: readonly string[]
  /** More variables. */
  readonly env?: Readonly<Record<string, string>>
  /** Where it writes; default: to us. */
  readonly stdio?: StdioOptions
}

/** A running `kvtier serve`, with everything it printed. */
export class EngineProcess {
  readonly addresses: Addresses
  readonly #child: ChildProcess
  readonly #exit: Promise<number | null>
  readonly #printed: Printed

  private constructor(child: ChildProcess, exit: Promise<number | null>, printed: Printed, addresses: Addresses) {
    this.#child = child
    this.#exit = exit
    this.#printed = printed
    this.addresses = addresses
  }

  /** Starts an engine on free ports. Resolves once everything listens; throws what it printed when it gives up. */
  static async start(options: EngineProcessOptions): Promise<EngineProcess> {
    const { dataDir, main = MAIN, l1Size = '64MiB', mpPort = 0, httpPort = 0 } = options
    const { flags = [], nodeFlags = [], env = {}, stdio = 'pipe' } = options
    const ports = ['--http-port', String(httpPort), '--prometheus-port', '0', '--mp-port', String(mpPort)]
    const argv = ['serve', '--data-dir', dataDir, ...ports]
    const size = l1Size === '' ? [] : ['--l1-size', l1Size]
    const child = spawn(process.execPath, [...nodeFlags, main, ...argv, ...size, ...flags], {
      cwd: REPOSITORY,
      env: { ...ENVIRONMENT, ...env },
      stdio,
    })
    const printed = collect(child)
    const exit = once(child, 'close').then(([code]) => code as number | null)
    const gaveUp = new AbortController()
    const ended = exit.then((code) => {
      gaveUp.abort()
      throw new Error(`the engine ended with exit code ${code}:\n${textOf(printed)}`)
    })
    const started = until(
      'the engine listens',
      () => {
        gaveUp.signal.throwIfAborted()
        return readAddresses(dataDir, child.pid)
      },
      START_MS,
    )
    try {
      return new EngineProcess(child, exit, printed, await Promise.race([started, ended]))
    } catch (error) {
      child.kill('SIGKILL')
      throw error
    }
  }

  /** Resolves once it has ended, however. */
  get ended(): Promise<unknown> {
    return this.#exit
  }

  /** Everything it printed. */
  get printed(): string {
    return textOf(this.#printed)
  }

  get stdout(): string {
    return this.#printed.stdout.join('')
  }

  get stderr(): string {
    return this.#printed.stderr.join('')
  }

  /** Of the HTTP API, without a slash at its end. */
  get httpUrl(): string {
    return `http://${this.addresses.http}`
  }

  get metricsUrl(): string {
    return `http://${this.addresses.metrics!.replace('0.0.0.0', '127.0.0.1')}/metrics`
  }

  /** Reads nothing of what it prints any more: to write is an error for it from now on. */
  stopReading(): void {
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
  }

  /** Asks it to stop, or kills it. Idempotent. @returns its exit code, null after a kill. */
  async stop(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL' = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal)
    return await this.#exit
  }
}

/** Removes what engines of a data directory leave in shared memory. Before the directory is removed. */
export function removeSharedMemory(dataDir: string): void {
  const path = join('/dev/shm', segmentName(existsSync(dataDir) ? realpathSync(dataDir) : dataDir))
  const ofModels = Array.from({ length: PARTS_MAX }, (_, part) => partName('', part))
  for (const part of ['', '.index', '.journal', ...ofModels]) {
    for (const link of ['', '.keep']) rmSync(`${path}${part}${link}`, { force: true })
  }
}

/** A data directory for engines of one test, in a folder of its own. `remove` ends them and takes everything away. */
export class EngineHome {
  /** Exists; its name has no meaning. */
  readonly folder = mkdtempSync(join(realpathSync(tmpdir()), 'kvtier-e2e-'))
  /** Made by the first engine. */
  readonly dataDir = join(this.folder, 'data')
  readonly #engines: EngineProcess[] = []

  /** The shared memory of an engine of this home. */
  get segmentPath(): string {
    return join('/dev/shm', segmentName(this.dataDir))
  }

  async start(options: Omit<EngineProcessOptions, 'dataDir'> = {}): Promise<EngineProcess> {
    const engine = await EngineProcess.start({ ...options, dataDir: this.dataDir })
    this.#engines.push(engine)
    return engine
  }

  /** A token of a scope, made by the CLI. */
  async token(scope: 'read' | 'inference' | 'admin'): Promise<string> {
    const argv = ['token', 'create', '--scope', scope, '--data-dir', this.dataDir, '--json']
    const { code, stdout, stderr } = await runCommand(argv)
    if (code !== 0) throw new Error(stderr)
    return (JSON.parse(stdout) as { token: string }).token
  }

  async remove(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.stop('SIGKILL')))
    removeSharedMemory(this.dataDir)
    rmSync(this.folder, { recursive: true, force: true })
  }
}

interface Printed {
  readonly stdout: string[]
  readonly stderr: string[]
  readonly all: string[]
}

function collect(child: ChildProcess): Printed {
  const printed: Printed = { stdout: [], stderr: [], all: [] }
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.setEncoding('utf8').on('data', (text: string) => {
      printed[stream].push(text)
      printed.all.push(text)
    })
  }
  return printed
}

function textOf(printed: Printed): string {
  return printed.all.join('')
}

function readAddresses(dataDir: string, pid: number | undefined): Addresses | undefined {
  const file = join(dataDir, 'addresses.json')
  if (!existsSync(file)) return undefined
  const addresses = JSON.parse(readFileSync(file, 'utf8')) as Addresses
  return addresses.pid === pid ? addresses : undefined
}
