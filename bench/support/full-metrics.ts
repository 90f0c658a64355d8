import { SystemClock } from '../../src/core/clock.ts'
import { L1_SHARD_LEFT, L1_SHARD_TOUCHED } from '../../src/events/catalogue.ts'
import { MetricCells, type TableName } from '../../src/metrics/cells.ts'
import { renderPieces } from '../../src/metrics/prometheus.ts'
import { Recorder } from '../../src/metrics/recorder.ts'
import { SnapshotReader } from '../../src/metrics/snapshot.ts'

const TENANTS = 1_000
const HISTOGRAM_TENANTS = 150

export interface FullMetrics {
  readonly cells: MetricCells
  readonly recorder: Recorder
  readonly reader: SnapshotReader
}

function fillTable(cells: MetricCells, name: TableName, row: number): void {
  const { values, stride } = cells.tables[name]
  for (let field = 0; field < stride; field += 1) values[row * stride + field] = row * 7919 + field + 1
}

/**
 * Cells that render as at least `lines` sample lines: counters of 1,000 tenants and histograms of 150 of them, as an
 * engine at its limits would have; fewer with fewer `tenants`. The events of the histograms are on the bus as well when `isOnBus`.
 */
export function fullMetrics(lines: number, isOnBus = false, tenants = TENANTS): FullMetrics {
  const cells = MetricCells.create({ maxTenants: tenants })
  const recorder = new Recorder(cells)
  const reader = new SnapshotReader({ cells, recorder, clock: new SystemClock(), facts: {} })
  for (let i = 0; i < tenants; i += 1) {
    const tenant = cells.tenants.tenantOf(`vendor/model-${i % 8}`, `tenant-${i}`)
    for (const name of ['engineTenants', 'l1Tenants', 'l0Tenants', 'copyTenants'] as const)
      fillTable(cells, name, tenant)
    if (i >= HISTOGRAM_TENANTS) continue
    recorder.record(L1_SHARD_LEFT.id, tenant, 0, i / 7, i / 9, 1)
    recorder.record(L1_SHARD_TOUCHED.id, tenant, 0, i / 5, 1, 0)
    if (!isOnBus) continue
    cells.bus.publish(L1_SHARD_LEFT, tenant, 0, i / 7, i / 9, 1)
    cells.bus.publish(L1_SHARD_TOUCHED, tenant, 0, i / 5, 1)
  }
  for (let adapter = 0; countLines(reader) < lines; adapter += 1) {
    cells.adapters.rowOf(`disk-${adapter}`)
    for (let tenant = 0; tenant < tenants && countLines(reader) < lines; tenant += 100) {
      for (let row = tenant; row < Math.min(tenants, tenant + 100); row += 1) {
        fillTable(cells, 'l2Tenants', adapter * cells.tenants.rows + row)
      }
    }
  }
  return { cells, recorder, reader }
}

export function countLines(reader: SnapshotReader): number {
  let lines = 0
  for (const piece of renderPieces(reader.take(), 'text')) lines += piece.toString().split('\n').length
  return lines
}
