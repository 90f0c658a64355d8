import type { BackendOptions } from '../../options.ts'

/** An adapter of another type that fails on purpose, for drills. Rates are shares 0..1 of the operations. */
export interface FaultAdapterOptions {
  readonly type: 'fault'
  readonly inner: Exclude<BackendOptions, { readonly type: 'fault' }>
  /** What every operation waits for before it begins. */
  readonly latencyMs: number
  /** Operations that are refused, as by a server that is down. */
  readonly errorRate: number
  /** Loads that bring one object with a bit turned round: it is found, and reported as corrupt. */
  readonly corruptRate: number
  /** Operations that do not end before they are given up. */
  readonly hangRate: number
  /** The n-th operation after a start meets the same fate under the same seed. */
  readonly seed: number
}

export const FAULT_DEFAULT: Omit<FaultAdapterOptions, 'inner'> = {
  type: 'fault',
  latencyMs: 0,
  errorRate: 0,
  corruptRate: 0,
  hangRate: 0,
  seed: 1,
}
