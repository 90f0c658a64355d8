import { expect, it } from 'vitest'
import type { ActivityDraft } from '../../../src/activities/activity.ts'
import { EngineActs, type EngineActsParts } from '../../../src/app/engine-acts.ts'
import { ManualClock } from '../../../src/core/clock.ts'
import { MetricCells } from '../../../src/metrics/cells.ts'
import type { LateWorker } from '../../../src/server/mp/quarantine.ts'

const WORKER: LateWorker = {
  worker: '7',
  model: 'm',
  isSilent: true,
  silentMs: 1000,
  transfers: 1,
  writeBytes: 64,
  readBytes: 0,
}

function setUp() {
  const clock = new ManualClock()
  const cells = MetricCells.create({ maxTenants: 4, busCapacityEvents: 64 })
  const acts = new EngineActs(clock)
  const posted: ActivityDraft[] = []
  const usage = { bytes: 0, objects: 0, capacityBytes: 0, evictedObjects: 0, checksumFailures: 0 }
  const late: LateWorker[] = []
  const engine = { cells, adapters: { all: () => [{ name: 'disk', adapter: { usage: () => usage } }] } }
  acts.watch({ engine, lateWorkers: () => late } as unknown as EngineActsParts)
  return { clock, cells, acts, posted, usage, late }
}

const actionsOf = (posted: readonly ActivityDraft[]) => posted.map(({ action, resourceId }) => [action, resourceId])

it('keeps acts from before the log was open, with the time at which they were done', () => {
  const { clock, acts, posted } = setUp()
  const doneAtMs = clock.wallMs()
  acts.adapterState('disk', 'failed')
  acts.adapterState('disk', 'draining')
  clock.advance(5000)
  acts.postTo((draft) => posted.push(draft))
  expect(actionsOf(posted)).toEqual([['ACTIVITY_ACTION_ADAPTER_FAIL', 'disk']])
  expect(posted[0]).toMatchObject({ occurredAtMs: doneAtMs, actor: { type: 'ACTOR_TYPE_SYSTEM' } })
})

it('records a quarantine of a worker once, and again when it comes again', () => {
  const { cells, acts, posted, late } = setUp()
  acts.postTo((draft) => posted.push(draft))
  acts.sweep()
  late.push(WORKER)
  cells.l1.set(0, 'quarantinedBytes', 64)
  acts.sweep()
  acts.sweep()
  expect(actionsOf(posted)).toEqual([['ACTIVITY_ACTION_QUARANTINE', '7']])
  late.pop()
  cells.l1.set(0, 'quarantinedBytes', 0)
  acts.sweep()
  late.push(WORKER)
  cells.l1.set(0, 'quarantinedBytes', 64)
  acts.sweep()
  expect(posted.length).toBe(2)
})

it('records corrupt objects and chunks by how many came since', () => {
  const { cells, acts, posted, usage } = setUp()
  acts.postTo((draft) => posted.push(draft))
  usage.checksumFailures = 3
  cells.l1.set(0, 'checksumFailures', 2)
  acts.sweep()
  acts.sweep()
  usage.checksumFailures = 4
  acts.sweep()
  expect(posted.map(({ resourceType, metadata }) => [resourceType, metadata])).toEqual([
    ['cache', { count: 2 }],
    ['adapter', { count: 3 }],
    ['adapter', { count: 1 }],
  ])
})

it('names the wire as the actor of a clear that a client of it asked for', () => {
  const { acts, posted } = setUp()
  acts.postTo((draft) => posted.push(draft))
  acts.wireCleared({ l1Shards: 5 })
  expect(posted[0]).toMatchObject({
    action: 'ACTIVITY_ACTION_CACHE_CLEAR',
    actor: { type: 'ACTOR_TYPE_CLIENT' },
    metadata: { l1Shards: 5 },
  })
})
