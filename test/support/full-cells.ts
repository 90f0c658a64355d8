import { ManualClock } from '../../src/core/clock.ts'
import { CHUNK_ASKED, CHUNK_RETRIEVED, CHUNK_STORED } from '../../src/events/catalogue.ts'
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

/** Payloads that say how many samples an event stands for. */
const COUNTS = new Set(['blocks', 'chunks', 'shards'])

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
      const [a = 0, b = 0, c = 0] = type.payload.map((name, at) => {
        if (name === 'adapter') return adapters[tenant % adapters.length]!
        if (COUNTS.has(name)) return 1 + (amount++ % 3)
        return at === 0 ? amount++ / 7 : 0.25
      })
      recorder.record(type.id, tenant, clock.nowMs(), a, b, c)
    }
    recorder.record(CHUNK_STORED.id, tenant, 1, chunkTag(7, 9, tenant), 0, 0)
    recorder.record(CHUNK_RETRIEVED.id, tenant, 1, chunkTag(7, 9, tenant), 0, 0)
  }
  for (let i = 0; i < 40; i += 1) recorder.record(CHUNK_ASKED.id, 0, 1, chunkTag(i % 20, 0, 0), 1, i)
  for (let i = 0; i < 70; i += 1) cells.bus.publish(EVENT_TYPES[i % EVENT_TYPES.length]!, 0, clock.nowMs())
  clock.advance(1_500)
  return all
}
