import { expect, it } from 'vitest'
import { AGE_BUCKETS, ageBucket, type ReuseHazard } from '../../../../src/l1/policies/reuse-hazard.ts'
import { ReuseSampler } from '../../../../src/l1/policies/reuse-sampler.ts'
import { random } from '../../../support/random.ts'

const CAPACITY = 1024

/** What a sampler tells of each class and bucket. */
class Counts {
  readonly againBy = new Map<string, number>()
  readonly reachedBy = new Map<string, number>()

  again(reuseClass: number, bucket: number): void {
    count(this.againBy, `${reuseClass}/${bucket}`)
  }

  reached(reuseClass: number, bucket: number): void {
    count(this.reachedBy, `${reuseClass}/${bucket}`)
  }
}

function count(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1)
}

// Oracle: every touch, with the time of the next one of the same chunk or of the end.
it.each([1, 2, 3])('counts what was asked for again, and what got how old, as all touches tell (seed %i)', (seed) => {
  const next = random(seed)
  const counts = new Counts()
  const sampler = new ReuseSampler(CAPACITY, counts as unknown as ReuseHazard)
  const touches: { print: number; reuseClass: number; at: number; until: number; isAgain: boolean }[] = []
  const last = new Map<number, number>()
  let now = 0
  for (let touch = 0; touch < CAPACITY; touch += 1) {
    now += 1 + next(20)
    const print = next(next(2) === 0 ? 20 : 5_000)
    const reuseClass = next(16)
    const before = last.get(print)
    if (before !== undefined) Object.assign(touches[before]!, { until: now, isAgain: true })
    last.set(print, touches.length)
    touches.push({ print, reuseClass, at: now, until: Number.POSITIVE_INFINITY, isAgain: false })
    sampler.touch(print, reuseClass, now)
  }
  const oracle = new Counts()
  for (const { reuseClass, at, until, isAgain } of touches) {
    const oldest = ageBucket(Math.min(until, now) - at)
    for (let bucket = 0; bucket <= oldest; bucket += 1) oracle.reached(reuseClass, bucket)
    if (isAgain) oracle.again(reuseClass, oldest)
  }
  expect(sorted(counts.againBy)).toEqual(sorted(oracle.againBy))
  expect(sorted(counts.reachedBy)).toEqual(sorted(oracle.reachedBy))
  expect(counts.againBy.size).toBeGreaterThan(50)
})

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
