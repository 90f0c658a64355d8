import type { Clock, Timer } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import type { TokenizerOptions } from './options.ts'

/** A process as the pool sees it. */
export interface TokenizerProcess {
  call(method: string, args: unknown[]): Promise<unknown>
  /** Ends the process, whatever it does. Calls in flight reject. */
  end(): void
}

export interface TokenizerPoolParts {
  readonly options: Pick<TokenizerOptions, 'processes' | 'queueMax' | 'deadlineMs'>
  readonly clock: Clock
  /** Starts a process. @param onEnd told when it ends by itself. */
  readonly start: (onEnd: () => void) => TokenizerProcess
}

/** Requests that a process has at a time: while one is encoded, the answer of another is written. */
const IN_FLIGHT_MAX = 4

interface Job {
  readonly method: string
  readonly args: unknown[]
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** Times that a process ended under it. */
  losses: number
  timer: Timer | null
}

/** A process, or room for one, and what it has to do. */
interface Lane {
  process: TokenizerProcess | null
  /** Oldest first. */
  readonly jobs: Job[]
}

/**
 * Processes that tokenize, started as they are needed, with one bounded queue. Work goes to the one with the least to do,
 * of those to the first, so that few tokenizers are loaded twice.
 *
 *   waiting --(too long)--> TOKENIZER_BUSY
 *   waiting --> on a process --> answered
 *                  |--(its time is up: the process is killed)--> TOKENIZER_TIMEOUT
 *                  '--(its process ended under it)--> waiting again, once; then TOKENIZER_BROKEN
 */
export class TokenizerPool {
  readonly #parts: TokenizerPoolParts
  readonly #lanes: readonly Lane[]
  readonly #waiting: Job[] = []
  #isClosed = false

  constructor(parts: TokenizerPoolParts) {
    this.#parts = parts
    this.#lanes = Array.from({ length: parts.options.processes }, () => ({ process: null, jobs: [] }))
  }

  /** Requests that wait for a process. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** @throws CacheError TOKENIZER_BUSY, TOKENIZER_TIMEOUT, TOKENIZER_BROKEN, SHUTTING_DOWN, and what the host throws */
  run(method: string, args: unknown[]): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(closed())
    const { queueMax } = this.#parts.options
    if (this.#waiting.length >= queueMax) {
      return Promise.reject(new CacheError('TOKENIZER_BUSY', `${queueMax} texts wait to be tokenized; try again later`))
    }
    return new Promise((resolve, reject) => {
      const job: Job = { method, args, resolve, reject, losses: 0, timer: null }
      this.#waiting.push(job)
      this.#limitWait(job)
      this.#dispatch()
    })
  }

  close(): void {
    this.#isClosed = true
    const jobs = [...this.#lanes.flatMap((lane) => lane.jobs.splice(0)), ...this.#waiting.splice(0)]
    for (const lane of this.#lanes) this.#endProcess(lane)
    for (const job of jobs) this.#settle(job, () => job.reject(closed()))
  }

  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const lane = this.#freest()
      if (lane === null) return
      this.#give(lane, this.#waiting.shift()!)
    }
  }

  /** The process with the least to do; of those, the first. */
  #freest(): Lane | null {
    let best: Lane | null = null
    for (const lane of this.#lanes) {
      if (lane.jobs.length < IN_FLIGHT_MAX && lane.jobs.length < (best?.jobs.length ?? IN_FLIGHT_MAX)) best = lane
    }
    return best
  }

  #give(lane: Lane, job: Job): void {
    lane.process ??= this.#startProcess(lane)
    const { process } = lane
    lane.jobs.push(job)
    job.timer?.cancel()
    job.timer = this.#parts.clock.schedule(this.#parts.options.deadlineMs, () => this.#timeOut(lane, job))
    const isCurrent = () => lane.process === process && lane.jobs.includes(job)
    const done = (settle: () => void) => {
      if (!isCurrent()) return
      lane.jobs.splice(lane.jobs.indexOf(job), 1)
      this.#settle(job, settle)
      this.#dispatch()
    }
    process.call(job.method, job.args).then(
      (value) => done(() => job.resolve(value)),
      (error) => done(() => job.reject(error)),
    )
  }

  /** A request waits no longer than it may take: its client gets an answer before it gives up. */
  #limitWait(job: Job): void {
    const { deadlineMs } = this.#parts.options
    job.timer?.cancel()
    job.timer = this.#parts.clock.schedule(deadlineMs, () => {
      const at = this.#waiting.indexOf(job)
      if (at < 0) return
      this.#waiting.splice(at, 1)
      const message = `the text waited longer than the ${deadlineMs} ms of --tokenizer-timeout; try again later`
      job.reject(new CacheError('TOKENIZER_BUSY', message))
    })
  }

  #startProcess(lane: Lane): TokenizerProcess {
    const process = this.#parts.start(() => {
      if (lane.process === process) this.#lose(lane, null)
    })
    return process
  }

  #timeOut(lane: Lane, job: Job): void {
    const { deadlineMs } = this.#parts.options
    const message = `the text took longer than the ${deadlineMs} ms of --tokenizer-timeout`
    this.#lose(lane, { job, error: new CacheError('TOKENIZER_TIMEOUT', message) })
  }

  /** The process is gone, or has to go. @param culprit the request at fault; null = the oldest one on it. */
  #lose(lane: Lane, culprit: { readonly job: Job; readonly error: CacheError } | null): void {
    const jobs = lane.jobs.splice(0)
    const spared: Job[] = []
    this.#endProcess(lane)
    for (const [at, job] of jobs.entries()) {
      job.losses += 1
      const error = culprit?.job === job ? culprit.error : at === 0 && culprit === null ? lost() : undefined
      if (error !== undefined || job.losses > 1) this.#settle(job, () => job.reject(error ?? lost()))
      else {
        spared.push(job)
        this.#limitWait(job)
      }
    }
    this.#waiting.unshift(...spared) // they have waited longest, and go on in their order
    this.#dispatch()
  }

  #endProcess(lane: Lane): void {
    const { process } = lane
    lane.process = null
    process?.end()
  }

  #settle(job: Job, settle: () => void): void {
    job.timer?.cancel()
    settle()
  }
}

function lost(): CacheError {
  return new CacheError('TOKENIZER_BROKEN', 'the process ended under the request: it may want too much memory')
}

function closed(): CacheError {
  return new CacheError('SHUTTING_DOWN', 'the engine is stopping; try again later')
}
