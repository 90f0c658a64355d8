import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Addresses } from '../../src/app/data-dir.ts'
import { REPOSITORY } from './source-tree.ts'
import { until } from './until.ts'

export interface EngineProcessOptions {
  readonly dataDir: string
  /** Relative to the repository. */
  readonly main?: string
  /** Flags of `serve`, after those for free ports and a small L1. */
  readonly flags?: readonly string[]
}

/** A running `kvtier serve`, with everything it printed. */
export class EngineProcess {
  readonly addresses: Addresses
  readonly #child: ChildProcess
  readonly #exit: Promise<number | null>
  readonly #printed: string[]

  private constructor(child: ChildProcess, exit: Promise<number | null>, printed: string[], addresses: Addresses) {
    this.#child = child
    this.#exit = exit
    this.#printed = printed
    this.addresses = addresses
  }

  /** Starts an engine on free ports. Resolves once everything listens; throws what it printed when it gives up. */
  static async start({ dataDir, main = 'src/cli/main.ts', flags = [] }: EngineProcessOptions): Promise<EngineProcess> {
    const argv = ['serve', '--data-dir', dataDir, '--http-port', '0', '--prometheus-port', '0', '--l1-size', '64MiB']
    const child = spawn(process.execPath, [main, ...argv, ...flags], { cwd: REPOSITORY })
    const printed: string[] = []
    child.stdout.setEncoding('utf8').on('data', (text: string) => printed.push(text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => printed.push(text))
    const exit = once(child, 'close').then(([code]) => code as number | null)
    const ended = exit.then((code) => {
      throw new Error(`the engine ended with exit code ${code}:\n${printed.join('')}`)
    })
    const started = until('the engine listens', () => readAddresses(dataDir, child.pid))
    try {
      return new EngineProcess(child, exit, printed, await Promise.race([started, ended]))
    } catch (error) {
      child.kill('SIGKILL')
      throw error
    }
  }

  get printed(): string {
    return this.#printed.join('')
  }

  /** Asks it to stop, or kills it. @returns its exit code, null after a kill. */
  async stop(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL' = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal)
    return await this.#exit
  }
}

function readAddresses(dataDir: string, pid: number | undefined): Addresses | undefined {
  const file = join(dataDir, 'addresses.json')
  if (!existsSync(file)) return undefined
  const addresses = JSON.parse(readFileSync(file, 'utf8')) as Addresses
  return addresses.pid === pid ? addresses : undefined
}
