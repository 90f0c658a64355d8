import { expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import { NO_LEASE } from '../../../src/core/ids.ts'
import { L1_SHARD_LEFT } from '../../../src/events/catalogue.ts'
import { mappedTableBytes, mapTables } from '../../../src/l1/l1-tables.ts'
import { type Survey, surveyTables } from '../../../src/l1/recovery-survey.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace, SMALL_L1 } from '../../support/l1.ts'

/** Milliseconds after which stamps begin anew. */
const STAMPS = 2 ** 32

/** Engines that follow each other on one set of tables. */
function setUp() {
  const clock = new ManualClock()
  const startMs = clock.nowMs()
  const tables = mapTables(SMALL_L1, new Uint8Array(new ArrayBuffer(mappedTableBytes(SMALL_L1))))
  const open = () => {
    const made = makeL1({}, { clock, startMs, tables })
    return { ...made, space: openSpace(made.cache) }
  }
  const restart = () => {
    const survey = surveyTables(tables, SMALL_L1, [{ ranks: 1, shardBytes: 1, part: 0 }], () => false)
    const next = open()
    next.cache.recover(survey as Survey)
    next.cache.verify()
    return next
  }
  return { clock, open, restart }
}

it('knows after a restart what was used last, though the stamps have begun anew meanwhile', () => {
  const { clock, open, restart } = setUp()
  const first = open()
  const store = (root: number) => {
    const lease = first.cache.reserve(first.space, 0, chainOf([root, 0]), 0, 2, 0, 1000, 'store', new SlotList())
    expect(lease).not.toBe(NO_LEASE)
    expect(first.cache.commit(lease)).toBe(2)
  }
  clock.advance(STAMPS - 5000)
  store(1)
  clock.advance(4000)
  store(2)
  clock.advance(2000)
  store(3)
  clock.advance(1000)
  const { cache, space, events } = restart()
  for (const root of [1, 2, 3]) {
    for (const left of [1, 0]) {
      expect(cache.evictTo(0, 1)).toBe(1)
      expect(cache.residentRun(space, chainOf([root, 0]), 0, 2)).toBe(left)
    }
  }
  const idleSeconds = events.named(L1_SHARD_LEFT).map(({ values }) => values[1])
  expect(idleSeconds).toEqual([7, 7, 3, 3, 1, 1])
})
