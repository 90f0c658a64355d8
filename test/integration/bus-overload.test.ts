import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { EVENT_TYPE } from '../../src/events/bus.ts'
import { EVENT_TYPES } from '../../src/events/define.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { TABLES, type TableName } from '../../src/metrics/cells.ts'
import { Exposition } from '../../src/metrics/exposition.ts'
import { SnapshotReader } from '../../src/metrics/snapshot.ts'
import { KIB, makeEngine } from '../support/engine.ts'
import { chainOf, storeChain } from '../support/engine-client.ts'
import { parseExposition, seriesValue } from '../support/exposition-parser.ts'
import { random } from '../support/random.ts'

const BUS_EVENTS = 64
/** Events of one round of traffic, about ten times what the small bus holds. */
const ROUND_STEPS = 36

/** An engine whose traffic depends on its seed alone. */
class Subject {
  readonly setup
  readonly #next: (limit: number) => number
  readonly #exposition: Exposition
  readonly #slots = new SlotList()

  constructor(seed: number, busCapacityEvents: number) {
    this.#next = random(seed)
    this.setup = makeEngine({ seed, busCapacityEvents, l1: { capacityBytes: 32 * KIB } })
    this.#exposition = new Exposition(new SnapshotReader({ ...this.setup, facts: {} }), null, async () => undefined)
  }

  /** Lookups, retrievals and stores of two tenants over an L1 that is too small for them. */
  traffic(steps: number): void {
    const { engine, memory, clock } = this.setup
    for (let step = 0; step < steps; step += 1) {
      const salt = `tenant ${this.#next(2)}`
      const space = engine.openSpace({ model: 'm', salt, ranks: 1, shardBytes: KIB, layout: '' })
      const letters = 'abcdefghijklmnop'.slice(0, 2 + this.#next(12))
      const chain = chainOf(`${this.#next(6)}${letters}`)
      const lookup = engine.lookup(space, chain, engine.sessions.nextOwner())
      this.#slots.clear()
      if (lookup.hitChunks > 0 && engine.slots(lookup, 0, 0, lookup.hitChunks, this.#slots)) {
        engine.served(lookup, 0, lookup.hitChunks)
      }
      engine.release(lookup)
      storeChain(engine, memory!, space, chain)
      clock.advance(3)
    }
  }

  /** Every exact number, all tables but the one that the recorder writes. */
  counters(): Record<string, number[]> {
    const { tables } = this.setup.cells
    const names = (Object.keys(TABLES) as TableName[]).filter((name) => name !== 'sampling')
    return Object.fromEntries(names.map((name) => [name, [...tables[name].values]]))
  }

  /** Events on the bus by type; it is empty afterwards. */
  takeEvents(): number[] {
    const counts = EVENT_TYPES.map(() => 0)
    this.setup.cells.bus.drain(2 ** 20, (records, at) => {
      counts[records[at + EVENT_TYPE]!]! += 1
    })
    return counts
  }

  async scrape() {
    return parseExposition((await this.#exposition.render('text')).body.toString())
  }
}

const sum = (values: readonly number[]) => values.reduce((total, one) => total + one, 0)

it.each([1, 2, 3])('counts exactly, and every event as delivered or dropped, under 10x overload (seed %i)', (seed) => {
  const [reference, small] = [new Subject(seed, 2 ** 16), new Subject(seed, BUS_EVENTS)]
  const { bus } = small.setup.cells
  const published = EVENT_TYPES.map(() => 0)
  const delivered = EVENT_TYPES.map(() => 0)
  for (let round = 0; round < 20; round += 1) {
    for (const subject of [reference, small]) subject.traffic(ROUND_STEPS)
    expect(bus.depth()).toBe(BUS_EVENTS) // bounded, and full: nobody drained it meanwhile
    for (const [id, count] of reference.takeEvents().entries()) published[id]! += count
    for (const [id, count] of small.takeEvents().entries()) delivered[id]! += count
    expect(small.counters()).toEqual(reference.counters())
    const dropped = EVENT_TYPES.map(({ id }) => bus.droppedOf(id))
    expect(delivered.map((count, id) => count + dropped[id]!)).toEqual(published)
    expect(bus.dropped()).toBe(sum(dropped))
  }
  expect(sum(published)).toBeGreaterThan(10 * sum(delivered))
  expect(reference.setup.cells.bus.dropped()).toBe(0)
  small.setup.engine.l1.verify()
})

it('shows how far behind it is while the consumer pauses, and that it has caught up', async () => {
  const subject = new Subject(4, BUS_EVENTS)
  const { clock, cells, recorder } = subject.setup
  const lag = async () => seriesValue(await subject.scrape(), 'cache_mp_event_bus_drain_lag_seconds')
  expect(await lag()).toBe(0)
  subject.traffic(ROUND_STEPS)
  const first = (await lag())!
  clock.advance(60_000)
  expect(await lag()).toBeCloseTo(first + 60, 6)
  const scraped = await subject.scrape()
  expect(seriesValue(scraped, 'cache_mp_event_bus_queue_depth')).toBe(BUS_EVENTS)
  const byType = scraped.samples.filter(({ name }) => name === 'cache_mp_event_bus_dropped_events_by_type_total')
  expect(byType.length).toBeGreaterThan(1)
  const total = seriesValue(scraped, 'cache_mp_event_bus_dropped_events_total')
  expect(total).toBe(cells.bus.dropped())
  expect(sum(byType.map(({ value }) => value))).toBe(total)
  recorder.drain(2 ** 16)
  expect(await lag()).toBe(0)
  expect(seriesValue(await subject.scrape(), 'cache_mp_event_bus_queue_depth')).toBe(0)
})

it('loses no count between the threads of a service that drains too slowly', async () => {
  const [reference, small] = [new Subject(5, 2 ** 16), new Subject(5, BUS_EVENTS)]
  const { bus } = small.setup.cells
  const stop = new SharedArrayBuffer(4)
  const worker = new Worker(new URL('../support/bus-counter.ts', import.meta.url), {
    workerData: { buffer: bus.buffer, types: EVENT_TYPES.length, stop },
  })
  await once(worker, 'online')
  for (const subject of [reference, small]) subject.traffic(20 * ROUND_STEPS)
  const told = once(worker, 'message') as Promise<[{ delivered: number[]; deepest: number }]>
  Atomics.store(new Int32Array(stop), 0, 1)
  Atomics.notify(new Int32Array(stop), 0)
  const [{ delivered, deepest }] = await told
  await worker.terminate()
  expect(small.counters()).toEqual(reference.counters())
  expect(delivered.map((count, id) => count + bus.droppedOf(id))).toEqual(reference.takeEvents())
  expect(bus.dropped()).toBeGreaterThan(0)
  expect(deepest).toBeLessThanOrEqual(BUS_EVENTS)
})
