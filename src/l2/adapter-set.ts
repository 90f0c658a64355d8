import { CacheError } from '../core/errors.ts'
import type { TenantId } from '../core/ids.ts'
import type { EventSink } from '../events/bus.ts'
import { L2_LOADED, L2_STORED } from '../events/catalogue.ts'
import {
  L2_LOAD_SPAN,
  L2_LOOKUP_SPAN,
  L2_STORE_SPAN,
  outcomeOf,
  SPAN_CANCELLED,
  SPAN_ERROR,
  SPAN_TIMEOUT,
} from '../events/span-kinds.ts'
import { NO_SPAN, type Span, Tracer } from '../events/tracer.ts'
import { type KeyBatch, type L2Adapter, OUTCOME_FAILED, OUTCOME_OK } from './adapter.ts'
import { type AdapterReport, type DrainReport, type RemovalReport, reportOf } from './adapter-report.ts'
import { AdapterRoster, type RosterParts } from './adapter-roster.ts'
import type { AdapterTenantField, Attached, Direction } from './attached.ts'
import type { Ended, FailureCause } from './batch-attempt.ts'
import type { AdapterLimits } from './options.ts'

export type { AdapterReport, DrainReport, RemovalReport } from './adapter-report.ts'
export type { AdapterNames } from './adapter-roster.ts'
export type { AdapterState, InFlight } from './attached.ts'
export { Attached } from './attached.ts'

export interface AdapterSetParts extends RosterParts {
  readonly events: EventSink
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/** How a store or load batch ended. */
export interface BatchResult {
  /** One OUTCOME_* a key. */
  readonly outcomes: Uint8Array
  /** Bytes that moved. */
  readonly bytes: number
  /** From submission to end. */
  readonly busySeconds: number
  /**
   * Settles when the adapter no longer touches sources or targets; undefined when it is so already. Only an
   * adapter that was given up after its deadline keeps them: the caller reuses the memory after this.
   */
  readonly quiesced: Promise<void> | undefined
}

/** Why shards were never handed to an adapter. */
export type SkipReason = 'queue_full' | 'evicted' | 'draining' | 'circuit_open' | 'not_admitted' | 'dirty'

/** Why shards that an adapter holds are not loaded. */
export type LoadSkipReason = 'slower' | 'queue_full'

const SKIP_FIELDS: Record<SkipReason, AdapterTenantField> = {
  queue_full: 'storeSkippedQueueFull',
  evicted: 'storeSkippedEvicted',
  draining: 'storeSkippedDraining',
  circuit_open: 'storeSkippedCircuitOpen',
  not_admitted: 'storeSkippedNotAdmitted',
  dirty: 'storeSkippedDirty',
}

/**
 * The L2 adapters of an engine, in the order they are asked, and the only way to them. Their states: `AdapterRoster`.
 *
 * ACTIVE takes everything. DRAINING takes no stores and no lookups; loads of what earlier lookups promised are
 * served, so it runs empty by itself. FAILED and REMOVED take nothing. An open circuit refuses like FAILED does, for
 * a while. What is refused was never submitted: it appears in no law.
 *
 * Submitting never rejects: errors are outcomes. Numbers change in the turn in which things happen.
 */
export class AdapterSet {
  readonly #parts: AdapterSetParts
  readonly #roster: AdapterRoster
  readonly #tracer: Tracer

  constructor(parts: AdapterSetParts) {
    this.#parts = parts
    this.#roster = new AdapterRoster(parts)
    this.#tracer = parts.tracer ?? Tracer.off()
  }

  /** The adapters and their states: what is done to them rather than with them. */
  get roster(): AdapterRoster {
    return this.#roster
  }

  /** See `AdapterRoster`, as for the other acts. */
  add(name: string, adapter: L2Adapter, limits: AdapterLimits): Promise<Attached> {
    return this.#roster.add(name, adapter, limits)
  }

  drain(name: string, deadlineMs: number, evacuation?: Promise<unknown>): Promise<DrainReport> {
    return this.#roster.drain(name, deadlineMs, evacuation)
  }

  undrain(name: string): void {
    this.#roster.undrain(name)
  }

  remove(name: string, how?: { readonly force?: boolean }): Promise<RemovalReport> {
    return this.#roster.remove(name, how)
  }

  fail(name: string, error: unknown): void {
    this.#roster.fail(name, error)
  }

  close(): Promise<void> {
    return this.#roster.close()
  }

  /** An adapter that was not removed. */
  find(name: string): Attached | undefined {
    return this.#roster.find(name)
  }

  all(): readonly Attached[] {
    return this.#roster.all()
  }

  describe(): AdapterReport[] {
    const nowMs = this.#parts.clock.nowMs()
    return this.#roster.all().map((attached) => reportOf(attached, nowMs))
  }

  /** Those that take stores. */
  storable(): Attached[] {
    return this.#roster.all().filter((attached) => attached.isStorable)
  }

  /** Those that take lookups, in the order they are asked. */
  loadable(): Attached[] {
    return this.#roster.all().filter((attached) => attached.isLoadable)
  }

  hasLoadable(): boolean {
    return this.#roster.all().some((attached) => attached.isLoadable)
  }

  /**
   * Stores sources[i] as object i. The caller leaves sources untouched until the end, and `quiesced`.
   *
   * @param parent span that the batch is a part of; NO_SPAN = a trace of its own.
   */
  async submitStore(
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    sources: readonly Uint8Array[],
    signal?: AbortSignal,
    parent: Span = NO_SPAN,
  ): Promise<BatchResult> {
    const isOpen = attached.isStorable && attached.circuit.tryPass(this.#parts.clock.nowMs())
    if (!isOpen) {
      this.countStoreSkipped(attached, tenant, batch.count, attached.isStorable ? 'circuit_open' : 'draining')
      return refused(batch)
    }
    const store = (outcomes: Uint8Array, abort: AbortSignal) => attached.adapter.store(batch, sources, outcomes, abort)
    const span = this.#tracer.childOrRoot(L2_STORE_SPAN, parent)
    return this.#submit('store', attached, tenant, batch, store, attached.limits.storeDeadlineMs, signal, span)
  }

  /** Loads object i into targets[i]. The caller leaves targets untouched until the end, and `quiesced`. */
  async submitLoad(
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    targets: readonly Uint8Array[],
    signal?: AbortSignal,
    parent: Span = NO_SPAN,
  ): Promise<BatchResult> {
    if (attached.isGone || !attached.circuit.tryPass(this.#parts.clock.nowMs())) return refused(batch)
    const span = this.#tracer.child(L2_LOAD_SPAN, parent)
    const asked = this.#traced(attached, batch, span)
    const load = (outcomes: Uint8Array, abort: AbortSignal) => attached.adapter.load(asked, targets, outcomes, abort)
    return this.#submit('load', attached, tenant, batch, load, attached.limits.loadDeadlineMs, signal, span)
  }

  /** found[i] = 1 when object i is held; all 0 when the adapter cannot say. Hits are counted by the caller. */
  async submitLookup(
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    signal?: AbortSignal,
    parent: Span = NO_SPAN,
  ): Promise<Uint8Array> {
    const { count } = batch
    if (!attached.isLoadable || !attached.circuit.tryPass(this.#parts.clock.nowMs())) return new Uint8Array(count)
    attached.countTenant(tenant, 'lookupRequests', 1)
    attached.countTenant(tenant, 'lookupObjects', count)
    const span = this.#tracer.child(L2_LOOKUP_SPAN, parent)
    const { adapter, limits } = attached
    const asked = this.#traced(attached, batch, span)
    const ended = await this.#other(attached, limits.lookupDeadlineMs, signal, async (abort) => {
      const found = new Uint8Array(count)
      await adapter.lookup(asked, found, abort)
      return found
    })
    attached.judge('lookup', ended.value !== undefined, ended.cause)
    if (span !== NO_SPAN) this.#endLookupSpan(span, attached, tenant, count, ended)
    return ended.value ?? new Uint8Array(count)
  }

  /** Shards of the leading run that this adapter holds, from the lookup's answer. */
  countHits(attached: Attached, tenant: TenantId, shards: number): void {
    attached.countTenant(tenant, 'hitObjects', shards)
  }

  /** Shards that were promised and found no room in L1. */
  countL1Oom(attached: Attached, tenant: TenantId, shards: number): void {
    attached.countTenant(tenant, 'failureL1Oom', shards)
  }

  /** Shards that the adapter holds and that are not loaded. */
  countLoadSkipped(attached: Attached, tenant: TenantId, shards: number, reason: LoadSkipReason): void {
    attached.countTenant(tenant, reason === 'slower' ? 'loadSkippedSlower' : 'loadSkippedQueueFull', shards)
  }

  /** Shards that are not handed to the adapter. */
  countStoreSkipped(attached: Attached, tenant: TenantId, shards: number, reason: SkipReason): void {
    attached.countTenant(tenant, SKIP_FIELDS[reason], shards)
  }

  /**
   * Removes the objects of a (model, salt), of a whole model, or all, from every adapter.
   * @returns how many there were.
   * @throws CacheError L2_UNAVAILABLE after all were tried, when some could not be cleared.
   */
  async clear(filter: { readonly model?: string; readonly salt?: string }): Promise<number> {
    const attached = this.#roster.all().filter(({ isGone }) => !isGone)
    const counts = await Promise.all(
      attached.map(async (one) => {
        const clear = (signal: AbortSignal) => one.adapter.clear(filter, signal)
        const { value } = await this.#other(one, one.limits.storeDeadlineMs, undefined, clear)
        one.refresh()
        return value
      }),
    )
    const failed = attached.filter((_, at) => counts[at] === undefined).map(({ name }) => name)
    if (failed.length === 0) return counts.reduce<number>((sum, count) => sum + count!, 0)
    throw new CacheError('L2_UNAVAILABLE', `these adapters could not be cleared: ${failed.join(', ')}`)
  }

  async #submit(
    direction: Direction,
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    operation: (outcomes: Uint8Array, signal: AbortSignal) => Promise<number>,
    deadlineMs: number,
    signal: AbortSignal | undefined,
    span: Span,
  ): Promise<BatchResult> {
    const { clock, events } = this.#parts
    const startMs = clock.nowMs()
    // The adapter writes into an array of its own: one that was given up may do so at any later time.
    const written = new Uint8Array(batch.count)
    attached.begin(direction, tenant, batch)
    const ended = await attached.attempt((abort) => operation(written.fill(OUTCOME_FAILED), abort), deadlineMs, signal)
    const outcomes = ended.value === undefined ? new Uint8Array(batch.count).fill(OUTCOME_FAILED) : written
    const bytes = ended.value ?? 0
    const nowMs = clock.nowMs()
    const busySeconds = (nowMs - startMs) / 1000
    attached.end(direction, tenant, batch, outcomes, ended.cause)
    attached.judge(direction, batch.count === 0 || outcomes.some((outcome) => outcome !== OUTCOME_FAILED), ended.cause)
    if (bytes > 0) attached.moved(direction, tenant, bytes, busySeconds)
    // A rate needs a time: on a virtual clock a batch may take none.
    if (bytes > 0 && busySeconds > 0) {
      events.publish(direction === 'store' ? L2_STORED : L2_LOADED, tenant, nowMs, bytes, busySeconds, attached.row)
    }
    if (span !== NO_SPAN) {
      const done = outcomes.reduce((sum, outcome) => sum + (outcome === OUTCOME_OK ? 1 : 0), 0)
      const outcome = done === 0 && ended.error !== undefined ? failureOf(ended.cause) : outcomeOf(done, batch.count)
      this.#tracer.end(span, outcome, tenant, attached.row, batch.count, bytes, done)
    }
    return { outcomes, bytes, busySeconds, quiesced: ended.quiesced }
  }

  /** The batch with what another engine needs to join the trace. */
  #traced({ adapter }: Attached, batch: KeyBatch, span: Span): KeyBatch {
    if (span === NO_SPAN || adapter.isPeer !== true) return batch
    return { ...batch, traceparent: this.#tracer.traceparentOf(span) }
  }

  #endLookupSpan(
    span: Span,
    attached: Attached,
    tenant: TenantId,
    count: number,
    { value, cause }: Ended<Uint8Array>,
  ): void {
    const found = value === undefined ? 0 : value.reduce((sum, flag) => sum + flag, 0)
    const outcome = value === undefined ? failureOf(cause) : outcomeOf(found, count)
    this.#tracer.end(span, outcome, tenant, attached.row, count, 0, found)
  }

  /**
   * Work of a job on an adapter: under its deadlines, retries and breaker like any other, without cells of its own.
   * Undefined when the adapter refuses or fails it; `onError` says why.
   */
  async maintain<T>(
    attached: Attached,
    deadlineMs: number,
    signal: AbortSignal,
    operation: (signal: AbortSignal) => Promise<T>,
    onError: (error: unknown) => void,
  ): Promise<Ended<T> | undefined> {
    if (attached.isGone || !attached.circuit.tryPass(this.#parts.clock.nowMs())) return undefined
    const ended = await this.#other(attached, deadlineMs, signal, operation)
    attached.judge('other', ended.value !== undefined, ended.cause)
    if (ended.value === undefined) onError(ended.error)
    return ended
  }

  /** A lookup or clear: no cells of its own, but a drain waits for it. */
  async #other<T>(
    attached: Attached,
    deadlineMs: number,
    signal: AbortSignal | undefined,
    operation: (signal: AbortSignal) => Promise<T>,
  ): Promise<Ended<T>> {
    attached.beginOther()
    const ended = await attached.attempt(operation, deadlineMs, signal)
    attached.endOther()
    return ended
  }
}

function failureOf(cause: FailureCause): number {
  if (cause === 'timeout') return SPAN_TIMEOUT
  return cause === 'cancelled' ? SPAN_CANCELLED : SPAN_ERROR
}

function refused(batch: KeyBatch): BatchResult {
  const outcomes = new Uint8Array(batch.count).fill(OUTCOME_FAILED)
  return { outcomes, bytes: 0, busySeconds: 0, quiesced: undefined }
}
