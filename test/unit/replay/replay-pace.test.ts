import { describe, expect, it } from 'vitest'
import { type Clock, ManualClock } from '../../../src/core/clock.ts'
import { RealPace, VirtualPace } from '../../../src/replay/replay-pace.ts'

/** A clock that goes on by so much with every look at it. */
function steppingClock(stepMs: number): Clock {
  let nowMs = 0
  return {
    nowMs: () => {
      nowMs += stepMs
      return nowMs
    },
    wallMs: () => nowMs,
    schedule: () => ({ cancel: () => undefined }),
  }
}

describe('virtual time', () => {
  it('jumps to a moment, and what is due on the way is done in order', async () => {
    const clock = new ManualClock(0)
    const pace = new VirtualPace(clock, new ManualClock(0), true, () => false)
    const seen: number[] = []
    clock.schedule(30, () => seen.push(clock.nowMs()))
    clock.schedule(10, () => seen.push(clock.nowMs()))
    await pace.until(100)
    expect(seen).toEqual([10, 30])
    expect(clock.nowMs()).toBe(100)
  })

  it('does not go back for a moment that is over', async () => {
    const clock = new ManualClock(50)
    await new VirtualPace(clock, new ManualClock(0), true, () => false).until(20)
    expect(clock.nowMs()).toBe(50)
  })

  it('jumps from one thing due to the next until a condition holds', async () => {
    const clock = new ManualClock(0)
    const pace = new VirtualPace(clock, new ManualClock(0), true, () => false)
    let isDone = false
    clock.schedule(5, () => clock.schedule(7, () => (isDone = true)))
    clock.schedule(1000, () => undefined)
    await pace.when(() => isDone)
    expect(clock.nowMs()).toBe(12)
  })

  it('flows as the clock of the wall does while storage is awaited', async () => {
    const clock = new ManualClock(0)
    const pace = new VirtualPace(clock, steppingClock(2), false, () => true)
    clock.schedule(1_000_000, () => expect.unreachable('a deadline passed before its time'))
    let asked = 0
    await pace.when(() => {
      asked += 1
      return asked === 6
    })
    expect(clock.nowMs()).toBe(5 * 2) // five turns of the event loop
  })

  it('does not pass the next arrival while storage is awaited', async () => {
    const clock = new ManualClock(0)
    await new VirtualPace(clock, steppingClock(2), false, () => true).until(3)
    expect(clock.nowMs()).toBe(3)
  })
})

describe('real time', () => {
  it('waits for a moment on its clock', async () => {
    const clock = new ManualClock(0)
    const pace = new RealPace(clock, 10)
    let isThere = false
    const arrival = pace.until(40).then(() => {
      isThere = true
    })
    clock.advance(39)
    await pace.breathe()
    expect(isThere).toBe(false)
    clock.advance(1)
    await arrival
    expect(isThere).toBe(true)
  })

  it('lets others have their turn when it is late', async () => {
    const clock = new ManualClock(100)
    let hadTurn = false
    setImmediate(() => {
      hadTurn = true
    })
    await new RealPace(clock, 1).until(50)
    expect(hadTurn).toBe(true)
  })
})
