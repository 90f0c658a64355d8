import type { HashChain } from '../../core/hash-chain.ts'
import { LOOKUP_SPAN, SPAN_CANCELLED } from '../../events/span-kinds.ts'
import { NO_ROW, NO_SPAN, type Span } from '../../events/tracer.ts'
import type { RequestOf } from '../../protocol/mp/messages.ts'
import { intReply, NONE, type ReplyPayload } from '../../protocol/mp/replies.ts'
import type { Client, LookupJob } from './clients.ts'
import { spaceOf } from './key-spaces.ts'
import { LookupHold } from './lookup-hold.ts'
import { firstOf, type MpSession } from './mp-sessions.ts'
import type { MpParts } from './parts.ts'

/** The GPU belongs to the inference server: what is promised is in L1, or comes there from L2. */
const TIERS = { l0: false, l1: true, l2: true }
const WAIT_MAX_MS = 60_000
const UNKNOWN = intReply(0)

/**
 * What a scheduler asks: lookup, its answer, and the end of what it holds.
 *
 *   lookup --(acknowledged at once)--> hashing --> engine --> final --(answer given out, once)--> consumed
 *                                                               '--> end_session, from any state
 *
 * Who asks for the answer while the prompt is hashed waits for it, for a moment: hashing takes less than a turn of asking
 * again, and asking again costs as much time of the processor as the rest of a lookup. Nothing waits for L2 so.
 */
export class LookupHandlers {
  readonly #parts: MpParts

  constructor(parts: MpParts) {
    this.#parts = parts
  }

  /** The request is acknowledged already. */
  async lookup(client: Client, request: RequestOf<'lookup'>): Promise<void> {
    const { engine, sessions } = this.#parts
    const { key } = request
    const job = client.startJob(key.requestId)
    let isAsked = false
    let span = NO_SPAN
    try {
      const space = spaceOf(this.#parts, key)
      if (space === null) return
      span = engine.tracer.remote(LOOKUP_SPAN, key.traceparent)
      const session = sessions.open(space, key.requestId, key.tokens)
      job.space = space
      const chunks = Math.floor(Math.min(key.end, key.tokens.length) / engine.options.chunkTokens)
      const known = sessions.chainOf(session, chunks, client, false)
      job.isHashing = known instanceof Promise
      const chain = known instanceof Promise ? await known : known
      job.isHashing = false
      if (chain === null || !session.isOpen || job.isDone || session.chain !== chain) return
      isAsked = true
      this.#ask(session, job, firstOf(chain, chunks), request, span)
    } finally {
      if (!isAsked) {
        engine.tracer.end(span, SPAN_CANCELLED, NO_ROW, NO_ROW, 0, 0)
        job.finish(null)
      }
    }
  }

  /** None while the lookup works; then the chunks found, once; 0 for what is unknown. */
  query(client: Client, requestId: string): ReplyPayload | Promise<ReplyPayload> {
    const { queryHoldMs, clock } = this.#parts
    const job = client.job(requestId)
    if (job?.isHashing !== true || queryHoldMs === 0) return this.#answer(client, requestId)
    return client.wait(job, queryHoldMs, clock).then(() => this.#answer(client, requestId))
  }

  /** The same, once there is an answer or the time is up. */
  async wait(client: Client, { requestId, timeoutSeconds }: RequestOf<'wait_prefetch_status'>): Promise<ReplyPayload> {
    const timeoutMs = Math.min(timeoutSeconds * 1000, WAIT_MAX_MS)
    const job = client.job(requestId)
    if (job !== undefined) await client.wait(job, timeoutMs, this.#parts.clock)
    return this.#answer(client, requestId)
  }

  freeLocks({ key }: RequestOf<'free_lookup_locks'>): void {
    const { engine, sessions } = this.#parts
    const { chunkTokens } = engine.options
    const space = engine.l1.spaces.find(key.model, key.salt, key.worldSize)
    const session = space === -1 ? undefined : sessions.find(space, key.requestId)
    if (session === undefined || !sessions.knows(session, key.tokens, Math.min(key.end, key.tokens.length))) return
    const to = Math.floor(key.end / chunkTokens)
    session.hold?.settle(Math.floor(key.start / chunkTokens), to, Number.POSITIVE_INFINITY)
  }

  endSession(client: Client, requestId: string): void {
    const space = client.endJob(requestId)?.space ?? null
    if (space !== null) this.#parts.sessions.close(space, requestId)
    else this.#parts.sessions.endStored(client, requestId)
  }

  /** A client is gone: nobody will ask for the answers, or retrieve what they promised. */
  clientGone(client: Client): void {
    this.#parts.hasher.leave(client)
    for (const [requestId, { space }] of client.endJobs()) {
      if (space !== null) this.#parts.sessions.close(space, requestId)
    }
  }

  #ask(session: MpSession, job: LookupJob, chain: HashChain, request: RequestOf<'lookup'>, span: Span): void {
    const { engine } = this.#parts
    const hold = new LookupHold(engine)
    session.hold?.endSession()
    session.hold = hold
    const reads = this.#readsOfChunk(request)
    const lookup = engine.lookup(
      session.space,
      chain,
      engine.sessions.nextOwner(),
      (final) => {
        hold.promise(final.hitChunks, reads)
        job.finish(hold)
      },
      TIERS,
      span,
    )
    hold.attach(lookup)
  }

  /** How often the shards of one chunk will be retrieved, all ranks together. Too many only holds leases for longer. */
  #readsOfChunk({ key, tensorParallel }: RequestOf<'lookup'>): number {
    const readers = key.readers > 0 ? key.readers : this.#isMla(key.model, key.worldSize) ? tensorParallel : 1
    return key.worldSize * Math.max(1, readers)
  }

  #isMla(model: string, worldSize: number): boolean {
    return this.#parts.instances
      .list()
      .some((one) => one.model === model && one.worldSize === worldSize && one.layout.isMla)
  }

  #answer(client: Client, requestId: string): ReplyPayload {
    const job = client.job(requestId)
    if (job === undefined || job.isConsumed) return UNKNOWN
    return job.isDone ? this.#consume(job) : NONE
  }

  /** Chunks that the lookup found and still holds. */
  #consume(job: LookupJob): ReplyPayload {
    job.isConsumed = true
    const lookup = job.hold?.promised
    if (!lookup || lookup.hitChunks === 0) return UNKNOWN
    return this.#parts.engine.renew(lookup) ? intReply(lookup.hitChunks) : UNKNOWN
  }
}
