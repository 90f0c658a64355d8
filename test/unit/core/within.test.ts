import { expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import { within } from '../../../src/core/within.ts'

it('says whether a promise settled in time, and leaves no timer behind', async () => {
  const clock = new ManualClock()
  const startMs = clock.nowMs()
  const [inTime, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const answers = [within(clock, 10, inTime.promise), within(clock, 10, late.promise)]
  inTime.resolve()
  expect(await answers[0]).toBe(true)
  clock.advance(9)
  expect(clock.nextDueMs()).toBe(startMs + 10)
  clock.advance(1)
  expect(await answers[1]).toBe(false)
  expect(clock.nextDueMs()).toBe(Number.POSITIVE_INFINITY)
  late.reject(new Error('nobody hears of it'))
})

it('rejects as the promise does, when that is in time', async () => {
  const clock = new ManualClock()
  await expect(within(clock, 10, Promise.reject(new Error('broken')))).rejects.toThrow('broken')
  expect(clock.nextDueMs()).toBe(Number.POSITIVE_INFINITY)
})
