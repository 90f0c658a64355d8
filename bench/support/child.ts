import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A program of this folder in a process of its own. Its standard input ends when this process does: it ends then too. */
export class Child {
  readonly #process: ChildProcess
  readonly #end: Promise<unknown>
  #printed = ''

  constructor(file: string, argv: readonly string[] = []) {
    this.#process = spawn(process.execPath, [join(import.meta.dirname, file), ...argv], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#end = once(this.#process, 'close')
    this.#process.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.#printed += text
    })
  }

  get pid(): number {
    return this.#process.pid!
  }

  /** Its first line. */
  async line(): Promise<string> {
    while (!this.#printed.includes('\n')) {
      if (this.#process.exitCode !== null) throw new Error('a program of the bench ended early')
      await Promise.race([once(this.#process.stdout!, 'data'), this.#end])
    }
    return this.#printed.slice(0, this.#printed.indexOf('\n'))
  }

  /** Asks it to end. @returns everything it printed. */
  async stop(): Promise<string> {
    this.#process.kill('SIGTERM')
    await this.#end
    return this.#printed
  }
}

/** CPU time of all threads of a process until now, in milliseconds; NaN where the system does not tell. */
export function cpuMsOf(pid: number): number {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`)
    const ns = tasks.map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]))
    return ns.reduce((sum, one) => sum + one, 0) / 1e6
  } catch {
    return Number.NaN
  }
}
