import { expect, it } from 'vitest'
import { TraceRatio } from '../../../src/events/trace-ratio.ts'
import { random } from '../../support/random.ts'

/** A trace id whose random part is this. */
function idOf(randomness: bigint, rest = 0n): Uint32Array {
  const low = (rest << 56n) | randomness
  return Uint32Array.of(1, 2, Number(low >> 32n), Number(low & 0xffff_ffffn))
}

// Thresholds of OpenTelemetry's "TraceState: Probability Sampling", zeros at the end left out.
it.each([
  [1, '0'],
  [0.5, '8'],
  [0.25, 'c'],
  [0.125, 'e'],
  [0.75, '4'],
  [1 / 16, 'f'],
  [1 / 1024, 'ffc'],
  [2 ** -55, 'fffffffffffffe'],
])('rejects below the threshold of the specification: ratio %d, th:%s', (ratio, threshold) => {
  expect(new TraceRatio(ratio).threshold).toBe(threshold)
})

it.each([
  [0.1, 'e66666666666'],
  [0.01, 'fd70a3d70a3d'],
  [0.001, 'ffbe76c8b439'],
  [1 / 3, 'aaaaaaaaaaaa'],
])('has the threshold of ratio %d to as many digits as a double has', (ratio, digits) => {
  expect(new TraceRatio(ratio).threshold.slice(0, 12)).toBe(digits)
})

it('decides by the last 56 bits alone: at the threshold yes, one below no', () => {
  const tenth = new TraceRatio(0.01)
  const threshold = BigInt(`0x${tenth.threshold.padEnd(14, '0')}`)
  for (const rest of [0n, 0xffn, 0x5an]) {
    expect(tenth.isSampled(idOf(threshold, rest))).toBe(true)
    expect(tenth.isSampled(idOf(threshold - 1n, rest))).toBe(false)
    expect(tenth.isSampled(idOf(0xff_ffff_ffff_ffffn, rest))).toBe(true)
  }
})

it('records all at 1 and nothing at 0', () => {
  expect(new TraceRatio(1).isSampled(idOf(0n))).toBe(true)
  expect(new TraceRatio(0).isSampled(idOf(0xff_ffff_ffff_ffffn))).toBe(false)
})

it('chooses with a greater ratio what it chooses with a lesser one, and about as much as the ratio says', () => {
  const next = random(7)
  const [less, more] = [new TraceRatio(0.1), new TraceRatio(0.3)]
  let [lessCount, moreCount] = [0, 0]
  for (let trace = 0; trace < 20_000; trace += 1) {
    const traceId = Uint32Array.of(0, 0, next(2 ** 32), next(2 ** 32))
    const [inLess, inMore] = [less.isSampled(traceId), more.isSampled(traceId)]
    expect(inMore || !inLess).toBe(true)
    lessCount += Number(inLess)
    moreCount += Number(inMore)
  }
  expect(lessCount / 20_000).toBeCloseTo(0.1, 1.5)
  expect(moreCount / 20_000).toBeCloseTo(0.3, 1.5)
})
