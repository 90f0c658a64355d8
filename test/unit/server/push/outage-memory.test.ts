import { resourceFromAttributes } from '@opentelemetry/resources'
import { expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { MetricCells } from '../../../../src/metrics/cells.ts'
import { hrTimeOf, otlpBatches } from '../../../../src/metrics/otlp.ts'
import { Recorder } from '../../../../src/metrics/recorder.ts'
import { SnapshotReader } from '../../../../src/metrics/snapshot.ts'
import { MetricsPush } from '../../../../src/server/push/metrics-push.ts'
import { usedMemoryBytes } from '../../../support/heap.ts'

const SERIES = 10_000
const PUSHES = 1_000
const BACK_OFF_MS = 600_000
const MIB = 2 ** 20

/** A reader whose snapshot has at least so many series. */
function seriesReader(clock: ManualClock): SnapshotReader {
  const tenants = 1_000
  const cells = MetricCells.create({ maxTenants: tenants })
  for (let at = 0; at < tenants; at += 1) cells.tenants.tenantOf('model', `tenant ${at}`)
  cells.l1Tenants.values.fill(1)
  return new SnapshotReader({ cells, recorder: new Recorder(cells, { historyChunks: 8 }), clock, facts: {} })
}

it('keeps nothing of pushes that fail: memory stays as it was after a thousand of them', async () => {
  const clock = new ManualClock()
  const reader = seriesReader(clock)
  let [isDown, sent, points] = [true, 0, 0]
  const push = new MetricsPush({
    sender: {
      send: async (_path, _type, body) => {
        sent += body.length
        return isDown
          ? { outcome: 'later', afterMs: 0, reason: 'connection refused' }
          : { outcome: 'taken', answer: new Uint8Array() }
      },
    },
    encoding: 'protobuf',
    resource: resourceFromAttributes({ 'service.name': 'kvtier' }),
    scope: { name: 'kvtier', version: '1' },
    intervalMs: 1_000,
    clock,
    random: () => 0.5,
    log: { warn: () => undefined, info: () => undefined },
    async *collect() {
      const times = { start: hrTimeOf(0), end: hrTimeOf(clock.wallMs()) }
      points = 0
      for (const batch of otlpBatches(reader.take(), times)) {
        for (const { dataPoints } of batch) points += dataPoints.length
        yield batch
      }
    },
  })
  const pushes = async (count: number) => {
    for (const end = push.status().pushes + count; push.status().pushes < end; ) {
      clock.advance(BACK_OFF_MS)
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
    }
  }
  push.start()
  await pushes(50) // labels are made once, and code is compiled
  const before = usedMemoryBytes()
  await pushes(PUSHES)
  const grown = usedMemoryBytes() - before
  expect(push.status().failedPushes).toBe(PUSHES + 50)
  expect(sent).toBeGreaterThan(PUSHES * 10_000)
  expect(grown).toBeLessThan(MIB) // one request that was kept would be 100 KiB and more
  isDown = false
  await push.close(1_000)
  expect(push.status()).toMatchObject({ failuresInARow: 0 })
  expect(points).toBeGreaterThanOrEqual(SERIES)
})
