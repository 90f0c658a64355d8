import { FAULT_DEFAULT, type FaultAdapterOptions } from '../../l2/adapters/fault/options.ts'
import { MEMORY_DEFAULT } from '../../l2/options.ts'
import { duration, integer, ratio } from '../fields.ts'
import type { BackendSyntax } from './adapter-entry.ts'

/**
 * `type=fault`: an adapter of another type (`inner-type`, with that type's own keys beside these) that fails on
 * purpose. `backends.ts` fills in `inner`.
 */
export const faultSyntax: BackendSyntax<FaultAdapterOptions, 'inner'> = {
  fields: {
    latencyMs: duration('latency', '0ms', { minimumMs: 0, maximumMs: 600_000 }, 'What every operation waits for.'),
    errorRate: ratio('error-rate', FAULT_DEFAULT.errorRate, 'Share of operations that are refused.'),
    corruptRate: ratio('corrupt-rate', FAULT_DEFAULT.corruptRate, 'Share of loads that bring a corrupt object.'),
    hangRate: ratio('hang-rate', FAULT_DEFAULT.hangRate, 'Share of operations that do not end by themselves.'),
    seed: integer('seed', FAULT_DEFAULT.seed, { minimum: 0, maximum: 2 ** 32 - 1 }, 'The same seed, the same faults.'),
  },
  fixed: { inner: MEMORY_DEFAULT },
  required: { 'inner-type': 'filesystem' },
}
