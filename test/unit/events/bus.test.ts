import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { EVENT_A, EventBus, type EventHandler } from '../../../src/events/bus.ts'
import type { EventType } from '../../../src/events/define.ts'
import { heapGrowthBytes } from '../../support/heap.ts'
import { random } from '../../support/random.ts'

const TYPES: EventType[] = [0, 1, 2].map((id) => ({ id, name: `t${id}`, payload: [], emittedBy: 'test' }))

it('delivers what was published, oldest first, with every argument', () => {
  const bus = EventBus.create(4)
  bus.publish(TYPES[1]!, 7, 1.5, 2.5, -3, 4)
  bus.publish(TYPES[2]!, 8, 9)
  const seen: number[][] = []
  expect(bus.drain(10, (records, at) => seen.push([...records.subarray(at, at + 6)]))).toBe(2)
  expect(seen).toEqual([
    [1, 7, 1.5, 2.5, -3, 4],
    [2, 8, 9, 0, 0, 0],
  ])
  expect(bus.drain(10, () => expect.unreachable())).toBe(0)
})

it('drops the newest event when full and counts it by type', () => {
  const bus = EventBus.create(2)
  for (let i = 0; i < 5; i += 1) bus.publish(TYPES[i % 3]!, 0, i + 1, i)
  expect(bus.depth()).toBe(2)
  expect(bus.dropped()).toBe(3)
  expect([0, 1, 2].map((id) => bus.droppedOf(id))).toEqual([1, 1, 1])
  const seen: number[] = []
  bus.drain(10, (records, at) => seen.push(records[at + EVENT_A]!))
  expect(seen).toEqual([0, 1])
  bus.publish(TYPES[0]!, 0, 9, 9)
  expect(bus.depth()).toBe(1)
})

it('tells of what was enqueued only with a flush, or with what is published after it', () => {
  const bus = EventBus.create(4)
  const seen: number[] = []
  const drain = () => bus.drain(10, (records, at) => seen.push(records[at + EVENT_A]!))
  bus.enqueue(TYPES[0]!, 0, 1, 1)
  expect([drain(), bus.depth()]).toEqual([0, 0])
  bus.flush()
  drain()
  bus.enqueue(TYPES[0]!, 0, 2, 2)
  bus.publish(TYPES[0]!, 0, 3, 3)
  drain()
  expect(seen).toEqual([1, 2, 3])
})

it('counts events being delivered in the depth and as the oldest', () => {
  const bus = EventBus.create(4)
  expect(bus.oldestTimeMs()).toBe(0)
  bus.publish(TYPES[0]!, 0, 100)
  bus.publish(TYPES[0]!, 0, 200)
  const seen: number[][] = []
  bus.drain(10, () => seen.push([bus.depth(), bus.oldestTimeMs()]))
  expect(seen).toEqual([
    [2, 100],
    [2, 100],
  ])
  expect(bus.oldestTimeMs()).toBe(0)
})

it('passes a handler error on and goes on after the event that caused it', () => {
  const bus = EventBus.create(4)
  for (let i = 0; i < 3; i += 1) bus.publish(TYPES[0]!, 0, 1, i)
  const seen: number[] = []
  const fail: EventHandler = (records, at) => {
    const a = records[at + EVENT_A]!
    seen.push(a)
    if (a === 1) throw new Error('handler')
  }
  expect(() => bus.drain(10, fail)).toThrow('handler')
  expect(bus.drain(10, fail)).toBe(1)
  expect(seen).toEqual([0, 1, 2])
})

it('refuses a capacity that is not a power of two', () => {
  expect(() => EventBus.create(3)).toThrow('power of two')
})

// Oracle: a plain queue of bounded length, and how many of its events were told of.
it.each([1, 2, 3])('behaves as a bounded queue through many wrap-arounds (seed %i)', (seed) => {
  const next = random(seed)
  const bus = EventBus.create(8)
  const reader = EventBus.attach(bus.buffer)
  const oracle: number[] = []
  let told = 0
  let dropped = 0
  for (let step = 1; step <= 5_000; step += 1) {
    const act = next(6)
    if (act < 4) {
      if (oracle.length < 8) oracle.push(step)
      else dropped += 1
      if (act < 2) bus.enqueue(TYPES[0]!, 0, step, step)
      else bus.publish(TYPES[0]!, 0, step, step)
      if (act >= 2) told = oracle.length
    } else if (act === 4) {
      bus.flush()
      told = oracle.length
    } else {
      const wanted = next(8)
      const seen: number[] = []
      reader.drain(wanted, (records, at) => seen.push(records[at + EVENT_A]!))
      expect(seen).toEqual(oracle.splice(0, Math.min(wanted, told)))
      told -= seen.length
    }
    const oldest = told > 0 ? oracle[0] : 0
    expect([reader.depth(), reader.oldestTimeMs(), bus.dropped()]).toEqual([told, oldest, dropped])
  }
})

it.each([
  ['a small ring that overflows', 16, 300_000],
  ['a large ring', 4096, 300_000],
])('loses and tears nothing between two real threads, drops aside: %s', async (_name, capacity, events) => {
  const bus = EventBus.create(capacity)
  const worker = new Worker(new URL('../../support/bus-consumer.ts', import.meta.url), {
    workerData: { buffer: bus.buffer, batch: 64 },
  })
  const report = new Promise<{ delivered: number; broken: number; last: number }>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  let oldest = 0
  for (let i = 0; i < events; i += 1) {
    bus.publish(TYPES[i % 3]!, 0, i + 1, i, i * 2, i + 0.5)
    const now = bus.oldestTimeMs()
    if (now !== 0) {
      expect(now >= oldest && now <= i + 1).toBe(true)
      oldest = now
    }
  }
  const dropped = bus.dropped()
  for (let before = -1; before !== bus.dropped(); ) {
    before = bus.dropped()
    bus.publish(TYPES[0]!, -1, events + 2)
  }
  const { delivered, broken } = await report
  await worker.terminate()
  expect(broken).toBe(0)
  expect(delivered).toBe(events - dropped)
})

it('allocates nothing to publish', () => {
  const bus = EventBus.create(16_384)
  const publish = () => {
    for (let i = 0; i < 10_000; i += 1) bus.publish(TYPES[1]!, 3, i + 0.5, i * 0.25, 1.5, 2.5)
  }
  // The compiler works in the background: the best of many rounds is one with the code it made. A round is short
  // enough that no collection falls into it, and a single boxed number an event would take 160,000 bytes.
  const growths = Array.from({ length: 100 }, () => {
    const growth = heapGrowthBytes(publish)
    bus.drain(16_384, () => undefined)
    return growth
  })
  expect(bus.dropped()).toBe(0)
  expect(Math.min(...growths)).toBeLessThan(10_000)
})
