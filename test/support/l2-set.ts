import { setImmediate } from 'node:timers/promises'
import { ManualClock } from '../../src/core/clock.ts'
import { CounterTable } from '../../src/core/counters.ts'
import { ADAPTER_ROWS, L2_FIELDS, L2_STATES, L2_TENANT_FIELDS } from '../../src/events/counters.ts'
import type { EventType } from '../../src/events/define.ts'
import { AdapterSet } from '../../src/l2/adapter-set.ts'
import { ADAPTER_LIMITS_DEFAULT, type AdapterLimits } from '../../src/l2/options.ts'
import { NameTable } from '../../src/metrics/label-sets.ts'
import { random } from './random.ts'

export const LIMITS: AdapterLimits = {
  ...ADAPTER_LIMITS_DEFAULT,
  storeDeadlineMs: 100,
  loadDeadlineMs: 100,
  lookupDeadlineMs: 100,
  abandonAfterMs: 10,
  retries: 1,
  retryDelayMs: 4,
  circuitFailures: 3,
  circuitOpenMs: 200,
}

export const TENANTS = 3

/** An adapter set with its numbers, a clock to move, and what it told. */
export function makeSet(seed = 1) {
  const clock = new ManualClock()
  const next = random(seed)
  const cells = new CounterTable(L2_FIELDS, ADAPTER_ROWS)
  const tenantCells = new CounterTable(L2_TENANT_FIELDS, ADAPTER_ROWS * TENANTS)
  const states = new CounterTable(L2_STATES, 1)
  const events: { type: string; tenant: number; a: number; b: number; c: number }[] = []
  const changes: string[] = []
  const errors: unknown[] = []
  const reached: string[] = []
  const set = new AdapterSet({
    clock,
    random: () => next(1000) / 1000,
    events: {
      publish: (type: EventType, tenant, _timeMs, a = 0, b = 0, c = 0) =>
        void events.push({ type: type.name, tenant, a, b, c }),
    },
    names: NameTable.create({ rows: ADAPTER_ROWS }),
    cells,
    tenantCells,
    states,
    tenantRows: TENANTS,
    onState: (name, state, before) => void changes.push(`${name}: ${before ?? 'new'} -> ${state}`),
    onReached: (name) => void reached.push(name),
    onError: (_name, error) => void errors.push(error),
  })
  return { set, clock, cells, tenantCells, states, events, changes, errors, reached }
}

/** Lets everything run that waits for nothing but its turn. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await setImmediate()
}
