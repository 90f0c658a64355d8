import type { Clock } from '../../src/core/clock.ts'
import {
  FAULT_EFFECTS,
  type FaultEffect,
  FaultAdapter as FaultInjector,
} from '../../src/l2/adapters/fault/fault-adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../src/l2/options.ts'

/** What the next operation meets: `slow` is a delay alone. */
export type Fault = FaultEffect | 'slow'
export const FAULTS: readonly Fault[] = [...FAULT_EFFECTS, 'slow']

/** An adapter over memory that fails as a test tells it. */
export class FaultAdapter extends FaultInjector {
  /** Asked once for each operation. */
  nextFault: () => Fault
  calls: number

  constructor(clock: Clock, { capacityBytes = 0, slowMs = 5 } = {}) {
    super(new MemoryAdapter({ ...MEMORY_DEFAULT, capacityBytes }), {
      clock,
      nextFault: () => {
        this.calls += 1
        const told = this.nextFault()
        return told === 'slow' ? { effect: 'none', delayMs: slowMs } : { effect: told, delayMs: 0 }
      },
    })
    this.nextFault = () => 'none'
    this.calls = 0
  }
}
