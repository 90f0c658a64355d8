import { expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import { CacheError } from '../../../src/core/errors.ts'
import { BatchAttempt } from '../../../src/l2/batch-attempt.ts'
import { LIMITS, settle } from '../../support/l2-set.ts'
import { random } from '../../support/random.ts'

const DOWN = new CacheError('L2_UNAVAILABLE', 'down')

/** Runs one batch on a clock that is moved a millisecond at a time. @returns how it ended, and when each try began. */
async function attempt(over: Partial<typeof LIMITS>, deadlineMs: number, operation: () => Promise<number>, seed = 1) {
  const clock = new ManualClock()
  const next = random(seed)
  const startMs = clock.nowMs()
  const triesMs: number[] = []
  const batch = new BatchAttempt({ clock, random: () => next(1000) / 1000, limits: { ...LIMITS, ...over } })
  let ended: Awaited<ReturnType<typeof batch.run<number>>> | undefined
  let endedMs = -1
  const running = batch.run(
    () => {
      triesMs.push(clock.nowMs() - startMs)
      return operation()
    },
    deadlineMs,
    undefined,
  )
  running.then((result) => {
    ended = result
    endedMs = clock.nowMs() - startMs
  })
  await settle()
  for (let ms = 0; ms < 1_000 && ended === undefined; ms += 1) {
    clock.advance(1)
    await settle()
  }
  return { ended: ended!, endedMs, triesMs }
}

it.each([1, 2, 3, 4])('waits twice as long before each further try, cut by up to a half (seed %i)', async (seed) => {
  const fails = () => Promise.reject(DOWN)
  const { ended, triesMs } = await attempt({ retries: 4, retryDelayMs: 10 }, 900, fails, seed)
  expect(ended).toMatchObject({ value: undefined, cause: 'error', error: DOWN })
  expect(triesMs).toHaveLength(5)
  for (let at = 1; at < triesMs.length; at += 1) {
    const wait = triesMs[at]! - triesMs[at - 1]!
    expect(wait).toBeGreaterThanOrEqual(5 * 2 ** (at - 1))
    expect(wait).toBeLessThanOrEqual(10 * 2 ** (at - 1) + 1)
  }
})

it('ends at one deadline for all tries together, in the middle of a wait', async () => {
  const fails = () => Promise.reject(DOWN)
  const { ended, endedMs, triesMs } = await attempt({ retries: 20, retryDelayMs: 10 }, 100, fails)
  expect([ended.error, endedMs]).toEqual([DOWN, 100]) // what it failed with is worth more than that time ran out
  expect(triesMs.length).toBeLessThan(6)
  expect(ended.quiesced).toBeUndefined()
})

it('gives up a try that hangs after its deadline, and says when it lets go', async () => {
  const { promise, resolve } = Promise.withResolvers<number>()
  let tries = 0
  const hangs = () => {
    tries += 1
    return tries === 1 ? Promise.reject(DOWN) : promise
  }
  const { ended, endedMs } = await attempt({ retries: 5, retryDelayMs: 4, abandonAfterMs: 10 }, 50, hangs)
  expect([ended.cause, endedMs, tries]).toEqual(['timeout', 60, 2])
  let hasLetGo = false
  ended.quiesced!.then(() => {
    hasLetGo = true
  })
  await settle()
  expect(hasLetGo).toBe(false)
  resolve(1)
  await settle()
  expect(hasLetGo).toBe(true)
})

it('does not try again what cannot help', async () => {
  const { triesMs } = await attempt({ retries: 5 }, 100, () => Promise.reject(new CacheError('L2_CORRUPT', 'torn')))
  expect(triesMs).toEqual([0])
})
