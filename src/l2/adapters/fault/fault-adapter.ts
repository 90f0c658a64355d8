import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import {
  type AdapterUsage,
  cannotList,
  type KeyBatch,
  type L2Adapter,
  type ObjectPage,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_OK,
  type QuotaChanges,
  type TenantUsage,
} from '../../adapter.ts'
import { scrubObjects } from '../../scrub-objects.ts'

/**
 * What an operation meets.
 *
 *   reject            refused before anything is tried, as by a server that is down; it may be tried again
 *   reject_for_good   refused in a way that a retry does not help
 *   hang              begins nothing, and ends only when it is given up
 *   stuck             does not end even then, but at `release`, and does late what it was asked
 *   some_fail         the last key of a store or load fails
 *   corrupt           the last object of a load has a bit turned round
 */
export const FAULT_EFFECTS = ['none', 'reject', 'reject_for_good', 'hang', 'stuck', 'some_fail', 'corrupt'] as const
export type FaultEffect = (typeof FAULT_EFFECTS)[number]

export interface Fault {
  readonly effect: FaultEffect
  /** What the operation waits for first, unless it is given up. */
  readonly delayMs: number
}

export interface FaultParts {
  readonly clock: Clock
  /** Asked once for each operation but open and close. */
  readonly nextFault: () => Fault
}

/** A signal that never fires. */
const NEVER = new AbortController().signal

/** Another adapter that fails on purpose, for drills. Bytes that it spoils are never reported as good. */
export class FaultAdapter implements L2Adapter {
  readonly type = 'fault'
  readonly isPeer: boolean
  readonly #inner: L2Adapter
  readonly #parts: FaultParts
  readonly #stuck = new Set<() => void>()
  #checksumFailures = 0

  constructor(inner: L2Adapter, parts: FaultParts) {
    this.#inner = inner
    this.isPeer = inner.isPeer === true
    this.#parts = parts
  }

  open(): Promise<void> {
    return this.#inner.open()
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    const { through } = await this.#meet(signal)
    await this.#inner.lookup(batch, found, through)
  }

  async store(
    batch: KeyBatch,
    sources: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const { effect, through } = await this.#meet(signal)
    const bytes = await this.#inner.store(batch, sources, outcomes, through)
    return effect === 'some_fail' ? this.#spoil(batch, outcomes, OUTCOME_FAILED, bytes) : bytes
  }

  async load(
    batch: KeyBatch,
    targets: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const { effect, through } = await this.#meet(signal)
    const bytes = await this.#inner.load(batch, targets, outcomes, through)
    if (effect === 'some_fail') return this.#spoil(batch, outcomes, OUTCOME_FAILED, bytes)
    const last = batch.count - 1
    if (effect !== 'corrupt' || outcomes[last] !== OUTCOME_OK) return bytes
    const target = targets[last]!
    target[target.length >>> 1]! ^= 1
    this.#checksumFailures += 1
    return this.#spoil(batch, outcomes, OUTCOME_CORRUPT, bytes)
  }

  async remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    const { through } = await this.#meet(signal)
    return this.#inner.remove(batch, through)
  }

  async clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    const { through } = await this.#meet(signal)
    return this.#inner.clear(filter, through)
  }

  async list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    if (this.#inner.list === undefined) throw cannotList(this.#inner)
    const { through } = await this.#meet(signal)
    return this.#inner.list(cursor, countMax, through)
  }

  async scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    const { through } = await this.#meet(signal)
    return scrubObjects(this.#inner, batch, outcomes, through)
  }

  /** Without faults, as `tenants` is: they are asked by the clock, and would shift what batches meet. */
  async setQuotas(changes: QuotaChanges, signal: AbortSignal): Promise<boolean> {
    return (await this.#inner.setQuotas?.(changes, signal)) ?? false
  }

  async tenants(signal: AbortSignal): Promise<TenantUsage[]> {
    return (await this.#inner.tenants?.(signal)) ?? []
  }

  usage(): AdapterUsage {
    const usage = this.#inner.usage()
    return { ...usage, checksumFailures: usage.checksumFailures + this.#checksumFailures }
  }

  close(): Promise<void> {
    this.release()
    return this.#inner.close()
  }

  /** Lets go of everything that is stuck. */
  release(): void {
    for (const resolve of this.#stuck) resolve()
    this.#stuck.clear()
  }

  /** The last key of the batch goes wrong. @returns bytes that count. */
  #spoil(batch: KeyBatch, outcomes: Uint8Array, outcome: number, bytes: number): number {
    const last = batch.count - 1
    const wasOk = outcomes[last] === OUTCOME_OK
    outcomes[last] = outcome
    return wasOk ? Math.max(0, bytes - batch.space.shardBytes) : bytes
  }

  /** @throws CacheError L2_UNAVAILABLE, L2_CORRUPT, L2_TIMEOUT: what the fault says, or that the call was given up. */
  async #meet(signal: AbortSignal): Promise<{ effect: FaultEffect; through: AbortSignal }> {
    const { effect, delayMs } = this.#parts.nextFault()
    if (delayMs > 0) await this.#wait(delayMs, signal)
    if (effect === 'reject') throw new CacheError('L2_UNAVAILABLE', 'refused on purpose')
    if (effect === 'reject_for_good') throw new CacheError('L2_CORRUPT', 'broken on purpose')
    if (effect === 'stuck') {
      await new Promise<void>((resolve) => this.#stuck.add(resolve))
      return { effect, through: NEVER }
    }
    if (effect === 'hang') await this.#wait(undefined, signal)
    if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up')
    return { effect, through: signal }
  }

  /** Waits, for ever without `delayMs`, or until the operation is given up. */
  async #wait(delayMs: number | undefined, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const onAbort = () => resolve()
    const timer = delayMs === undefined ? undefined : this.#parts.clock.schedule(delayMs, resolve)
    signal.addEventListener('abort', onAbort, { once: true })
    await promise
    timer?.cancel()
    signal.removeEventListener('abort', onAbort)
  }
}
