import { afterEach, beforeEach, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { FaultAdapter, type FaultEffect } from '../../src/l2/adapters/fault/fault-adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../src/l2/options.ts'
import { OutageDrill } from '../support/outage-drill.ts'

// What every adapter may do at its worst, without a server: the drills of real servers follow the same course.
let drill: OutageDrill
let adapter: FaultAdapter
let effect: FaultEffect
let delayMs: number

beforeEach(async () => {
  effect = 'none'
  delayMs = 1
  const nextFault = () => ({ effect, delayMs })
  adapter = new FaultAdapter(new MemoryAdapter(MEMORY_DEFAULT), { clock: new SystemClock(), nextFault })
  drill = await OutageDrill.start(adapter, 1)
})

afterEach(async () => {
  adapter.release()
  await drill.stop()
})

it.each(['reject', 'reject_for_good', 'hang', 'stuck', 'some_fail', 'corrupt'] as const)(
  'traffic goes on while all of L2 meets %s, and L2 is used again afterwards',
  async (worst) => {
    await drill.warms()
    effect = worst
    await drill.traffic(60)
    effect = 'none'
    adapter.release()
    await drill.recovers()
    await drill.rests()
  },
)

it('traffic goes on while every answer comes after its deadline', async () => {
  await drill.warms()
  delayMs = 5_000
  await drill.traffic(40)
  delayMs = 1
  await drill.recovers()
  await drill.rests()
})
