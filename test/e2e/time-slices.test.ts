import { readdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import { afterAll, expect, it } from 'vitest'
import { timeSliceOf } from '../../src/native/time-slice.ts'
import { EngineHome } from '../support/engine-process.ts'

const usual = timeSliceOf()
const home = new EngineHome()
afterAll(() => home.remove())

function slicesOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    const slice = Number(thread) === pid ? '' : timeSliceOf(Number(thread))
    return typeof slice === 'string' ? [] : [slice.milliseconds]
  })
}

// Threads inherit the slice of one whose priority was raised.
it.runIf(typeof usual !== 'string' && getPriority() >= 0)(
  'the data thread has shorter turns than all others of the engine',
  async () => {
    const { pid } = (await home.start()).addresses
    const own = timeSliceOf(pid)
    if (typeof own === 'string' || typeof usual === 'string') throw new Error('there are no slices')
    expect(own.milliseconds).toBeLessThan(usual.milliseconds)
    const others = slicesOf(pid)
    expect(Math.min(...others)).toBeGreaterThan(own.milliseconds)
    expect(Math.max(...others)).toBeGreaterThan(usual.milliseconds) // of io workers
  },
)
