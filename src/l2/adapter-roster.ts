import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import { CacheError } from '../core/errors.ts'
import { within } from '../core/within.ts'
import type { L2_STATES } from '../events/counters.ts'
import type { L2Adapter } from './adapter.ts'
import type { DrainReport, RemovalReport } from './adapter-report.ts'
import { type AdapterField, type AdapterState, type AdapterTenantField, Attached } from './attached.ts'
import { isAway, LateOpening } from './late-opening.ts'
import { type AdapterLimits, isAdapterName } from './options.ts'

/** Adapter names as rows. A name keeps its row for good; a row is never another name's. */
export interface AdapterNames {
  /** The row of a name, in use from now on; -1 when none is left. */
  rowOf(name: string): number
  /** The name is no longer in use. */
  detach(row: number): void
}

export interface RosterParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
  readonly names: AdapterNames
  readonly cells: CounterTable<AdapterField>
  readonly tenantCells: CounterTable<AdapterTenantField>
  readonly states: CounterTable<(typeof L2_STATES)[number]>
  /** Rows of a per-tenant table. */
  readonly tenantRows: number
  /** Told every change of state, `undefined` before the first. */
  readonly onState?: (name: string, state: AdapterState, before: AdapterState | undefined) => void
  /** Told that an adapter was reached that had been attached while its backend was away. */
  readonly onReached?: (name: string) => void
  /** Told what an adapter failed with. Batches end as outcomes all the same. */
  readonly onError: (name: string, error: unknown) => void
}

/** An adapter that takes longer to open is given up; one that takes longer to close is left to itself. */
const OPEN_DEADLINE_MS = 15_000
const CLOSE_DEADLINE_MS = 5_000

/**
 * The adapters of an engine and their states.
 *
 *   add -> ACTIVE --drain--> DRAINING --remove--> REMOVED
 *            ^----undrain-------|                   ^
 *            +------fail------> FAILED ---remove----+     (any state but REMOVED may fail)
 *
 * Every wait is for one adapter alone: an adapter that hangs while it opens, drains or closes holds up nothing else.
 * Its name is taken from the start of `add` until `remove` has closed it, or has given that up.
 */
export class AdapterRoster {
  readonly #parts: RosterParts
  /** In order of configuration; without removed ones. */
  #attached: Attached[] = []
  /** Names that are being opened or closed. */
  readonly #busy = new Map<string, 'opened' | 'closed'>()
  readonly #late = new Map<Attached, LateOpening>()
  #isClosed = false

  constructor(parts: RosterParts) {
    this.#parts = parts
  }

  /**
   * Opens an adapter and attaches it as the last one to be asked.
   * @throws CacheError BAD_REQUEST for a bad name, L2_NAME_TAKEN, L2_BUSY, L2_TIMEOUT; what `open` throws.
   */
  async add(name: string, adapter: L2Adapter, limits: AdapterLimits): Promise<Attached> {
    this.checkFree(name)
    this.#busy.set(name, 'opened')
    const close = () => this.#closeLater(name, adapter)
    const opening = adapter.open()
    try {
      if (!(await within(this.#parts.clock, OPEN_DEADLINE_MS, opening))) throw tooLate(name)
      if (this.#isClosed) throw new CacheError('SHUTTING_DOWN', 'the engine is stopping')
      return this.#attach(name, adapter, limits)
    } catch (error) {
      opening.then(close, close) // what is still opening can only be closed afterwards
      throw error
    } finally {
      this.#busy.delete(name)
    }
  }

  /**
   * As `add`, but an adapter whose backend is away is attached all the same, and opened once it can be. Until then its
   * circuit is open. @throws CacheError as `add`, for what no further try mends.
   */
  async addEvenAway(name: string, adapter: L2Adapter, limits: AdapterLimits): Promise<Attached> {
    this.checkFree(name)
    this.#busy.set(name, 'opened')
    const opening = adapter.open()
    try {
      if (!(await within(this.#parts.clock, OPEN_DEADLINE_MS, opening))) throw tooLate(name)
      return this.#attach(name, adapter, limits)
    } catch (error) {
      if (!isAway(error)) {
        this.#closeLater(name, adapter)
        throw error
      }
      if (this.#isClosed) throw new CacheError('SHUTTING_DOWN', 'the engine is stopping')
      return this.#attachAway(name, adapter, limits, opening, error)
    } finally {
      this.#busy.delete(name)
    }
  }

  /** Attaches an adapter that could not be opened, so that people see it and why. @throws CacheError as `add`. */
  addFailed(name: string, adapter: L2Adapter, limits: AdapterLimits, error: unknown): Attached {
    this.checkFree(name)
    const attached = this.#attach(name, adapter, limits)
    this.fail(name, error)
    return attached
  }

  /** @throws CacheError BAD_REQUEST, L2_NAME_TAKEN, L2_BUSY */
  checkFree(name: string): void {
    if (!isAdapterName(name)) throw badName('an adapter name has 1 to 64 letters, digits, ".", "_" or "-"')
    if (this.find(name) !== undefined) {
      const message = `an adapter ${name} is attached: choose another name, or remove that one first`
      throw new CacheError('L2_NAME_TAKEN', message, { field: 'name' })
    }
    const busy = this.#busy.get(name)
    if (busy === undefined) return
    throw new CacheError('L2_BUSY', `an adapter ${name} is just being ${busy}: try again`, { field: 'name' })
  }

  /** An adapter that was not removed. */
  find(name: string): Attached | undefined {
    return this.#attached.find((attached) => attached.name === name)
  }

  /** An adapter that was not removed. @throws CacheError NOT_FOUND */
  known(name: string): Attached {
    const attached = this.find(name)
    if (attached === undefined) throw new CacheError('NOT_FOUND', `there is no adapter ${name}`, { field: 'name' })
    return attached
  }

  all(): readonly Attached[] {
    return this.#attached
  }

  /**
   * Stops giving new work to an adapter and waits until nothing in flight refers to it and `evacuation` has ended.
   * It stays attached: `remove` or `undrain` comes next. A further call gives it another deadline.
   * @throws CacheError NOT_FOUND, L2_DRAINING for a failed adapter.
   */
  async drain(name: string, deadlineMs: number, evacuation?: Promise<unknown>): Promise<DrainReport> {
    const attached = this.known(name)
    if (attached.state === 'failed') throw new CacheError('L2_DRAINING', `the adapter ${name} has failed: remove it`)
    const { clock } = this.#parts
    const drain = { startedMs: clock.nowMs(), deadlineMs: clock.nowMs() + deadlineMs, phase: 'waiting' as const }
    attached.drain = drain
    this.#setState(attached, 'draining')
    const empty = Promise.resolve(evacuation).then(() => attached.idle())
    const isDrained = (await within(clock, deadlineMs, empty)) && attached.isIdle
    if (attached.drain === drain) attached.drain = { ...drain, phase: isDrained ? 'drained' : 'deadline_passed' }
    return { state: attached.state, isDrained, left: attached.inFlight() }
  }

  /** Takes work again. @throws CacheError NOT_FOUND, L2_DRAINING for an adapter that is not draining. */
  undrain(name: string): void {
    const attached = this.known(name)
    if (attached.state !== 'draining') throw new CacheError('L2_DRAINING', `the adapter ${name} is not draining`)
    attached.drain = undefined
    this.#setState(attached, 'active')
  }

  /**
   * Detaches and closes an adapter; its objects stay where they are.
   * @param force ends what is in flight instead of refusing.
   * @throws CacheError NOT_FOUND; L2_DRAINING when work is in flight, or the adapter is active.
   */
  async remove(name: string, { force = false }: { readonly force?: boolean } = {}): Promise<RemovalReport> {
    const attached = this.checkRemovable(name, force)
    const left = attached.inFlight()
    this.#setState(attached, 'removed')
    this.#attached = this.#attached.filter((other) => other !== attached)
    this.#parts.names.detach(attached.row)
    const ended = this.#end(attached)
    const isEnded = await within(this.#parts.clock, CLOSE_DEADLINE_MS, ended)
    return { left, ...(isEnded ? await ended : STILL_CLOSING) }
  }

  /** @throws CacheError as `remove`. */
  checkRemovable(name: string, force: boolean): Attached {
    const attached = this.known(name)
    if (force || attached.state === 'failed') return attached
    if (attached.state === 'active') throw busyAdapter(name, 'is active: drain it first, or force the removal')
    if (attached.evacuations > 0) throw busyAdapter(name, 'is being evacuated: wait, or force the removal')
    if (!attached.isIdle) throw busyAdapter(name, 'still has work in flight: wait, or force the removal')
    return attached
  }

  /** The backend is lost for good: what is in flight is cancelled, nothing more is taken. */
  fail(name: string, error: unknown): void {
    const attached = this.find(name)
    if (attached === undefined || attached.isGone) return
    attached.lastError = error instanceof Error ? error.message : String(error)
    attached.drain = undefined
    this.#stopOpening(attached)
    this.#setState(attached, 'failed')
    attached.cancelAll()
    this.#parts.onError(name, error)
  }

  /** Ends what is in flight and closes every adapter. */
  async close(): Promise<void> {
    this.#isClosed = true
    const attached = this.#attached
    for (const one of attached) this.#setState(one, 'removed')
    this.#attached = []
    await Promise.all(attached.map((one) => within(this.#parts.clock, CLOSE_DEADLINE_MS, this.#end(one))))
  }

  #attachAway(
    name: string,
    adapter: L2Adapter,
    limits: AdapterLimits,
    opening: Promise<void>,
    error: unknown,
  ): Attached {
    const { clock, onError, onReached } = this.#parts
    const attached = this.#attach(name, adapter, limits, true)
    attached.lastError = error instanceof Error ? error.message : String(error)
    const late = new LateOpening(
      {
        clock,
        attached,
        onAway: (reason) => onError(name, reason),
        onGivenUp: (reason) => this.fail(name, reason),
        onReached: () => {
          this.#late.delete(attached)
          onReached?.(name)
        },
      },
      opening,
    )
    this.#late.set(attached, late)
    return attached
  }

  #stopOpening(attached: Attached): void {
    this.#late.get(attached)?.stop()
    this.#late.delete(attached)
  }

  #closeLater(name: string, adapter: L2Adapter): void {
    adapter.close().catch((error: unknown) => this.#parts.onError(name, error))
  }

  #attach(name: string, adapter: L2Adapter, limits: AdapterLimits, isAway = false): Attached {
    const row = this.#parts.names.rowOf(name)
    if (row < 0) throw badName('no adapter rows are left in this process: use a name that was used before, or restart')
    const attached = new Attached({ ...this.#parts, name, row, adapter, limits })
    if (isAway) attached.circuit.hold()
    this.#attached.push(attached)
    attached.refresh()
    this.#countStates()
    this.#parts.onState?.(name, 'active', undefined)
    return attached
  }

  /** Cancels what is in flight, waits for it within bounds, closes. Never rejects. */
  async #end(attached: Attached): Promise<Omit<RemovalReport, 'left'>> {
    const { clock, onError } = this.#parts
    this.#busy.set(attached.name, 'closed')
    this.#stopOpening(attached)
    attached.cancelAll()
    await within(clock, 2 * attached.limits.abandonAfterMs, attached.idle())
    try {
      const isClosed = await within(clock, CLOSE_DEADLINE_MS, attached.adapter.close())
      return isClosed ? { isClosed, error: '' } : STILL_CLOSING
    } catch (error) {
      onError(attached.name, error)
      return { isClosed: true, error: error instanceof Error ? error.message : String(error) }
    } finally {
      this.#busy.delete(attached.name)
    }
  }

  #setState(attached: Attached, state: AdapterState): void {
    const before = attached.state
    if (before === state) return
    assert(before !== 'removed', 'a removed adapter changed its state')
    attached.state = state
    this.#countStates()
    attached.refresh()
    this.#parts.onState?.(attached.name, state, before)
  }

  #countStates(): void {
    for (const state of this.#parts.states.fields) {
      const count = this.#attached.filter((attached) => attached.state === state).length
      this.#parts.states.set(0, state, count)
    }
  }
}

const STILL_CLOSING = { isClosed: false, error: '' } as const

function tooLate(name: string): CacheError {
  const message = `the adapter ${name} did not open within ${OPEN_DEADLINE_MS / 1000} s`
  return new CacheError('L2_TIMEOUT', message, { field: 'name' })
}

function busyAdapter(name: string, why: string): CacheError {
  return new CacheError('L2_DRAINING', `the adapter ${name} ${why}`, { field: 'name' })
}

function badName(message: string): CacheError {
  return new CacheError('BAD_REQUEST', message, { field: 'name' })
}
