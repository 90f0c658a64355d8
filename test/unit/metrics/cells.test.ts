import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { ADAPTER_ROWS } from '../../../src/events/counters.ts'
import { MetricCells, TABLES } from '../../../src/metrics/cells.ts'

it('shows another thread what the owner counted', async () => {
  const cells = MetricCells.create({ maxTenants: 3, busCapacityEvents: 16 })
  const tenant = cells.tenants.tenantOf('m', 's')
  const adapter = cells.adapters.rowOf('disk')
  cells.l1Tenants.add(tenant, 'writeShards', 5)
  cells.l2Tenants.add(adapter * cells.tenants.rows + tenant, 'storeBytes', 7)
  const source = `
    const { parentPort, workerData } = require('node:worker_threads')
    import(workerData.module).then(({ MetricCells }) => {
      const cells = MetricCells.attach(workerData.handles)
      parentPort.postMessage([
        cells.l1Tenants.sum('writeShards'), cells.l2Tenants.sum('storeBytes'),
        cells.tenants.labels(0).salt, cells.adapters.label(0), cells.bus.depth(),
      ])
    })`
  const module = new URL('../../../src/metrics/cells.ts', import.meta.url).href
  const worker = new Worker(source, { eval: true, workerData: { module, handles: cells.handles } })
  const answer = await new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  await worker.terminate()
  expect(answer).toEqual([5, 7, 's', 'disk', 0])
})

it('gives every table its own memory', () => {
  const cells = MetricCells.create({ maxTenants: 2, busCapacityEvents: 16 })
  let mark = 1
  for (const table of Object.values(cells.tables)) table.values.fill(mark++)
  mark = 1
  for (const table of Object.values(cells.tables)) {
    expect(table.values.every((value) => value === mark)).toBe(true)
    mark += 1
  }
  expect(cells.l2Tenants.rows).toBe(ADAPTER_ROWS * 3)
  expect(Object.keys(cells.tables)).toEqual(Object.keys(TABLES))
})
