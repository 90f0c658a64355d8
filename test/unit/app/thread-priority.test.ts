import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { type TimeSlice, timeSliceOf } from '../../../src/native/time-slice.ts'

function priorities(): number[] {
  return readdirSync('/proc/self/task').flatMap((thread) => {
    try {
      return [getPriority(Number(thread))]
    } catch {
      return [] // it has ended meanwhile
    }
  })
}

it.runIf(process.platform === 'linux')('lowers the priority of one thread, and of no other', async () => {
  const usual = getPriority()
  const worker = new Worker(new URL('../../support/polite-worker.ts', import.meta.url))
  const [{ before, after }] = (await once(worker, 'message')) as [{ before: number; after: number }]
  expect(before).toBe(usual)
  expect(after).toBeGreaterThan(before)
  expect(priorities().filter((priority) => priority > usual).length).toBeLessThanOrEqual(1) // the pool is as it was
  await worker.terminate()
})

it.runIf(typeof timeSliceOf() !== 'string')('short turns are shorter than usual, long ones longer', async () => {
  const worker = new Worker(new URL('../../support/sliced-worker.ts', import.meta.url))
  const [message] = await once(worker, 'message')
  const { before, refusal, short, long } = message as Record<'before' | 'short' | 'long', TimeSlice> & {
    refusal?: string
  }
  expect(refusal).toBeUndefined()
  expect(short.milliseconds).toBeLessThan(before.milliseconds)
  expect(long.milliseconds).toBeGreaterThan(before.milliseconds)
  expect(short.isInherited).toBe(getPriority() < 0)
  expect(timeSliceOf()).toEqual(before) // this thread's is as it was
  await worker.terminate()
})
