import type { HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import { LoadJob, type PrefetcherParts, type PrefetchRequest, type PrefetchTicket } from './load-job.ts'

/**
 * Loads the leading run that L2 holds beyond L1, for lookups.
 *
 *   start -> [joins the job that loads the same chunk] -> done, then perhaps a job of its own for the rest
 *         -> LoadJob: ask adapters in order -> reserve in L1 -> load, verify -> commit -> done
 *
 * Single flight: every chunk that a job asks for is registered, and a request whose first missing chunk is among
 * them joins that job. A joined load is counted once, and cancelled only when the last caller leaves.
 */
export class Prefetcher {
  readonly #parts: PrefetcherParts
  readonly #jobs = new Map<string, LoadJob>()
  readonly #columnActive: number
  #active = 0

  constructor(parts: PrefetcherParts) {
    this.#parts = parts
    this.#columnActive = parts.totals.column('activePrefetchJobs')
  }

  /** Jobs between lookup and final answer. */
  get activeJobs(): number {
    return this.#active
  }

  /** Whether there is any adapter to ask, and room for another job. */
  canStart(): boolean {
    return this.#parts.adapters.hasLoadable() && this.#active < this.#parts.options.prefetchJobs
  }

  start(request: PrefetchRequest): PrefetchTicket {
    const place = new PrefetchPlace(request)
    this.#attach(place, request.from)
    return place
  }

  /** Cancels every job: for shutdown. Their callers are told. */
  cancelAll(): void {
    for (const job of new Set(this.#jobs.values())) job.cancel()
  }

  #attach(place: PrefetchPlace, from: number): void {
    const { space, chain } = place.request
    const key = chunkKey(space, chain, from)
    let job = this.#jobs.get(key)
    if (job === undefined) {
      const created = new LoadJob(this.#parts, { ...place.request, from })
      job = created
      this.#register(created, from, place.request)
      created.run().then(() => this.#finish(created), this.#parts.onError)
    }
    place.join(job)
  }

  #register(job: LoadJob, from: number, { space, chain, to }: PrefetchRequest): void {
    for (let index = from; index < to; index += 1) {
      const key = chunkKey(space, chain, index)
      if (this.#jobs.has(key)) break // the rest belongs to a job that is further ahead
      this.#jobs.set(key, job)
      job.keys.add(key)
    }
    this.#setActive(this.#active + 1)
  }

  #finish(job: LoadJob): void {
    for (const key of job.keys) this.#jobs.delete(key)
    this.#setActive(this.#active - 1)
    for (const place of [...job.places]) this.#proceed(place as PrefetchPlace, job)
  }

  /** After a job: done, or on to what that job did not ask for. */
  #proceed(place: PrefetchPlace, job: LoadJob): void {
    const { space, chain, from, to, onDone } = place.request
    const next = from + this.#parts.l1.residentRun(space, chain, from, to)
    const isOver = next >= to || job.isCancelled || job.keys.has(chunkKey(space, chain, next)) || !this.canStart()
    if (isOver) onDone()
    else this.#attach(place, next)
  }

  #setActive(count: number): void {
    this.#active = count
    this.#parts.totals.values[this.#columnActive] = count
  }
}

class PrefetchPlace implements PrefetchTicket {
  readonly request: PrefetchRequest
  #job: LoadJob | undefined

  constructor(request: PrefetchRequest) {
    this.request = request
  }

  join(job: LoadJob): void {
    this.#job = job
    job.places.add(this)
  }

  leave(): void {
    this.#job?.leave(this)
  }
}

function chunkKey(space: SpaceId, chain: HashChain, index: number): string {
  return `${space}:${chain.hex(index)}`
}
