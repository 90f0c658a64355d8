import { expect, it } from 'vitest'
import { copyRangesOf } from '../../../src/native/bulk-copy.ts'
import { addonOf } from '../../support/addon.ts'
import { random } from '../../support/random.ts'

it.for([1, 2, 3])('copies the same with the addon and without (seed %i)', async (seed, context) => {
  const ways = [copyRangesOf(null), copyRangesOf(await addonOf(context))]
  const next = random(seed)
  const source = Uint8Array.from({ length: 100_000 }, () => next(256))
  const targets = ways.map(() => new Uint8Array(100_000))
  for (let step = 0; step < 200; step += 1) {
    const count = next(8)
    const column = (limit: number) => new Float64Array(8).map(() => next(limit))
    const [to, from, length] = [column(60_000), column(60_000), column(40_000)]
    for (const [at, copy] of ways.entries()) copy(targets[at]!, source, to, from, length, count)
    expect(Buffer.compare(targets[0]!, targets[1]!)).toBe(0)
  }
})

it('a range that lies outside is refused by both', async (context) => {
  for (const copy of [copyRangesOf(null), copyRangesOf(await addonOf(context))]) {
    const one = (to: number, from: number, length: number) => () =>
      copy(
        new Uint8Array(10),
        new Uint8Array(10),
        Float64Array.of(to),
        Float64Array.of(from),
        Float64Array.of(length),
        1,
      )
    for (const wrong of [one(5, 0, 6), one(0, 5, 6), one(11, 0, 1)]) expect(wrong).toThrow(RangeError)
    expect(one(4, 4, 6)).not.toThrow()
  }
})
