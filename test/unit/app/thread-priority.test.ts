import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'

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
