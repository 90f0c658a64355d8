import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { REPOSITORY } from './source-tree.ts'

const FOLDER = join(REPOSITORY, 'test/gpu/peer')
const ENVIRONMENT = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' }

/** Why Python is not there; null when it is. */
export function missingPython(): string | null {
  const asked = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))'])
  if (asked.error !== undefined) return 'python3 is missing'
  return asked.status === 0 ? null : 'python3 is older than 3.10'
}

/** Runs a program of `test/gpu/peer` to its end. @returns its lines of JSON. @throws Error when it fails */
export async function runPeer(
  program: string,
  argv: readonly string[],
  python = 'python3',
  env: Record<string, string> = {},
): Promise<Record<string, unknown>[]> {
  const options = { env: { ...ENVIRONMENT, ...env } }
  const { stdout } = await promisify(execFile)(python, [join(FOLDER, program), ...argv], options)
  const lines = stdout.trim().split('\n')
  return lines.map((line) => JSON.parse(line))
}

/** `hold.py`: an inference process in managed mode that does as it is told. */
export class HoldingPeer {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  private constructor(child: ChildProcess) {
    this.#child = child
    this.pid = child.pid!
    this.#lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
  }

  static async start(argv: readonly string[]): Promise<HoldingPeer> {
    const child = spawn('python3', [join(FOLDER, 'hold.py'), ...argv], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: ENVIRONMENT,
    })
    const peer = new HoldingPeer(child)
    await peer.#next()
    return peer
  }

  async ask(line: string): Promise<Record<string, unknown>> {
    this.#child.stdin!.write(`${line}\n`)
    return this.#next()
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(name)
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  async #next(): Promise<Record<string, unknown>> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('the peer ended')
    return JSON.parse(value) as Record<string, unknown>
  }
}
