import { ManualClock } from '../../src/core/clock.ts'
import { CHUNK_ASKED } from '../../src/events/catalogue.ts'
import { chunkTag } from '../../src/events/chunk-tag.ts'
import { EVENT_TYPES } from '../../src/events/define.ts'
import { MetricCells, type TableName } from '../../src/metrics/cells.ts'
import type { MetricFacts } from '../../src/metrics/readings.ts'
import { Recorder } from '../../src/metrics/recorder.ts'
import { SnapshotReader } from '../../src/metrics/snapshot.ts'

/** Label values made to break an exposition. */
export const HOSTILE_LABELS = [
  '',
  'a"b',
  'a,b:c',
  ',b:',
  'line\nbreak',
  'back\\slash',
  '\\n',
  '{}=',
  '\ud800x',
  'ü€😀',
  '#',
  ' ',
]

export interface Measured {
  readonly cells: MetricCells
  readonly recorder: Recorder
  readonly clock: ManualClock
  readonly reader: SnapshotReader
}

export function measured(facts: MetricFacts = {}, maxTenants = 64): Measured {
  const cells = MetricCells.create({ maxTenants, busCapacityEvents: 64 })
  const recorder = new Recorder(cells, { historyChunks: 8 })
  const clock = new ManualClock()
  return { cells, recorder, clock, reader: new SnapshotReader({ cells, recorder, clock, facts }) }
}

/** Records something for every metric of the catalogue and every hostile label value; all numbers differ. */
export function recordEverything(): Measured {
  const all = measured({ device: { kind: 'simulated', name: 'GPU "0"', profile: 'h100\\sxm' } })
  const { cells, recorder, clock } = all
  const tenants = HOSTILE_LABELS.map((label) => cells.tenants.tenantOf(`m${label}`, label))
  const adapters = HOSTILE_LABELS.map((label) => cells.adapters.rowOf(`l2${label}`))
  for (let i = 0; i < 60; i += 1) cells.tenants.tenantOf('crowd', `${i}`)
  let amount = 1
  const fill = (name: TableName, row: number) => {
    for (const field of cells.tables[name].fields)
      (cells.tables[name] as { set(r: number, f: string, v: number): void }).set(row, field, amount++)
  }
  for (const name of ['engine', 'l1', 'l0', 'l2States', 'spans', 'spanPush'] as const) fill(name, 0)
  for (const tenant of [...tenants, cells.tenants.fold]) {
    for (const name of ['engineTenants', 'l1Tenants', 'l0Tenants', 'copyTenants'] as const) fill(name, tenant)
    for (const adapter of adapters) fill('l2Tenants', adapter * cells.tenants.rows + tenant)
  }
  for (const adapter of adapters) fill('l2', adapter)
  for (let loop = 0; loop < cells.loops.rows; loop += 1) fill('loops', loop)
  for (const tenant of tenants) {
    for (const type of EVENT_TYPES) {
      if (type.id === CHUNK_ASKED.id) continue
      recorder.record(type.id, tenant, clock.nowMs(), amount++ / 7, 0.25, adapters[tenant % adapters.length]!)
    }
    recorder.record(EVENT_TYPES.find(({ name }) => name === 'chunk_stored')!.id, tenant, 1, 7, 9, 0)
    recorder.record(EVENT_TYPES.find(({ name }) => name === 'chunk_reused')!.id, tenant, 1, 0.5, 7, 9)
  }
  for (let i = 0; i < 40; i += 1) recorder.record(CHUNK_ASKED.id, 0, 1, chunkTag(i % 20, 0, 0), 1, i)
  for (let i = 0; i < 70; i += 1) cells.bus.publish(EVENT_TYPES[i % EVENT_TYPES.length]!, 0, clock.nowMs())
  clock.advance(1_500)
  return all
}
