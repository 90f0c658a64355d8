import { expect, it } from 'vitest'
import { TimeCounts } from '../../../src/metrics/time-counts.ts'
import { random } from '../../support/random.ts'

// Oracle: an array of booleans.
it.each([1, 31, 32, 33, 100, 1000])('counts what an array counts, of %i times', (capacity) => {
  const next = random(capacity)
  const counts = new TimeCounts(capacity)
  const isTaken = new Array<boolean>(capacity).fill(false)
  for (let step = 0; step < 3000; step += 1) {
    const time = next(capacity)
    if (next(500) === 0) {
      const first = next(capacity + 1)
      counts.takeFirst(first)
      isTaken.fill(false).fill(true, 0, first)
    } else {
      if (isTaken[time]) counts.give(time)
      else counts.take(time)
      isTaken[time] = !isTaken[time]
    }
    const asked = next(capacity)
    const expected = isTaken.slice(0, asked + 1).filter(Boolean).length
    expect(counts.upTo(asked)).toBe(expected)
  }
})
