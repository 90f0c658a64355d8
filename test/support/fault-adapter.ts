import type { Clock } from '../../src/core/clock.ts'
import { CacheError } from '../../src/core/errors.ts'
import {
  type AdapterUsage,
  type KeyBatch,
  type L2Adapter,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_OK,
} from '../../src/l2/adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../src/l2/options.ts'

/** What the next operation meets. `stuck` ignores its abort until `release`; `hang` ends with it. */
export type Fault = 'none' | 'slow' | 'reject' | 'reject_for_good' | 'hang' | 'stuck' | 'some_fail' | 'corrupt'
export const FAULTS: readonly Fault[] = [
  'none',
  'slow',
  'reject',
  'reject_for_good',
  'hang',
  'stuck',
  'some_fail',
  'corrupt',
]

/** An adapter over memory that fails as it is told. */
export class FaultAdapter implements L2Adapter {
  readonly type = 'fault'
  /** Asked once for each operation. */
  nextFault: () => Fault = () => 'none'
  readonly slowMs: number
  calls = 0
  readonly #inner: MemoryAdapter
  readonly #clock: Clock
  readonly #stuck: (() => void)[] = []

  constructor(clock: Clock, { capacityBytes = 0, slowMs = 5 } = {}) {
    this.#clock = clock
    this.#inner = new MemoryAdapter({ ...MEMORY_DEFAULT, capacityBytes })
    this.slowMs = slowMs
  }

  open(): Promise<void> {
    return this.#inner.open()
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#meet(signal)
    await this.#inner.lookup(batch, found, NEVER)
  }

  async store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    const fault = await this.#meet(signal)
    const bytes = await this.#inner.store(batch, sources, outcomes, NEVER)
    return fault === 'some_fail' ? this.#spoil(batch, outcomes, OUTCOME_FAILED, bytes) : bytes
  }

  async load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    const fault = await this.#meet(signal)
    const bytes = await this.#inner.load(batch, targets, outcomes, NEVER)
    if (fault !== 'some_fail' && fault !== 'corrupt') return bytes
    targets.at(-1)?.fill(0xee) // a target that is not OK is garbage
    return this.#spoil(batch, outcomes, fault === 'corrupt' ? OUTCOME_CORRUPT : OUTCOME_FAILED, bytes)
  }

  async remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    await this.#meet(signal)
    return this.#inner.remove(batch, NEVER)
  }

  async clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    await this.#meet(signal)
    return this.#inner.clear(filter, NEVER)
  }

  usage(): AdapterUsage {
    return this.#inner.usage()
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  /** Lets go of everything that is stuck. */
  release(): void {
    for (const resolve of this.#stuck.splice(0)) resolve()
  }

  /** The last key of the batch goes wrong. */
  #spoil(batch: KeyBatch, outcomes: Uint8Array, outcome: number, bytes: number): number {
    const last = batch.count - 1
    const wasOk = outcomes[last] === OUTCOME_OK
    outcomes[last] = outcome
    return wasOk ? Math.max(0, bytes - batch.space.shardBytes) : bytes
  }

  async #meet(signal: AbortSignal): Promise<Fault> {
    this.calls += 1
    const fault = this.nextFault()
    const { promise, resolve } = Promise.withResolvers<void>()
    switch (fault) {
      case 'slow':
        this.#clock.schedule(this.slowMs, resolve)
        await promise
        break
      case 'reject':
        throw new CacheError('L2_UNAVAILABLE', 'refused on purpose')
      case 'reject_for_good':
        throw new CacheError('L2_CORRUPT', 'broken on purpose')
      case 'hang':
        signal.addEventListener('abort', () => resolve())
        if (!signal.aborted) await promise
        throw new CacheError('L2_TIMEOUT', 'hung until given up')
      case 'stuck':
        this.#stuck.push(resolve)
        await promise
        break
      default:
    }
    return fault
  }
}

const NEVER = new AbortController().signal
