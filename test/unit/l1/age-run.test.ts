import { expect, it } from 'vitest'
import type { EventType } from '../../../src/events/define.ts'
import { AgeRun } from '../../../src/l1/age-run.ts'
import { EventLog } from '../../support/l1.ts'
import { random } from '../../support/random.ts'

const ONE_AGE: EventType = { id: 0, name: 'one', payload: ['gapSeconds', 'shards'], emittedBy: 'test' }
const TWO_AGES: EventType = {
  id: 1,
  name: 'two',
  payload: ['lifetimeSeconds', 'idleSeconds', 'shards'],
  emittedBy: 'test',
}

it('joins what follows each other with the same tenant and ages, and nothing else', () => {
  const events = new EventLog()
  const run = new AgeRun(events, TWO_AGES, { timeMs: 70, stamp: 5_000 })
  run.add(1, 1_000, 3_000, 1)
  run.add(1, 1_000, 3_000, 4)
  run.add(2, 1_000, 3_000, 1)
  run.add(2, 1_000, 4_000, 1)
  run.add(2, 1_000, 3_000, 1)
  run.flush()
  run.flush()
  events.flush()
  expect(events.events.map(({ tenant, timeMs, values }) => [tenant, timeMs, ...values])).toEqual([
    [1, 70, 4, 2, 5],
    [2, 70, 4, 2, 1],
    [2, 70, 4, 1, 1],
    [2, 70, 4, 2, 1],
  ])
})

it('reckons ages over the turn of the stamps', () => {
  const events = new EventLog()
  const run = new AgeRun(events, ONE_AGE, { timeMs: 1, stamp: 500 })
  run.add(0, 2 ** 32 - 500, 0, 1)
  run.flush()
  events.flush()
  expect(events.events[0]!.values).toEqual([1, 1])
})

// Oracle: an event for each thing that happens.
it.each([1, 2, 3])('tells of each thing once, in order (seed %i)', (seed) => {
  const next = random(seed)
  const events = new EventLog()
  const run = new AgeRun(events, ONE_AGE, { timeMs: 1, stamp: 10_000 })
  const oracle: string[] = []
  for (let step = 0; step < 2_000; step += 1) {
    const [tenant, since, count] = [next(2), 1_000 * next(3), 1 + next(3)]
    run.add(tenant, since, 0, count)
    for (let i = 0; i < count; i += 1) oracle.push(`${tenant} ${10 - since / 1_000}`)
    if (next(10) === 0) run.flush()
  }
  run.flush()
  events.flush()
  const told = events.events.flatMap(({ tenant, values: [age, count] }) => Array(count!).fill(`${tenant} ${age}`))
  expect(told).toEqual(oracle)
  expect(events.events.length).toBeLessThan(oracle.length / 2)
})
