import { expect } from 'vitest'
import type { Engine } from '../../src/engine/engine.ts'

/** The laws of metrics.md that hold at every instant. Throws at the first that does not. */
export function checkLaws(engine: Engine): void {
  const { cells, l1 } = engine
  l1.verify() // written + recovered = resident + evicted + removed; usage = resident + reserved + quarantined + doomed
  engine.device?.blocks.verify()
  for (let tenant = 0; tenant < cells.tenants.rows; tenant += 1) {
    const lookups = (field: Parameters<typeof cells.engineTenants.get>[1]) => cells.engineTenants.get(tenant, field)
    expect(lookups('hitTokens')).toBeLessThanOrEqual(lookups('requestedTokens'))
    expect(lookups('hitTokensL0') + lookups('hitTokensL1') + lookups('hitTokensL2')).toBe(lookups('hitTokens'))
  }
  const usage = cells.l1.get(0, 'usageBytes')
  expect(usage).toBeLessThanOrEqual(cells.l1.get(0, 'capacityBytes'))
  expect(cells.l1.get(0, 'usageRatio')).toBeCloseTo(usage / cells.l1.get(0, 'capacityBytes'), 12)
  expect(cells.l1Tenants.sum('usageBytes')).toBe(usage)
  for (const { row } of engine.adapters.all()) checkAdapter(engine, row)
}

function checkAdapter({ cells }: Engine, row: number): void {
  const total = (field: Parameters<typeof cells.l2Tenants.get>[1]) => {
    let sum = 0
    for (let tenant = 0; tenant < cells.tenants.rows; tenant += 1) {
      sum += cells.l2Tenants.get(row * cells.tenants.rows + tenant, field)
    }
    return sum
  }
  const storeFailures =
    total('storeFailedError') +
    total('storeFailedTimeout') +
    total('storeFailedFull') +
    total('storeFailedCorrupt') +
    total('storeFailedCancelled')
  const loadFailures =
    total('failureNotFound') + total('failureCorrupt') + total('failureError') + total('failureCancelled')
  const inflight = (field: Parameters<typeof cells.l2.get>[1]) => cells.l2.get(row, field)
  expect(total('storeSubmittedRequests')).toBe(total('storeCompletedRequests') + inflight('inflightStores'))
  expect(total('storeSubmittedObjects')).toBe(
    total('storeCompletedObjects') + storeFailures + inflight('inflightStoreObjects'),
  )
  expect(total('loadSubmittedRequests')).toBe(total('loadCompletedRequests') + inflight('inflightLoads'))
  expect(total('loadSubmittedObjects')).toBe(
    total('loadCompletedObjects') + loadFailures + inflight('inflightLoadObjects'),
  )
}

/** The laws that hold once nothing is under way: gauges are back at 0, and every departure left a lifetime sample. */
export function checkLawsAtRest(engine: Engine, lifetimeSamples: number): void {
  checkLaws(engine)
  const { cells } = engine
  expect(cells.engine.get(0, 'activePrefetchJobs')).toBe(0)
  for (const { row } of engine.adapters.all()) {
    expect(cells.l2.get(row, 'inflightStores')).toBe(0)
    expect(cells.l2.get(row, 'inflightLoads')).toBe(0)
    expect(cells.l2.get(row, 'inflightLoadBytes')).toBe(0)
  }
  expect(cells.bus.dropped()).toBe(0)
  const { l1Tenants } = cells
  const removed = (['removedClear', 'removedDelete', 'removedQuota', 'removedCorrupt'] as const).reduce(
    (sum, field) => sum + l1Tenants.sum(field),
    0,
  )
  expect(lifetimeSamples).toBe(l1Tenants.sum('evictedShards') + removed)
}
