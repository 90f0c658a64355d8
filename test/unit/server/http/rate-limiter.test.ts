import { expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { RateLimiter } from '../../../../src/server/http/rate-limiter.ts'

function makeLimiter(perSecond: number, burst: number) {
  const clock = new ManualClock()
  const limiter = new RateLimiter({ perSecond, burst, clock })
  /** How many of so many requests at once may go on. */
  const allowed = (caller: string, requests: number) =>
    Array.from({ length: requests }, () => limiter.take(caller)).filter((seconds) => seconds === 0).length
  return { clock, limiter, allowed }
}

it('lets a burst go on at once, then as many as the rate allows, of each caller', () => {
  const { clock, limiter, allowed } = makeLimiter(2, 3)
  expect([allowed('a', 9), allowed('b', 9)]).toEqual([3, 3])
  expect(limiter.take('a')).toBe(0.5)
  clock.advance(500)
  expect([allowed('a', 9), limiter.take('a')]).toEqual([1, 0.5])
  clock.advance(3_600_000)
  expect(allowed('a', 9)).toBe(3)
})

it('lets one go on at least, however low rate and burst are', () => {
  const { clock, limiter, allowed } = makeLimiter(0.1, 0.1)
  expect([allowed('a', 2), limiter.take('a')]).toEqual([1, 10])
  clock.advance(10_000)
  expect(allowed('a', 2)).toBe(1)
})

it('limits nobody without a rate', () => {
  expect(makeLimiter(0, 0).allowed('a', 1000)).toBe(1000)
})
