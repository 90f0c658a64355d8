import { resourceFromAttributes } from '@opentelemetry/resources'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import { expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { hrTimeOf, metricData } from '../../../../src/metrics/otlp.ts'
import { MetricsPush } from '../../../../src/server/push/metrics-push.ts'
import type { SendResult } from '../../../../src/server/push/otlp-sender.ts'
import { PushSchedule } from '../../../../src/server/push/push-schedule.ts'

const TAKEN: SendResult = { outcome: 'taken', answer: new Uint8Array() }
const DOWN: SendResult = { outcome: 'later', afterMs: 0, reason: 'connection refused' }

/** A push of `batches` batches whose one counter says when it was read. */
function pushing(answers: SendResult[], batches = 1) {
  const clock = new ManualClock()
  const bodies: string[] = []
  const log: string[] = []
  const note = (_: object, message: string) => log.push(message)
  async function* collect(): AsyncGenerator<MetricData[]> {
    for (let at = 0; at < batches; at += 1) {
      const time = hrTimeOf(clock.wallMs())
      const point = { startTime: time, endTime: time, attributes: {}, value: clock.nowMs() }
      yield [metricData({ name: `batch_${at}`, help: '', type: 'counter' }, [point])]
    }
  }
  const push = new MetricsPush({
    sender: {
      send: async (_path, _type, body) => {
        bodies.push(new TextDecoder().decode(body))
        return answers.shift() ?? TAKEN
      },
    },
    encoding: 'json',
    resource: resourceFromAttributes({ 'service.name': 'kvtier' }),
    scope: { name: 'kvtier', version: '1' },
    intervalMs: 1_000,
    clock,
    random: () => 0.5,
    log: { warn: note, info: note },
    collect,
  })
  const settle = async () => {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve()
  }
  const advance = async (ms: number) => {
    clock.advance(ms)
    await settle()
  }
  return { push, clock, bodies, log, advance, settle }
}

it('pushes once an interval, from the end of one push to the next', async () => {
  const { push, bodies, advance } = pushing([])
  push.start()
  await advance(999)
  expect(bodies).toHaveLength(0)
  await advance(1)
  await advance(1_000)
  expect(bodies).toHaveLength(2)
  expect(bodies[0]).toContain('"asDouble":1001000')
  expect(push.status()).toMatchObject({ pushes: 2, failedPushes: 0, failuresInARow: 0 })
})

it('backs off while nothing takes its pushes, tells it sparingly, and carries on with the values of then', async () => {
  const { push, bodies, log, advance } = pushing([DOWN, DOWN, DOWN])
  push.start()
  await advance(1_000) // fails: next in 1 s
  await advance(1_000) // fails: next in 2 s
  await advance(1_999)
  expect(bodies).toHaveLength(2)
  await advance(1) // fails: next in 4 s
  await advance(4_000) // taken
  expect(bodies).toHaveLength(4)
  expect(bodies[3]).toContain('"asDouble":1008000')
  expect(log).toEqual([
    expect.stringContaining('could not be pushed'),
    expect.stringContaining('could not be pushed'),
    expect.stringContaining('pushed again'),
  ])
  expect(push.status()).toMatchObject({ pushes: 4, failedPushes: 3, failuresInARow: 0 })
})

it('waits as long as the receiver asks for', async () => {
  const { push, bodies, advance } = pushing([{ outcome: 'later', afterMs: 120_000, reason: 'status 429' }])
  push.start()
  await advance(1_000)
  await advance(119_999)
  expect(bodies).toHaveLength(1)
  await advance(1)
  expect(bodies).toHaveLength(2)
})

it('ends a push at the first batch that is not taken', async () => {
  const { push, bodies, advance } = pushing([TAKEN, DOWN], 5)
  push.start()
  await advance(1_000)
  expect(bodies).toHaveLength(2)
})

it('counts points that the receiver did not keep', async () => {
  const answer = new TextEncoder().encode('{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}')
  const { push, log, advance } = pushing([{ outcome: 'taken', answer }])
  push.start()
  await advance(1_000)
  expect(push.status().rejectedPoints).toBe(3)
  expect(log).toEqual([expect.stringContaining('did not keep all points')])
})

it('pushes a last time when closed, also during a back-off, and not again', async () => {
  const { push, bodies, advance } = pushing([DOWN])
  push.start()
  await advance(1_000)
  await push.close(1_000)
  expect(bodies).toHaveLength(2)
  await advance(3_600_000)
  expect(bodies).toHaveLength(2)
})

it('gives up the last push at its deadline', async () => {
  const clock = new ManualClock()
  const push = new MetricsPush({
    sender: { send: () => new Promise(() => {}) },
    encoding: 'protobuf',
    resource: resourceFromAttributes({}),
    scope: { name: 'kvtier', version: '1' },
    intervalMs: 1_000,
    clock,
    random: () => 0,
    log: { warn: () => {}, info: () => {} },
    collect: async function* () {
      yield [metricData({ name: 'a', help: '', type: 'gauge' }, [])]
    },
  })
  push.start()
  const closed = push.close(500)
  clock.advance(500)
  await closed
})

it('goes on after an exception of its own', async () => {
  const { push, log, advance } = pushing([])
  const broken = pushing([null as never])
  broken.push.start()
  await broken.advance(1_000)
  await broken.advance(2_000)
  expect(broken.bodies).toHaveLength(2)
  push.start()
  await advance(1_000)
  expect(log).toEqual([])
})

it('doubles the wait up to five minutes, and never waits less than an interval', () => {
  const schedule = new PushSchedule(15_000, () => 0.5)
  const waits = Array.from({ length: 8 }, () => schedule.failed(0))
  expect(waits).toEqual([15_000, 30_000, 60_000, 120_000, 240_000, 300_000, 300_000, 300_000])
  expect(schedule.failed(10 ** 9)).toBe(3_600_000)
  expect(schedule.succeeded()).toBe(15_000)
  expect(new PushSchedule(600_000, () => 0.5).failed(0)).toBe(600_000)
})
