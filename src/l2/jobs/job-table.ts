import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import type { AdapterSet, Attached } from '../adapter-set.ts'
import { evacuateJob } from './evacuate-job.ts'
import { JOB_RATE_BYTES, type JobContext, type JobKind, type JobReport, type JobRequest, noCounts } from './job.ts'
import { Cancelled } from './object-walk.ts'
import { statsJob } from './stats-job.ts'
import { verifyJob } from './verify-job.ts'

export interface JobTableParts {
  readonly clock: Clock
  readonly adapters: AdapterSet
  /** Told how each job ended. */
  readonly onEnd?: (report: JobReport) => void
}

/** Jobs that have ended and are still shown. */
const ENDED_MAX = 64

const WORK: Readonly<Record<JobKind, (context: JobContext) => Promise<void>>> = {
  verify: verifyJob,
  stats: statsJob,
  evacuate: evacuateJob,
}

interface Job {
  readonly id: string
  readonly request: JobRequest
  readonly context: JobContext
  readonly abort: AbortController
  readonly startedMs: number
  readonly objectsTotal: number
  readonly bytesTotal: number
  state: JobReport['state']
  endedMs: number
  error: string
  readonly ended: Promise<void>
  settle(): void
}

/**
 * Work on all objects of an adapter, in the background: verification, counting, evacuation. One job of a kind on an
 * adapter at a time; the adapter's own thread does the reading.
 *
 *   start -> RUNNING -> DONE | CANCELLED | FAILED
 */
export class JobTable {
  readonly #parts: JobTableParts
  /** By id, oldest first. */
  readonly #jobs = new Map<string, Job>()
  #ids = 0

  constructor(parts: JobTableParts) {
    this.#parts = parts
  }

  /** @throws CacheError NOT_FOUND, BAD_REQUEST, L2_DRAINING, L2_BUSY */
  start(request: JobRequest): JobReport {
    this.check(request)
    const { clock, adapters } = this.#parts
    const source = adapters.roster.known(request.adapter)
    const target = request.target === undefined ? undefined : adapters.roster.known(request.target)
    this.#ids += 1
    const { objects, bytes } = source.adapter.usage()
    const { promise, resolve } = Promise.withResolvers<void>()
    const abort = new AbortController()
    const job: Job = {
      id: `job-${this.#ids}`,
      request,
      abort,
      startedMs: clock.nowMs(),
      objectsTotal: objects,
      bytesTotal: bytes,
      state: 'running',
      endedMs: 0,
      error: '',
      ended: promise,
      settle: resolve,
      context: {
        clock,
        adapters,
        source,
        target,
        signal: abort.signal,
        rateBytes: request.rateBytes ?? JOB_RATE_BYTES[request.kind],
        counts: noCounts(),
        corrupt: [],
        spaces: new Map(),
      },
    }
    this.#jobs.set(job.id, job)
    this.#forgetOld()
    void this.#run(job)
    return this.#reportOf(job)
  }

  /** Whether a job could start. @throws CacheError as `start` */
  check({ kind, adapter, target }: JobRequest): void {
    const { roster } = this.#parts.adapters
    const source = roster.known(adapter)
    if (source.isGone) throw new CacheError('L2_DRAINING', `the adapter ${adapter} has failed: remove it`)
    if (kind === 'evacuate') this.#checkTarget(adapter, target)
    else if (target !== undefined) throw badTarget(`a ${kind} job has no target`)
    const running = this.runningOn(source, kind)
    if (running === undefined) return
    throw new CacheError('L2_BUSY', `${running.id} (${kind}) runs on the adapter ${adapter}`, { field: 'kind' })
  }

  /** Oldest first. */
  list(): JobReport[] {
    return Array.from(this.#jobs.values(), (job) => this.#reportOf(job))
  }

  find(id: string): JobReport | undefined {
    const job = this.#jobs.get(id)
    return job === undefined ? undefined : this.#reportOf(job)
  }

  /** The newest evacuation of an adapter, running or not. */
  evacuationOf(source: Attached): JobReport | undefined {
    const jobs = [...this.#jobs.values()].filter(({ context, request }) => {
      return context.source === source && request.kind === 'evacuate'
    })
    const last = jobs.at(-1)
    return last === undefined ? undefined : this.#reportOf(last)
  }

  runningOn(source: Attached, kind: JobKind): JobReport | undefined {
    for (const job of this.#jobs.values()) {
      if (job.state === 'running' && job.context.source === source && job.request.kind === kind) {
        return this.#reportOf(job)
      }
    }
    return undefined
  }

  /** Resolves when a job has ended, at once for one that is not known. Never rejects. */
  async ended(id: string): Promise<void> {
    await this.#jobs.get(id)?.ended
  }

  /** Asks a job to end. False when it is not known or has ended. */
  cancel(id: string): boolean {
    const job = this.#jobs.get(id)
    if (job === undefined || job.state !== 'running') return false
    job.abort.abort()
    return true
  }

  /** Asks every job on an adapter to end. */
  cancelOn(source: Attached): void {
    for (const job of this.#jobs.values()) if (job.context.source === source) this.cancel(job.id)
  }

  /** Ends every job. */
  async close(): Promise<void> {
    for (const { id } of this.#jobs.values()) this.cancel(id)
    await Promise.all(Array.from(this.#jobs.values(), ({ ended }) => ended))
  }

  async #run(job: Job): Promise<void> {
    const { kind } = job.request
    const { source } = job.context
    source.count('activeJobs', 1)
    if (kind === 'evacuate') source.evacuations += 1
    try {
      await WORK[kind](job.context)
      job.state = 'done'
    } catch (error) {
      job.state = error instanceof Cancelled ? 'cancelled' : 'failed'
      if (job.state === 'failed') job.error = error instanceof Error ? error.message : String(error)
    }
    job.endedMs = this.#parts.clock.nowMs()
    source.count('activeJobs', -1)
    if (kind === 'evacuate') source.evacuations -= 1
    job.settle()
    this.#parts.onEnd?.(this.#reportOf(job))
  }

  #checkTarget(adapter: string, name: string | undefined): void {
    if (name === undefined) throw badTarget('an evacuation needs a target: the name of another adapter')
    if (name === adapter) throw badTarget('an adapter cannot be evacuated to itself')
    const target = this.#parts.adapters.find(name)
    if (target === undefined) throw badTarget(`there is no adapter ${name}`)
    const why = target.adapter.isPeer === true ? 'a peer' : target.state
    if (!target.isStorable) throw badTarget(`the adapter ${name} takes no stores: it is ${why}`)
  }

  #forgetOld(): void {
    let ended = [...this.#jobs.values()].filter(({ state }) => state !== 'running').length
    for (const { id, state } of this.#jobs.values()) {
      if (ended <= ENDED_MAX) return
      if (state === 'running') continue
      this.#jobs.delete(id)
      ended -= 1
    }
  }

  #reportOf(job: Job): JobReport {
    const { id, request, state, objectsTotal, bytesTotal, context, error } = job
    const endMs = state === 'running' ? this.#parts.clock.nowMs() : job.endedMs
    const left = state === 'done' ? 0 : Math.max(0, objectsTotal - context.counts.objects)
    return {
      id,
      kind: request.kind,
      adapter: request.adapter,
      target: request.target ?? null,
      state,
      elapsedMs: endMs - job.startedMs,
      objectsTotal,
      bytesTotal,
      bytesLeft: objectsTotal === 0 ? 0 : Math.round((bytesTotal * left) / objectsTotal),
      counts: { ...context.counts },
      corrupt: [...context.corrupt],
      spaces: [...context.spaces.values()].map((space) => ({ ...space })).sort((a, b) => b.bytes - a.bytes),
      error,
    }
  }
}

function badTarget(message: string): CacheError {
  return new CacheError('BAD_REQUEST', message, { field: 'target' })
}
