import { expect, it } from 'vitest'
import { ReuseJudge } from '../../../../src/l1/policies/reuse-judge.ts'
import { random } from '../../../support/random.ts'

const LIVE = 500

/** A number of 31 bits that looks random. */
const printOf = (chunk: number) => (Math.imul(chunk + 1, 0x9e3779b1) ^ (Math.imul(chunk + 7, 0x85ebca6b) >>> 13)) >>> 1

class Load {
  readonly judge = new ReuseJudge()
  readonly next: (limit: number) => number
  now = 0
  readonly #live: number[] = []
  #fresh = 1_000_000

  constructor(seed: number) {
    this.next = random(seed)
  }

  /** A hot set that is asked for among chunks that come once; the class tells them apart. */
  scan(count: number, live = LIVE): void {
    for (let step = 0; step < count; step += 1) {
      const isHot = this.next(3) === 0
      this.#ask(isHot ? this.next(400) : this.#fresh++, isHot ? 4 : 0, live)
    }
  }

  /** What was new a while ago is asked for: the newer the better, and what class 4 has is never asked for. */
  recent(count: number): void {
    for (let step = 0; step < count; step += 1) {
      const isNew = this.next(2) === 0
      const chunk = isNew ? this.#fresh++ : this.#fresh - 1 - this.next(600)
      this.#ask(chunk, isNew ? 0 : 4, LIVE)
    }
  }

  /** Of what L1 holds, the judge only counts how much is sampled: here it is what came last. */
  #ask(chunk: number, reuseClass: number, live: number): void {
    this.now += 1
    const print = printOf(chunk)
    if ((print & this.judge.mask) !== 0) return
    this.#live.push(print)
    this.judge.enter(print)
    while (this.#live.length > live / (this.judge.mask + 1)) {
      const gone = this.#live.shift()!
      if ((gone & this.judge.mask) === 0) this.judge.leave(gone)
    }
    this.judge.ask(print, reuseClass, this.now)
  }
}

it('goes by age until worth is shown to hit more', () => {
  const { judge } = new Load(1)
  expect(judge.isByWorth).toBe(false)
})

it.each([1, 2, 3])('goes by worth where a scan would wash out what is asked for again (seed %i)', (seed) => {
  const load = new Load(seed)
  load.scan(20_000)
  expect(load.judge.isByWorth).toBe(true)
})

it.each([1, 2, 3])('goes by age again when what it has learnt misleads it (seed %i)', (seed) => {
  const load = new Load(seed)
  load.scan(40_000)
  let stepsByAge = 0
  for (let step = 0; step < 20; step += 1) {
    load.recent(1_000)
    if (!load.judge.isByWorth) stepsByAge += 1
  }
  expect(stepsByAge).toBeGreaterThan(0)
})

it.each([20_000, 400_000])('notices a change of load as soon after %i references', (before) => {
  const load = new Load(4)
  load.scan(before)
  expect(load.judge.isByWorth).toBe(true)
  const changed = load.now
  while (load.judge.isByWorth && load.now < changed + 20_000) load.recent(100)
  expect(load.now - changed).toBeLessThan(4 * LIVE)
})

it('samples a large cache, so that its shadows stay small', () => {
  const load = new Load(1)
  load.scan(400_000, 100_000)
  expect(load.judge.mask).toBe(255)
  expect(load.judge.sampled).toBeLessThanOrEqual(512)
  expect(load.judge.bytes).toBeLessThan(256 * 1024)
})
