import { expect, it } from 'vitest'
import { AGE_BUCKETS, ageBucket, type ReuseHazard } from '../../../../src/l1/policies/reuse-hazard.ts'
import { ReuseSampler } from '../../../../src/l1/policies/reuse-sampler.ts'
import { random } from '../../../support/random.ts'

const CAPACITY = 1024

/** What a sampler tells of each class and bucket. */
class Counts {
  readonly againBy = new Map<string, number>()
  readonly lostBy = new Map<string, number>()
  readonly waiting = new Float64Array(16 * AGE_BUCKETS)

  again(reuseClass: number, bucket: number): void {
    count(this.againBy, reuseClass, bucket)
  }

  lost(reuseClass: number, bucket: number): void {
    count(this.lostBy, reuseClass, bucket)
  }

  waitingBy(): Map<string, number> {
    const entries = [...this.waiting].map((number, at) => [
      keyOf(Math.floor(at / AGE_BUCKETS), at % AGE_BUCKETS),
      number,
    ])
    return new Map((entries as [string, number][]).filter(([, number]) => number > 0))
  }
}

const keyOf = (reuseClass: number, bucket: number) => `${reuseClass}/${bucket}`

function count(map: Map<string, number>, reuseClass: number, bucket: number): void {
  const key = keyOf(reuseClass, bucket)
  map.set(key, (map.get(key) ?? 0) + 1)
}

// Oracle: every touch, with the time of the next one of the same chunk, or of what pushed it out of the ring, or of the end.
it.each([1, 2, 3])(
  'counts what was asked for again, at what age, and what waits, as all touches tell (seed %i)',
  (seed) => {
    const next = random(seed)
    const counts = new Counts()
    const sampler = new ReuseSampler(CAPACITY, counts as unknown as ReuseHazard)
    const touches: {
      print: number
      reuseClass: number
      at: number
      until: number
      end: 'again' | 'lost' | 'waiting'
    }[] = []
    const last = new Map<number, number>()
    let now = 0
    for (let touch = 0; touch < 3 * CAPACITY; touch += 1) {
      now += 1 + next(20)
      const print = next(next(2) === 0 ? 20 : 5_000)
      const reuseClass = next(16)
      const before = last.get(print)
      if (before !== undefined && touches[before]!.end === 'waiting') {
        Object.assign(touches[before]!, { until: now, end: 'again' })
      }
      const pushedOut = touches[touch - CAPACITY]
      if (pushedOut?.end === 'waiting') Object.assign(pushedOut, { until: now, end: 'lost' })
      last.set(print, touches.length)
      touches.push({ print, reuseClass, at: now, until: Number.POSITIVE_INFINITY, end: 'waiting' })
      sampler.touch(print, reuseClass, now)
    }
    sampler.countWaiting(now)
    const oracle = { again: new Map(), lost: new Map(), waiting: new Map() }
    for (const { reuseClass, at, until, end } of touches) {
      count(oracle[end], reuseClass, ageBucket(Math.min(until, now) - at))
    }
    expect(sorted(counts.againBy)).toEqual(sorted(oracle.again))
    expect(sorted(counts.lostBy)).toEqual(sorted(oracle.lost))
    expect(sorted(counts.waitingBy())).toEqual(sorted(oracle.waiting))
    expect([counts.againBy.size, counts.lostBy.size].every((size) => size > 15)).toBe(true)
  },
)

it('forgets the oldest touch when it is full, and all when it is cleared', () => {
  const counts = new Counts()
  const sampler = new ReuseSampler(4, counts as unknown as ReuseHazard)
  for (const print of [1, 2, 3, 4, 5]) sampler.touch(print, 0, print)
  sampler.touch(1, 0, 6)
  expect(counts.againBy.size).toBe(0)
  sampler.touch(5, 0, 7)
  expect(counts.againBy.size).toBe(1)
  sampler.clear()
  sampler.touch(5, 0, 8)
  expect(counts.againBy.size).toBe(1)
})

it('goes on when the count of references wraps', () => {
  const counts = new Counts()
  const sampler = new ReuseSampler(16, counts as unknown as ReuseHazard)
  sampler.touch(1, 0, 2 ** 32 - 3)
  sampler.touch(1, 0, 4)
  expect([...counts.againBy.keys()]).toEqual([`0/${ageBucket(7)}`])
  expect(ageBucket(7)).toBeLessThan(AGE_BUCKETS)
})

function sorted(map: Map<string, number>): [string, number][] {
  return [...map].sort(([one], [other]) => (one < other ? -1 : 1))
}
