import type { Clock } from '../../src/core/clock.ts'
import { CacheError } from '../../src/core/errors.ts'
import {
  type KeyBatch,
  type L2Adapter,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_NOT_FOUND,
} from '../../src/l2/adapter.ts'

/** What a faulty adapter may do to one call. */
export interface FaultRates {
  /** Chances out of 100. */
  readonly rejects: number
  readonly failsKeys: number
  readonly losesKeys: number
  readonly corruptsKeys: number
  /** Goes on long after its deadline, ignoring the signal, and only then touches the memory. */
  readonly hangs: number
  readonly delayMsMax: number
}

export const NO_FAULTS: FaultRates = {
  rejects: 0,
  failsKeys: 0,
  losesKeys: 0,
  corruptsKeys: 0,
  hangs: 0,
  delayMsMax: 5,
}

/** Wraps an adapter with faults by seed: latency, errors, hangs, keys that fail, vanish or are corrupt. */
export class FaultyAdapter implements L2Adapter {
  readonly type = 'faulty'
  rates: FaultRates
  readonly #inner: L2Adapter
  readonly #clock: Clock
  readonly #next: (limit: number) => number

  constructor(inner: L2Adapter, clock: Clock, next: (limit: number) => number, rates: FaultRates = NO_FAULTS) {
    this.#inner = inner
    this.#clock = clock
    this.#next = next
    this.rates = rates
  }

  open(): Promise<void> {
    return this.#inner.open()
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#before()
    await this.#inner.lookup(batch, found, signal)
  }

  async store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array): Promise<number> {
    await this.#before()
    const bytes = await this.#inner.store(batch, sources, outcomes, new AbortController().signal)
    for (let key = 0; key < batch.count; key += 1) if (this.#is('failsKeys')) outcomes[key] = OUTCOME_FAILED
    return bytes
  }

  async load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array): Promise<number> {
    await this.#before()
    const bytes = await this.#inner.load(batch, targets, outcomes, new AbortController().signal)
    let lost = 0
    for (let key = 0; key < batch.count; key += 1) {
      const outcome = this.#is('failsKeys')
        ? OUTCOME_FAILED
        : this.#is('losesKeys')
          ? OUTCOME_NOT_FOUND
          : this.#is('corruptsKeys')
            ? OUTCOME_CORRUPT
            : null
      if (outcome === null) continue
      outcomes[key] = outcome
      targets[key]!.fill(0xee) // a target that is not OK is garbage
      lost += targets[key]!.length
    }
    return Math.max(0, bytes - lost)
  }

  remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return this.#inner.remove(batch, signal)
  }

  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return this.#inner.clear(filter, signal)
  }

  usage() {
    return this.#inner.usage()
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  #is(what: Exclude<keyof FaultRates, 'delayMsMax'>): boolean {
    return this.#next(100) < this.rates[what]
  }

  async #before(): Promise<void> {
    const delayMs = this.#is('hangs') ? 120_000 : this.#next(this.rates.delayMsMax + 1)
    await new Promise<void>((resolve) => this.#clock.schedule(delayMs, resolve))
    if (this.#is('rejects')) throw new CacheError('L2_UNAVAILABLE', 'an injected fault')
  }
}
