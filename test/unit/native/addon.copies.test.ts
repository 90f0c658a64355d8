import { expect, it } from 'vitest'
import { addonOf } from '../../support/addon.ts'
import { random } from '../../support/random.ts'

const MIB = 1024 * 1024

// Oracle: TypedArray.set, range by range.
it.for([1, 2, 3])('copies what TypedArray.set copies, on any number of threads (seed %i)', async (seed, context) => {
  const addon = await addonOf(context)
  const next = random(seed)
  const source = new Uint8Array(24 * MIB)
  for (let at = 0; at < source.length; at += 1) source[at] = (at * 2_654_435_761) >>> 13
  const [ours, expected] = [new Uint8Array(24 * MIB), new Uint8Array(24 * MIB)]
  for (let step = 0; step < 24; step += 1) {
    const count = 1 + next(12)
    const columns = [0, 1, 2].map(() => new Float64Array(count))
    let to = next(1_000)
    for (let row = 0; row < count; row += 1) {
      const length = next(4) === 0 ? next(6 * MIB) : next(100_000)
      if (to + length > ours.length) break
      const from = next(source.length - length)
      for (const [column, value] of [to, from, length].entries()) columns[column]![row] = value
      expected.set(source.subarray(from, from + length), to)
      to += length + next(100)
    }
    addon.copyRanges(ours, source, columns[0]!, columns[1]!, columns[2]!, count, next(20))
    expect(Buffer.compare(ours, expected)).toBe(0)
  }
})

it('within one memory, ranges that overlap move as copyWithin moves them', async (context) => {
  const addon = await addonOf(context)
  const fill = () => Uint8Array.from({ length: 2 * MIB }, (_, at) => at % 251)
  for (const [to, from, length] of [
    [1, 0, MIB],
    [0, 1, MIB],
    [100, 50, 700_000],
    [MIB, 0, MIB],
  ] as const) {
    const [ours, expected] = [fill(), fill()]
    addon.copyRanges(ours, ours, Float64Array.of(to), Float64Array.of(from), Float64Array.of(length), 1, 4)
    expected.copyWithin(to, from, from + length)
    expect(Buffer.compare(ours, expected)).toBe(0)
  }
})
