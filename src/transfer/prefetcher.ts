import type { HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import { outcomeOf, PREFETCH_SPAN, SPAN_CANCELLED } from '../events/span-kinds.ts'
import { NO_ROW, NO_SPAN, type Span, Tracer } from '../events/tracer.ts'
import { LoadJob, type PrefetcherParts, type PrefetchRequest, type PrefetchTicket } from './load-job.ts'

/**
 * Loads the leading run that L2 holds beyond L1, for lookups.
 *
 *   start -> [joins the job that loads the same chunk] -> done, then perhaps a job of its own for the rest
 *         -> LoadJob: ask adapters in order -> reserve in L1 -> load, verify -> commit -> done
 *
 * Single flight: every chunk that a job asks for is registered, and a request whose first missing chunk is among
 * them joins that job. A joined load is counted once, and cancelled only when the last caller leaves. Who joins a job
 * that was left by all waits for its end, for it has the slots, and then goes on with a job of its own.
 */
export class Prefetcher {
  readonly #parts: PrefetcherParts
  readonly #jobs = new Map<string, LoadJob>()
  readonly #columnActive: number
  readonly #tracer: Tracer
  #active = 0

  constructor(parts: PrefetcherParts) {
    this.#parts = parts
    this.#columnActive = parts.totals.column('activePrefetchJobs')
    this.#tracer = parts.tracer ?? Tracer.off()
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
    const span = this.#tracer.child(PREFETCH_SPAN, request.span ?? NO_SPAN)
    const place = new PrefetchPlace(request, span, (left) => this.#endSpan(left, SPAN_CANCELLED, 0))
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
      const created = new LoadJob(this.#parts, { ...place.request, from, span: place.span })
      job = created
      this.#register(created, from, place.request)
      created
        .run()
        .catch(this.#parts.onError)
        .then(() => this.#finish(created))
        .catch(this.#parts.onError)
    } else place.isJoined = true
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
    const isAsked = !place.isLate && (job.isCancelled || job.keys.has(chunkKey(space, chain, next)))
    if (next >= to || isAsked || !this.canStart()) {
      const outcome = job.isCancelled ? SPAN_CANCELLED : outcomeOf(next - from, to - from)
      this.#endSpan(place, outcome, next - from)
      onDone()
    } else this.#attach(place, next)
  }

  #endSpan({ span, request, isJoined }: PrefetchPlace, outcome: number, loaded: number): void {
    if (span === NO_SPAN) return
    const { tenant, ranks, shardBytes } = this.#parts.l1.spaces.spec(request.space)
    const bytes = loaded * ranks * shardBytes
    this.#tracer.end(span, outcome, tenant, NO_ROW, request.to - request.from, bytes, loaded, isJoined ? 1 : 0)
  }

  #setActive(count: number): void {
    this.#active = count
    this.#parts.totals.values[this.#columnActive] = count
  }
}

class PrefetchPlace implements PrefetchTicket {
  readonly request: PrefetchRequest
  readonly span: Span
  /** Some of it is loaded by a job that another caller began. */
  isJoined = false
  /** Its job had been cancelled before it joined. */
  isLate = false
  readonly #onLeave: (place: PrefetchPlace) => void
  #job: LoadJob | undefined

  constructor(request: PrefetchRequest, span: Span, onLeave: (place: PrefetchPlace) => void) {
    this.request = request
    this.span = span
    this.#onLeave = onLeave
  }

  join(job: LoadJob): void {
    this.#job = job
    this.isLate = job.isCancelled
    job.places.add(this)
  }

  leave(): void {
    this.#job?.leave(this)
    this.#onLeave(this)
  }
}

function chunkKey(space: SpaceId, chain: HashChain, index: number): string {
  return `${space}:${chain.hex(index)}`
}
