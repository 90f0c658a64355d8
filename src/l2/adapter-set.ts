import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import { CacheError } from '../core/errors.ts'
import type { TenantId } from '../core/ids.ts'
import type { EventSink } from '../events/bus.ts'
import { L2_LOADED, L2_STORED } from '../events/catalogue.ts'
import type { L2_STATES } from '../events/counters.ts'
import { type KeyBatch, type L2Adapter, OUTCOME_FAILED } from './adapter.ts'
import { type AdapterReport, type DrainReport, reportOf } from './adapter-report.ts'
import { type AdapterField, type AdapterState, type AdapterTenantField, Attached, type Direction } from './attached.ts'
import type { Ended } from './batch-attempt.ts'
import { type AdapterLimits, isAdapterName } from './options.ts'

export type { AdapterReport, DrainReport } from './adapter-report.ts'
export type { AdapterState, InFlight } from './attached.ts'
export { Attached } from './attached.ts'

/** Adapter names as rows. A name keeps its row for good; a row is never another name's. */
export interface AdapterNames {
  /** The row of a name, in use from now on; -1 when none is left. */
  rowOf(name: string): number
  /** The name is no longer in use. */
  detach(row: number): void
}

export interface AdapterSetParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
  readonly events: EventSink
  readonly names: AdapterNames
  readonly cells: CounterTable<AdapterField>
  readonly tenantCells: CounterTable<AdapterTenantField>
  readonly states: CounterTable<(typeof L2_STATES)[number]>
  /** Rows of a per-tenant table. */
  readonly tenantRows: number
  /** Told every change of state, `undefined` before the first. */
  readonly onState?: (name: string, state: AdapterState, before: AdapterState | undefined) => void
  /** Told what an adapter failed with. Batches end as outcomes all the same. */
  readonly onError: (name: string, error: unknown) => void
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
export type SkipReason = 'queue_full' | 'evicted' | 'draining' | 'circuit_open'

const SKIP_FIELDS: Record<SkipReason, AdapterTenantField> = {
  queue_full: 'storeSkippedQueueFull',
  evicted: 'storeSkippedEvicted',
  draining: 'storeSkippedDraining',
  circuit_open: 'storeSkippedCircuitOpen',
}

/**
 * The L2 adapters of an engine, in the order they are asked, and the only way to them.
 *
 *   add -> ACTIVE --drain--> DRAINING --remove--> REMOVED
 *            ^----undrain-------|                   ^
 *            +------fail------> FAILED ---remove----+     (any state but REMOVED may fail)
 *
 * ACTIVE takes everything. DRAINING takes no stores and no lookups; loads of what earlier lookups promised are
 * served, so it runs empty by itself. FAILED and REMOVED take nothing. An open circuit refuses like FAILED does, for
 * a while. What is refused was never submitted: it appears in no law.
 *
 * Submitting never rejects: errors are outcomes. Numbers change in the turn in which things happen.
 */
export class AdapterSet {
  readonly #parts: AdapterSetParts
  /** In order of configuration; without removed ones. */
  #attached: Attached[] = []
  readonly #opening = new Set<string>()

  constructor(parts: AdapterSetParts) {
    this.#parts = parts
  }

  /**
   * Opens an adapter and attaches it as the last one to be asked.
   * @throws CacheError BAD_REQUEST for a bad or taken name; what `open` throws.
   */
  async add(name: string, adapter: L2Adapter, limits: AdapterLimits): Promise<Attached> {
    if (!isAdapterName(name)) throw badName('an adapter name has 1 to 64 letters, digits, ".", "_" or "-"')
    if (this.find(name) !== undefined || this.#opening.has(name)) throw badName(`the adapter name ${name} is taken`)
    this.#opening.add(name)
    try {
      await adapter.open()
      return this.#attach(name, adapter, limits)
    } catch (error) {
      await adapter.close().catch((closeError: unknown) => this.#parts.onError(name, closeError))
      throw error
    } finally {
      this.#opening.delete(name)
    }
  }

  /** An adapter that was not removed. */
  find(name: string): Attached | undefined {
    return this.#attached.find((attached) => attached.name === name)
  }

  all(): readonly Attached[] {
    return this.#attached
  }

  /** Those that take stores. */
  storable(): Attached[] {
    return this.#attached.filter((attached) => attached.isStorable)
  }

  /** Those that take lookups, in the order they are asked. */
  loadable(): Attached[] {
    return this.#attached.filter((attached) => attached.isLoadable)
  }

  hasLoadable(): boolean {
    return this.#attached.some((attached) => attached.isLoadable)
  }

  /** Stores sources[i] as object i. The caller leaves sources untouched until the end, and `quiesced`. */
  async submitStore(
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    sources: readonly Uint8Array[],
    signal?: AbortSignal,
  ): Promise<BatchResult> {
    const isOpen = attached.isStorable && attached.circuit.tryPass(this.#parts.clock.nowMs())
    if (!isOpen) {
      this.countStoreSkipped(attached, tenant, batch.count, attached.isStorable ? 'circuit_open' : 'draining')
      return refused(batch)
    }
    const store = (outcomes: Uint8Array, abort: AbortSignal) => attached.adapter.store(batch, sources, outcomes, abort)
    return this.#submit('store', attached, tenant, batch, store, attached.limits.storeDeadlineMs, signal)
  }

  /** Loads object i into targets[i]. The caller leaves targets untouched until the end, and `quiesced`. */
  async submitLoad(
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    targets: readonly Uint8Array[],
    signal?: AbortSignal,
  ): Promise<BatchResult> {
    if (attached.isGone || !attached.circuit.tryPass(this.#parts.clock.nowMs())) return refused(batch)
    const load = (outcomes: Uint8Array, abort: AbortSignal) => attached.adapter.load(batch, targets, outcomes, abort)
    return this.#submit('load', attached, tenant, batch, load, attached.limits.loadDeadlineMs, signal)
  }

  /** found[i] = 1 when object i is held; all 0 when the adapter cannot say. Hits are counted by the caller. */
  async submitLookup(attached: Attached, tenant: TenantId, batch: KeyBatch, signal?: AbortSignal): Promise<Uint8Array> {
    const { count } = batch
    if (!attached.isLoadable || !attached.circuit.tryPass(this.#parts.clock.nowMs())) return new Uint8Array(count)
    attached.countTenant(tenant, 'lookupRequests', 1)
    attached.countTenant(tenant, 'lookupObjects', count)
    const { adapter, limits } = attached
    const ended = await this.#other(attached, limits.lookupDeadlineMs, signal, async (abort) => {
      const found = new Uint8Array(count)
      await adapter.lookup(batch, found, abort)
      return found
    })
    attached.judge(ended.value !== undefined, ended.cause)
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
    const attached = this.#attached.filter(({ isGone }) => !isGone)
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

  /**
   * Stops giving new work to an adapter and waits until nothing in flight refers to it. It stays attached: `remove`
   * or `undrain` comes next. @throws CacheError NOT_FOUND, L2_DRAINING for a failed adapter.
   */
  async drain(name: string, deadlineMs: number): Promise<DrainReport> {
    const attached = this.#known(name)
    if (attached.state === 'failed') throw new CacheError('L2_DRAINING', `the adapter ${name} has failed: remove it`)
    this.#setState(attached, 'draining')
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#parts.clock.schedule(deadlineMs, resolve)
    await Promise.race([attached.idle(), promise])
    timer.cancel()
    return { state: attached.state, isDrained: attached.isIdle, left: attached.inFlight() }
  }

  /** Takes work again. @throws CacheError NOT_FOUND, L2_DRAINING for an adapter that is not draining. */
  undrain(name: string): void {
    const attached = this.#known(name)
    if (attached.state !== 'draining') throw new CacheError('L2_DRAINING', `the adapter ${name} is not draining`)
    this.#setState(attached, 'active')
  }

  /**
   * Detaches and closes an adapter; its objects stay where they are.
   * @param force ends what is in flight instead of refusing.
   * @throws CacheError NOT_FOUND; L2_DRAINING when work is in flight, or the adapter is active.
   */
  async remove(name: string, { force = false }: { readonly force?: boolean } = {}): Promise<void> {
    const attached = this.#known(name)
    const isRefused = !force && (attached.state === 'active' || !attached.isIdle)
    if (isRefused) {
      const why = attached.state === 'active' ? 'is active: drain it first' : 'still has work in flight'
      throw new CacheError('L2_DRAINING', `the adapter ${name} ${why}`, { field: 'name' })
    }
    this.#setState(attached, 'removed')
    this.#attached = this.#attached.filter((other) => other !== attached)
    this.#parts.names.detach(attached.row)
    await this.#end(attached)
  }

  /** The backend is lost for good: what is in flight is cancelled, nothing more is taken. */
  fail(name: string, error: unknown): void {
    const attached = this.find(name)
    if (attached === undefined || attached.isGone) return
    attached.lastError = error instanceof Error ? error.message : String(error)
    this.#setState(attached, 'failed')
    attached.cancelAll()
    this.#parts.onError(name, error)
  }

  /** Ends what is in flight and closes every adapter. */
  async close(): Promise<void> {
    const attached = this.#attached
    for (const one of attached) this.#setState(one, 'removed')
    this.#attached = []
    await Promise.all(attached.map((one) => this.#end(one)))
  }

  describe(): AdapterReport[] {
    return this.#attached.map(reportOf)
  }

  #attach(name: string, adapter: L2Adapter, limits: AdapterLimits): Attached {
    const { names, clock, random, cells, tenantCells, tenantRows, onError } = this.#parts
    const row = names.rowOf(name)
    if (row < 0) throw badName('no adapter rows are left in this process: restart it')
    const attached = new Attached({
      name,
      row,
      adapter,
      limits,
      clock,
      random,
      cells,
      tenantCells,
      tenantRows,
      onError,
    })
    this.#attached.push(attached)
    attached.refresh()
    this.#countStates()
    this.#parts.onState?.(name, 'active', undefined)
    return attached
  }

  async #submit(
    direction: Direction,
    attached: Attached,
    tenant: TenantId,
    batch: KeyBatch,
    operation: (outcomes: Uint8Array, signal: AbortSignal) => Promise<number>,
    deadlineMs: number,
    signal: AbortSignal | undefined,
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
    attached.judge(batch.count === 0 || outcomes.some((outcome) => outcome !== OUTCOME_FAILED), ended.cause)
    if (bytes > 0) attached.moved(direction, tenant, bytes, busySeconds)
    // A rate needs a time: on a virtual clock a batch may take none.
    if (bytes > 0 && busySeconds > 0) {
      events.publish(direction === 'store' ? L2_STORED : L2_LOADED, tenant, nowMs, bytes, busySeconds, attached.row)
    }
    return { outcomes, bytes, busySeconds, quiesced: ended.quiesced }
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

  /** Cancels what is in flight, waits for it within bounds, closes. */
  async #end(attached: Attached): Promise<void> {
    attached.cancelAll()
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#parts.clock.schedule(2 * attached.limits.abandonAfterMs, resolve)
    await Promise.race([attached.idle(), promise])
    timer.cancel()
    try {
      await attached.adapter.close()
    } catch (error) {
      this.#parts.onError(attached.name, error)
    }
  }

  #known(name: string): Attached {
    const attached = this.find(name)
    if (attached === undefined) throw new CacheError('NOT_FOUND', `there is no adapter ${name}`, { field: 'name' })
    return attached
  }

  #setState(attached: Attached, state: AdapterState): void {
    const before = attached.state
    if (before === state) return
    assert(before !== 'removed', 'a removed adapter changed its state')
    attached.state = state
    this.#countStates()
    this.#parts.onState?.(attached.name, state, before)
  }

  #countStates(): void {
    for (const state of this.#parts.states.fields) {
      const count = this.#attached.filter((attached) => attached.state === state).length
      this.#parts.states.set(0, state, count)
    }
  }
}

function refused(batch: KeyBatch): BatchResult {
  const outcomes = new Uint8Array(batch.count).fill(OUTCOME_FAILED)
  return { outcomes, bytes: 0, busySeconds: 0, quiesced: undefined }
}

function badName(message: string): CacheError {
  return new CacheError('BAD_REQUEST', message, { field: 'name' })
}
