import { expect, it } from 'vitest'
import { AGE_BUCKETS, ageBucket, bucketStart, ReuseHazard } from '../../../../src/l1/policies/reuse-hazard.ts'

/** Tells that `count` chunks of a class were asked for again at one age, of so many that were watched until later. */
function observe(hazard: ReuseHazard, reuseClass: number, age: number, count: number, watched: number): void {
  const bucket = ageBucket(age)
  for (let chunk = 0; chunk < watched; chunk += 1) {
    if (chunk < count) hazard.again(reuseClass, bucket)
    else hazard.lost(reuseClass, ageBucket(4 * age))
  }
}

const worthOf = (hazard: ReuseHazard, reuseClass: number, age: number) =>
  hazard.worth[reuseClass * AGE_BUCKETS + ageBucket(age)]!

it('ages fall into the bucket whose start is at most the age, and the next start is above it', () => {
  for (let age = 0; age < 70_000; age += 1) {
    const bucket = ageBucket(age)
    expect(bucketStart(bucket)).toBeLessThanOrEqual(age)
    expect(age === 0 || bucketStart(bucket + 1) > age).toBe(true)
  }
  expect(ageBucket(2 ** 32 - 2)).toBe(AGE_BUCKETS - 1)
})

it('a chunk that is asked for again more often is worth more', () => {
  const hazard = new ReuseHazard()
  observe(hazard, 1, 1000, 900, 1000)
  observe(hazard, 2, 1000, 100, 1000)
  hazard.update()
  for (const age of [0, 100, 900]) expect(worthOf(hazard, 1, age)).toBeGreaterThan(2 * worthOf(hazard, 2, age))
})

it('a chunk that is asked for at one age is worth more the nearer that is, and nothing after it', () => {
  const hazard = new ReuseHazard()
  observe(hazard, 0, 1000, 800, 1000)
  hazard.update()
  const ages = [0, 300, 600, 900]
  const worth = ages.map((age) => worthOf(hazard, 0, age))
  expect(worth).toEqual([...worth].sort((one, other) => one - other))
  expect(worthOf(hazard, 0, 2000)).toBe(0)
})

it('a class of which nothing is known is worth what all are together', () => {
  const hazard = new ReuseHazard()
  observe(hazard, 3, 500, 500, 1000)
  hazard.update()
  expect(worthOf(hazard, 9, 100) / worthOf(hazard, 3, 100)).toBeCloseTo(1, 1)
})

it('what faded gives way to what is new', () => {
  const hazard = new ReuseHazard()
  observe(hazard, 1, 100, 1000, 1000)
  for (let time = 0; time < 8; time += 1) hazard.fade()
  observe(hazard, 1, 100, 0, 1000)
  observe(hazard, 2, 100, 500, 1000)
  hazard.update()
  expect(worthOf(hazard, 2, 10)).toBeGreaterThan(10 * worthOf(hazard, 1, 10))
})

it('what still waits lowers the worth as what is lost does', () => {
  const [waits, lost] = [new ReuseHazard(), new ReuseHazard()]
  for (const hazard of [waits, lost]) observe(hazard, 1, 1000, 300, 300)
  const bucket = ageBucket(2000)
  waits.waiting[1 * AGE_BUCKETS + bucket] = 700
  for (let chunk = 0; chunk < 700; chunk += 1) lost.lost(1, bucket)
  for (const hazard of [waits, lost]) hazard.update()
  expect(waits.worth).toEqual(lost.worth)
  expect(worthOf(waits, 1, 0)).toBeGreaterThan(0)
})
