import { expect } from 'vitest'
import type { makeSet } from './l2-set.ts'
import { TENANTS } from './l2-set.ts'

type Made = Pick<ReturnType<typeof makeSet>, 'set' | 'cells' | 'tenantCells' | 'states'>

const STORE_FAILURES = [
  'storeFailedError',
  'storeFailedTimeout',
  'storeFailedFull',
  'storeFailedCorrupt',
  'storeFailedCancelled',
] as const
const LOAD_FAILURES = ['failureNotFound', 'failureCorrupt', 'failureError', 'failureCancelled'] as const
const STATE_NUMBERS = { active: 0, draining: 1, failed: 2, removed: 2 } as const

/** Submitted = completed + failed + in flight, for stores and loads of the adapter of a row, over all tenants. */
export function checkTrafficLaws(made: Made, row: number): void {
  const sum = (...fields: Parameters<Made['tenantCells']['get']>[1][]): number => {
    let total = 0
    for (let tenant = 0; tenant < TENANTS; tenant += 1) {
      for (const field of fields) total += made.tenantCells.get(row * TENANTS + tenant, field)
    }
    return total
  }
  const cell = (field: Parameters<Made['cells']['get']>[1]) => made.cells.get(row, field)
  expect(sum('storeSubmittedRequests')).toBe(sum('storeCompletedRequests') + cell('inflightStores'))
  expect(sum('storeSubmittedObjects')).toBe(
    sum('storeCompletedObjects', ...STORE_FAILURES) + cell('inflightStoreObjects'),
  )
  expect(sum('loadSubmittedRequests')).toBe(sum('loadCompletedRequests') + cell('inflightLoads'))
  expect(sum('loadSubmittedObjects')).toBe(sum('loadCompletedObjects', ...LOAD_FAILURES) + cell('inflightLoadObjects'))
}

/** Names are unique, and the numbers of states say what the adapters are. */
export function checkStateLaws({ set, cells, states }: Made): void {
  const attached = set.all()
  expect(new Set(attached.map(({ name }) => name)).size).toBe(attached.length)
  for (const state of ['active', 'draining'] as const) {
    expect(states.get(0, state)).toBe(attached.filter((one) => one.state === state).length)
  }
  for (const one of attached) {
    expect(cells.get(one.row, 'state')).toBe(STATE_NUMBERS[one.state])
    expect(one.drain === undefined).toBe(one.state !== 'draining')
  }
}
