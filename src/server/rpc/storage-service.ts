import { CacheError } from '../../core/errors.ts'
import { HASH_BYTES } from '../../core/hash-chain.ts'
import { cannotList, type KeyBatch, type L2Adapter, type ObjectPage } from '../../l2/adapter.ts'
import { type AdapterReport, reportOf } from '../../l2/adapter-report.ts'
import type { AdapterSet, Attached, DrainReport } from '../../l2/adapter-set.ts'
import { CIRCUITS } from '../../l2/circuit-breaker.ts'
import type { JobTable } from '../../l2/jobs/job-table.ts'
import type { AdapterOptions } from '../../l2/options.ts'
import type {
  AdapterInfo,
  AdapterReadiness,
  DrainRequest,
  JobInfo,
  JobOrder,
  ObjectList,
  RemovedAdapter,
  StoragePort,
} from '../http/storage-port.ts'

/** Where adapters come from: their options, who asked for them, and what the next start must know. */
export interface AdapterBook {
  /** Reads and checks options. @throws CacheError BAD_REQUEST, L2_NAME_TAKEN */
  read(given: Readonly<Record<string, unknown>>): AdapterOptions
  /** An adapter, not yet open. */
  make(options: AdapterOptions): L2Adapter
  /** Keeps an attached adapter for the next start, unless the configuration has one of its name. @throws CacheError DATA_DIR_UNWRITABLE */
  keep(options: AdapterOptions, given: Readonly<Record<string, unknown>>): Promise<void>
  /** An adapter that was added while an engine ran does not come back. @throws CacheError DATA_DIR_UNWRITABLE */
  forget(name: string): Promise<void>
  originOf(name: string): 'config' | 'runtime'
  /** The configuration has an adapter of this name: the next start attaches that one. */
  isConfigured(name: string): boolean
  /** Without secrets. */
  shownOptions(name: string): Readonly<Record<string, unknown>>
}

export interface StorageServiceParts {
  readonly adapters: AdapterSet
  readonly jobs: JobTable
  readonly book: AdapterBook
  /** Milliseconds of the engine's clock. */
  readonly nowMs: () => number
  /** Told how each drain ended. */
  readonly onDrained: (name: string, report: DrainReport) => void
}

/** The data thread's answer to what operators do with external storage: `StoragePort` over the adapter set. */
export class StorageService implements StoragePort {
  readonly #parts: StorageServiceParts

  constructor(parts: StorageServiceParts) {
    this.#parts = parts
  }

  async adapters(): Promise<AdapterInfo[]> {
    return this.#parts.adapters.all().map((attached) => this.#infoOf(attached))
  }

  async adapter(name: string): Promise<AdapterInfo> {
    return this.#infoOf(this.#known(name))
  }

  async addAdapter(given: Readonly<Record<string, unknown>>): Promise<AdapterInfo> {
    const { adapters, book } = this.#parts
    const options = book.read(given)
    adapters.roster.checkFree(options.name) // before anything of it is opened
    const attached = await adapters.add(options.name, book.make(options), options.limits)
    try {
      await book.keep(options, given)
    } catch (error) {
      await adapters.remove(options.name, { force: true })
      throw error
    }
    return this.#infoOf(attached)
  }

  async drainAdapter(name: string, { deadlineMs, evacuateTo, rateBytes }: DrainRequest): Promise<AdapterInfo> {
    const { adapters, jobs, onDrained } = this.#parts
    const attached = this.#known(name)
    if (attached.state === 'failed') throw new CacheError('L2_DRAINING', `the adapter ${name} has failed: remove it`)
    const job = this.#evacuation(attached, evacuateTo, rateBytes)
    const drained = adapters.drain(name, deadlineMs, job === undefined ? undefined : jobs.ended(job.id))
    void drained.then((report) => {
      if (attached.drain?.phase === 'deadline_passed' && job !== undefined) jobs.cancel(job.id)
      onDrained(name, report)
    })
    return this.#infoOf(attached)
  }

  async undrainAdapter(name: string): Promise<AdapterInfo> {
    const { adapters, jobs } = this.#parts
    const attached = this.#known(name)
    adapters.undrain(name)
    const running = jobs.runningOn(attached, 'evacuate')
    if (running !== undefined) jobs.cancel(running.id)
    return this.#infoOf(attached)
  }

  async removeAdapter(name: string, isForced: boolean): Promise<RemovedAdapter> {
    const { adapters, jobs, book } = this.#parts
    const attached = adapters.roster.checkRemovable(name, isForced)
    const returnsAtStart = book.isConfigured(name)
    await book.forget(name)
    jobs.cancelOn(attached)
    if (adapters.find(name) !== attached) throw notFound(name) // somebody else was faster
    const report = await adapters.remove(name, { force: true }) // refusals were decided above
    return { ...report, returnsAtStart }
  }

  async objects(name: string, cursor: string, countMax: number): Promise<ObjectList> {
    const { adapters } = this.#parts
    const attached = this.#known(name)
    const { adapter, limits } = attached
    if (adapter.list === undefined) throw cannotList(adapter)
    const list = (signal: AbortSignal): Promise<ObjectPage> => adapter.list!(cursor, countMax, signal)
    let error: unknown = new CacheError('L2_UNAVAILABLE', `the adapter ${name} is ${whyNot(attached)}`)
    const ended = await adapters.maintain(attached, limits.lookupDeadlineMs, NEVER, list, (reason) => {
      error = reason ?? error
    })
    if (ended?.value === undefined) throw error
    return { objects: ended.value.batches.flatMap(objectsOf), cursor: ended.value.cursor }
  }

  async startJob(order: JobOrder): Promise<JobInfo> {
    return this.#parts.jobs.start(order)
  }

  async jobs(): Promise<JobInfo[]> {
    return this.#parts.jobs.list()
  }

  async job(id: string): Promise<JobInfo> {
    const job = this.#parts.jobs.find(id)
    if (job === undefined) throw new CacheError('NOT_FOUND', `there is no job ${id}`, { field: 'id' })
    return job
  }

  async cancelJob(id: string): Promise<JobInfo> {
    if (this.#parts.jobs.cancel(id)) return this.job(id)
    const { state } = await this.job(id)
    throw new CacheError('NOT_FOUND', `the job ${id} has ended: it is ${state}`, { field: 'id' })
  }

  async health(): Promise<AdapterReadiness[]> {
    return this.#parts.adapters.all().map(({ name, state, circuit, isReached }) => {
      return { name, state, circuit: CIRCUITS[circuit.state]!, reached: isReached }
    })
  }

  /** The evacuation that a drain waits for: a new one, or the one that runs. */
  #evacuation(attached: Attached, target: string | undefined, rateBytes: number | undefined): JobInfo | undefined {
    const { jobs } = this.#parts
    const running = jobs.runningOn(attached, 'evacuate')
    if (running !== undefined && (target === undefined || target === running.target)) return running
    if (target === undefined) return undefined
    const rate = rateBytes === undefined ? {} : { rateBytes }
    return jobs.start({ kind: 'evacuate', adapter: attached.name, target, ...rate })
  }

  #known(name: string): Attached {
    return this.#parts.adapters.roster.known(name)
  }

  #infoOf(attached: Attached): AdapterInfo {
    const { jobs, book, nowMs } = this.#parts
    const report: AdapterReport = reportOf(attached, nowMs())
    const { name } = attached
    return {
      ...report,
      origin: book.originOf(name),
      isKept: book.originOf(name) === 'config' || !book.isConfigured(name),
      options: book.shownOptions(name),
      evacuation: jobs.evacuationOf(attached) ?? null,
    }
  }
}

const NEVER = new AbortController().signal

function whyNot({ state, circuit }: Attached): string {
  if (state === 'failed') return 'failed'
  return circuit.isHeld ? 'not reached yet' : `left alone after failures (circuit ${CIRCUITS[circuit.state]})`
}

function notFound(name: string): CacheError {
  return new CacheError('NOT_FOUND', `there is no adapter ${name}`, { field: 'name' })
}

function objectsOf({ space, count, hashes, parents }: KeyBatch): ObjectList['objects'] {
  const { model, salt, ranks, rank, shardBytes } = space
  return Array.from({ length: count }, (_, key) => {
    return { model, salt, ranks, rank, bytes: shardBytes, hash: hexOf(hashes, key), parent: hexOf(parents, key) }
  })
}

function hexOf(hashes: Uint8Array, key: number): string {
  return Buffer.from(hashes.subarray(key * HASH_BYTES, (key + 1) * HASH_BYTES)).toString('hex')
}
