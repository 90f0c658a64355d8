import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { EVENT_TYPES } from '../../src/events/define.ts'
import '../../src/events/catalogue.ts'
import { chunkTag } from '../../src/events/chunk-tag.ts'
import { MetricCells } from '../../src/metrics/cells.ts'
import { Recorder } from '../../src/metrics/recorder.ts'
import { median } from './pairs.ts'

const ROUNDS = 100
const RECORDS = 10_000
const TENANTS = 16
const CHUNKS = 50_000

/**
 * What the heap grows by in a million records: events of every kind published, drained into histograms and reuse
 * distances, with a counter beside each. A round is too short for a collection to fall into it, so that what is
 * allocated shows; the median round is one after V8 has compiled everything.
 */
export function recordingGrowth() {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const cells = MetricCells.create({ maxTenants: TENANTS, busCapacityEvents: 16_384 })
  const recorder = new Recorder(cells)
  for (let tenant = 0; tenant < TENANTS; tenant += 1) cells.tenants.tenantOf('model', `salt-${tenant}`)
  const adapter = cells.adapters.rowOf('disk')
  const { values, stride } = cells.l1Tenants
  const tags = Float64Array.from({ length: CHUNKS }, (_, chunk) => chunkTag(chunk, 0, 0))
  const column = cells.l1Tenants.column('readShards')
  let serial = 0
  const record = () => {
    for (let i = 0; i < RECORDS; i += 1) {
      serial += 1
      const tenant = serial & (TENANTS - 1)
      const type = EVENT_TYPES[serial % EVENT_TYPES.length]!
      values[tenant * stride + column]! += 1
      cells.bus.publish(type, tenant, serial + 0.5, tags[serial % CHUNKS]!, serial % 3 === 0 ? 0.25 : 0.5, adapter)
    }
    recorder.drain(RECORDS)
  }
  for (let round = 0; round < ROUNDS; round += 1) record()
  const growths = Array.from({ length: ROUNDS }, () => {
    collect()
    const before = process.memoryUsage().heapUsed
    record()
    return process.memoryUsage().heapUsed - before
  })
  return {
    records: ROUNDS * RECORDS,
    kinds: EVENT_TYPES.length,
    bytes_a_record: Number((median(growths) / RECORDS).toFixed(3)),
    dropped: cells.bus.dropped(),
  }
}
