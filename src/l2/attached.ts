import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import { CacheError } from '../core/errors.ts'
import type { TenantId } from '../core/ids.ts'
import type { L2_FIELDS, L2_TENANT_FIELDS } from '../events/counters.ts'
import {
  type KeyBatch,
  type L2Adapter,
  OUTCOME_CORRUPT,
  OUTCOME_FULL,
  OUTCOME_NOT_FOUND,
  OUTCOME_OK,
} from './adapter.ts'
import { BatchAttempt, type Ended, type FailureCause } from './batch-attempt.ts'
import { CircuitBreaker, type CircuitWork } from './circuit-breaker.ts'
import type { AdapterLimits } from './options.ts'

export type AdapterState = 'active' | 'draining' | 'removed' | 'failed'
export type AdapterField = (typeof L2_FIELDS)[number]
export type AdapterTenantField = (typeof L2_TENANT_FIELDS)[number]

export interface AttachedParts {
  readonly name: string
  /** Row of the adapter tables. */
  readonly row: number
  readonly adapter: L2Adapter
  readonly limits: AdapterLimits
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
  readonly cells: CounterTable<AdapterField>
  readonly tenantCells: CounterTable<AdapterTenantField>
  /** Rows of a per-tenant table: the row of a tenant is row x tenantRows + tenant. */
  readonly tenantRows: number
  readonly onError: (name: string, error: unknown) => void
}

/** A drain that was asked for. Times of the set's clock. */
export interface Drain {
  readonly startedMs: number
  readonly deadlineMs: number
  readonly phase: 'waiting' | 'drained' | 'deadline_passed'
}

/** What still refers to an adapter. */
export interface InFlight {
  readonly stores: number
  readonly storeBytes: number
  readonly loads: number
  readonly loadBytes: number
  /** Lookups, clears and jobs. */
  readonly others: number
  /** Batches that ended without their adapter, which may still touch their memory. */
  readonly abandoned: number
}

/** Cells of the two directions: the laws of each are the same. */
const DIRECTIONS = {
  store: {
    batches: 'inflightStores',
    objects: 'inflightStoreObjects',
    submittedRequests: 'storeSubmittedRequests',
    submittedObjects: 'storeSubmittedObjects',
    completedRequests: 'storeCompletedRequests',
    completedObjects: 'storeCompletedObjects',
    bytes: 'storeBytes',
    busySeconds: 'storeBusySeconds',
  },
  load: {
    batches: 'inflightLoads',
    objects: 'inflightLoadObjects',
    submittedRequests: 'loadSubmittedRequests',
    submittedObjects: 'loadSubmittedObjects',
    completedRequests: 'loadCompletedRequests',
    completedObjects: 'loadCompletedObjects',
    bytes: 'loadBytes',
    busySeconds: 'loadBusySeconds',
  },
} as const

/** As `l2_adapter_state` shows them. */
const STATE_NUMBERS = { active: 0, draining: 1, failed: 2, removed: 2 } as const

export type Direction = keyof typeof DIRECTIONS

/**
 * One adapter in the set: its state, its breaker, its numbers. The set changes the state; everyone else reads.
 * Law, per tenant and direction, whenever no method runs: submitted = completed + failed + in flight.
 */
export class Attached {
  readonly name: string
  readonly row: number
  readonly adapter: L2Adapter
  readonly limits: AdapterLimits
  readonly circuit: CircuitBreaker
  /** Written by the set alone. */
  state: AdapterState = 'active'
  drain: Drain | undefined
  lastError = ''
  /** Evacuations of its objects under way. Written by them. */
  evacuations = 0
  readonly #parts: AttachedParts
  readonly #attempts = new Set<BatchAttempt>()
  readonly #inFlightBatches = { store: 0, load: 0 }
  readonly #inFlightBytes = { store: 0, load: 0 }
  #others = 0
  #abandoned = 0
  #evictedSeen = 0
  #quotaEvictedSeen = 0
  #failuresSeen = 0
  #idleWaiters: (() => void)[] = []

  constructor(parts: AttachedParts) {
    this.name = parts.name
    this.row = parts.row
    this.adapter = parts.adapter
    this.limits = parts.limits
    this.circuit = new CircuitBreaker(parts.limits.circuitFailures, parts.limits.circuitOpenMs)
    this.#parts = parts
  }

  /** Takes new stores. */
  get isStorable(): boolean {
    return this.state === 'active' && this.adapter.isPeer !== true
  }

  /** Takes new lookups. */
  get isLoadable(): boolean {
    return this.state === 'active' && this.circuit.wouldPass(this.#parts.clock.nowMs())
  }

  /** Its backend was reached since it was attached. */
  get isReached(): boolean {
    return !this.circuit.isHeld
  }

  /** Takes nothing any more. */
  get isGone(): boolean {
    return this.state === 'removed' || this.state === 'failed'
  }

  inFlight(): InFlight {
    return {
      stores: this.#inFlightBatches.store,
      storeBytes: this.#inFlightBytes.store,
      loads: this.#inFlightBatches.load,
      loadBytes: this.#inFlightBytes.load,
      others: this.#others,
      abandoned: this.#abandoned,
    }
  }

  get isIdle(): boolean {
    return this.#attempts.size === 0 && this.#abandoned === 0
  }

  /** Resolves when nothing refers to the adapter. */
  idle(): Promise<void> {
    if (this.isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  cancelAll(): void {
    for (const attempt of this.#attempts) attempt.cancel()
  }

  /** Hands an operation to the adapter, under deadline, retries and breaker. The caller has asked `circuit.tryPass`. */
  async attempt<T>(
    operation: (signal: AbortSignal) => Promise<T>,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Ended<T>> {
    const attempt = new BatchAttempt({ clock: this.#parts.clock, random: this.#parts.random, limits: this.limits })
    this.#attempts.add(attempt)
    const ended = await attempt.run(operation, deadlineMs, signal)
    this.#attempts.delete(attempt)
    if (ended.quiesced !== undefined) this.#awaitAbandoned(ended.quiesced)
    // The caller asked for something wrong, such as a cursor of nobody: that says nothing of the backend.
    if (ended.error instanceof CacheError && ended.error.kind === 'usage') return { ...ended, cause: 'cancelled' }
    if (ended.error !== undefined && ended.cause !== 'cancelled') {
      this.lastError = ended.error instanceof Error ? ended.error.message : String(ended.error)
      this.#parts.onError(this.name, ended.error)
    }
    return ended
  }

  /** Tells the breaker how a batch ended. @param hasServed at least one key was neither failed nor untried. */
  judge(work: CircuitWork, hasServed: boolean, cause: FailureCause): void {
    if (hasServed) this.circuit.succeed(work)
    else if (cause === 'cancelled') this.circuit.leave()
    else this.circuit.fail(this.#parts.clock.nowMs(), work)
    this.refresh()
  }

  begin(direction: Direction, tenant: TenantId, batch: KeyBatch): void {
    const fields = DIRECTIONS[direction]
    this.#count(tenant, fields.submittedRequests, 1)
    this.#count(tenant, fields.submittedObjects, batch.count)
    this.#move(direction, batch, 1)
    this.refresh()
  }

  end(direction: Direction, tenant: TenantId, batch: KeyBatch, outcomes: Uint8Array, cause: FailureCause): void {
    const fields = DIRECTIONS[direction]
    for (const outcome of outcomes) {
      if (outcome === OUTCOME_OK) this.#count(tenant, fields.completedObjects, 1)
      else this.#count(tenant, failureField(direction, outcome, cause), 1)
    }
    this.#count(tenant, fields.completedRequests, 1)
    this.#move(direction, batch, -1)
    this.#tellIdle()
  }

  moved(direction: Direction, tenant: TenantId, bytes: number, busySeconds: number): void {
    this.#count(tenant, DIRECTIONS[direction].bytes, bytes)
    this.#count(tenant, DIRECTIONS[direction].busySeconds, busySeconds)
  }

  beginOther(): void {
    this.#others += 1
  }

  endOther(): void {
    this.#others -= 1
    this.#tellIdle()
  }

  /** Adds to a number of the adapter that is of no tenant: what jobs do. */
  count(field: AdapterField, amount: number): void {
    this.#parts.cells.add(this.row, field, amount)
  }

  countTenant(tenant: TenantId, field: AdapterTenantField, amount: number): void {
    this.#count(tenant, field, amount)
  }

  /** Copies what the adapter says of itself into the cells. Its counters start anew with each opening; ours go on. */
  refresh(): void {
    if (this.state === 'removed') return // its row may be in use again
    const { cells } = this.#parts
    const usage = this.adapter.usage()
    cells.set(this.row, 'usageBytes', usage.bytes)
    cells.set(this.row, 'objects', usage.objects)
    cells.set(this.row, 'capacityBytes', usage.capacityBytes)
    cells.add(this.row, 'evictedObjects', usage.evictedObjects - this.#evictedSeen)
    const quotaEvicted = usage.quotaEvictedObjects ?? 0
    cells.add(this.row, 'quotaEvictedObjects', quotaEvicted - this.#quotaEvictedSeen)
    this.#quotaEvictedSeen = quotaEvicted
    cells.add(this.row, 'checksumFailures', usage.checksumFailures - this.#failuresSeen)
    cells.set(this.row, 'circuitState', this.circuit.state)
    cells.set(this.row, 'state', STATE_NUMBERS[this.state])
    this.#evictedSeen = usage.evictedObjects
    this.#failuresSeen = usage.checksumFailures
  }

  #awaitAbandoned(quiesced: Promise<void>): void {
    this.#abandoned += 1
    quiesced.then(() => {
      this.#abandoned -= 1
      this.#tellIdle()
    })
  }

  #tellIdle(): void {
    if (!this.isIdle || this.#idleWaiters.length === 0) return
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const resolve of waiters) resolve()
  }

  #count(tenant: TenantId, field: AdapterTenantField, amount: number): void {
    this.#parts.tenantCells.add(this.row * this.#parts.tenantRows + tenant, field, amount)
  }

  #move(direction: Direction, batch: KeyBatch, sign: 1 | -1): void {
    const { cells } = this.#parts
    const bytes = sign * batch.count * batch.space.shardBytes
    cells.add(this.row, DIRECTIONS[direction].batches, sign)
    cells.add(this.row, DIRECTIONS[direction].objects, sign * batch.count)
    if (direction === 'load') cells.add(this.row, 'inflightLoadBytes', bytes)
    this.#inFlightBytes[direction] += bytes
    this.#inFlightBatches[direction] += sign
    assert(this.#inFlightBatches[direction] >= 0, 'more batches ended than began')
  }
}

function failureField(direction: Direction, outcome: number, cause: FailureCause): AdapterTenantField {
  if (direction === 'store') {
    if (outcome === OUTCOME_FULL) return 'storeFailedFull'
    if (outcome === OUTCOME_CORRUPT) return 'storeFailedCorrupt'
    if (cause === 'timeout') return 'storeFailedTimeout'
    return cause === 'cancelled' ? 'storeFailedCancelled' : 'storeFailedError'
  }
  if (outcome === OUTCOME_NOT_FOUND) return 'failureNotFound'
  if (outcome === OUTCOME_CORRUPT) return 'failureCorrupt'
  return cause === 'cancelled' ? 'failureCancelled' : 'failureError'
}
