import { expect, it } from 'vitest'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from '../../../../src/l1/policies/reuse-hazard.ts'
import { ShadowCache } from '../../../../src/l1/policies/shadow-cache.ts'
import { random } from '../../../support/random.ts'

interface Entry {
  readonly print: number
  readonly reuseClass: number
  readonly at: number
}

// Oracle: an array, oldest first.
it.each([
  { isByWorth: false, seed: 1 },
  { isByWorth: false, seed: 2 },
  { isByWorth: true, seed: 1 },
  { isByWorth: true, seed: 2 },
])('hits what an array hits (by worth: $isByWorth, seed $seed)', ({ isByWorth, seed }) => {
  const next = random(seed)
  const worth = Float64Array.from({ length: REUSE_CLASSES * AGE_BUCKETS }, () => next(1000))
  const shadow = new ShadowCache(64, isByWorth ? worth : null)
  const choice = new WorthChoice(worth)
  let oracle: Entry[] = []
  let hits = 0
  for (let step = 1; step < 20_000; step += 1) {
    const print = next(next(3) === 0 ? 1000 : 100)
    const reuseClass = next(REUSE_CLASSES)
    const size = 20 + ((step >> 9) % 44)
    const isHit = oracle.some((entry) => entry.print === print)
    expect(shadow.ask(print, reuseClass, step, size), `step ${step}`).toBe(isHit)
    hits += isHit ? 1 : 0
    oracle = oracle.filter((entry) => entry.print !== print)
    while (!isHit && oracle.length >= size) oracle.splice(isByWorth ? choice.next(oracle, step) : 0, 1)
    oracle.push({ print, reuseClass, at: step })
  }
  expect(hits).toBeGreaterThan(1000)
  shadow.clear()
  expect(shadow.ask(1, 0, 20_001, 64)).toBe(false)
})

/** Of the oldest and the newest of each class, the one of least worth; then up to three more from there. */
class WorthChoice {
  readonly #worth: Float64Array
  #hand = { reuseClass: 0, isNewest: false, second: 0, left: 0 }

  constructor(worth: Float64Array) {
    this.#worth = worth
  }

  next(entries: readonly Entry[], now: number): number {
    const worthOf = ({ reuseClass, at }: Entry) => this.#worth[reuseClass * AGE_BUCKETS + ageBucket(now - at)]!
    const classes = entries.map(({ reuseClass }) => reuseClass)
    const { reuseClass, isNewest, second, left } = this.#hand
    if (left > 0) {
      this.#hand.left -= 1
      const at = isNewest ? classes.lastIndexOf(reuseClass) : classes.indexOf(reuseClass)
      if (at >= 0 && worthOf(entries[at]!) <= second) return at
    }
    const isEnd = (at: number) => classes.indexOf(classes[at]!) === at || classes.lastIndexOf(classes[at]!) === at
    const ends = [...entries.keys()].filter(isEnd)
    const worths = ends.map((at) => worthOf(entries[at]!)).sort((one, other) => one - other)
    const victim = ends.find((at) => worthOf(entries[at]!) === worths[0])!
    const isOldest = classes.indexOf(classes[victim]!) === victim
    this.#hand = { reuseClass: classes[victim]!, isNewest: !isOldest, second: worths[1] ?? Infinity, left: 3 }
    return victim
  }
}
