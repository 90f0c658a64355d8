import { expect, it } from 'vitest'
import { LoadEstimate } from '../../../src/transfer/load-estimate.ts'
import { random } from '../../support/random.ts'

const MIB = 2 ** 20

function learnt(latency: number, bytesPerSecond: number, sizes: readonly number[]): LoadEstimate {
  const estimate = new LoadEstimate()
  for (const bytes of sizes) estimate.note(bytes, latency + bytes / bytesPerSecond)
  return estimate
}

it('knows nothing before the first batch', () => {
  const estimate = new LoadEstimate()
  expect(estimate.secondsOf(MIB)).toBeUndefined()
  estimate.note(0, 1)
  estimate.note(MIB, 0)
  expect(estimate.secondsOf(MIB)).toBeUndefined()
})

it.each([1, 2, 3])('tells latency from throughput where batches differ in size (seed %i)', (seed) => {
  const next = random(seed)
  const sizes = Array.from({ length: 64 }, () => MIB * (1 + next(64)))
  const estimate = learnt(0.05, 1e9, sizes)
  for (const bytes of [MIB, 16 * MIB, 256 * MIB]) {
    expect(estimate.secondsOf(bytes)).toBeCloseTo(0.05 + bytes / 1e9, 3)
  }
})

it('takes the mean rate where all batches are of one size', () => {
  const estimate = learnt(0.01, 1e8, Array(20).fill(MIB))
  const seconds = 0.01 + MIB / 1e8
  expect(estimate.secondsOf(MIB)).toBeCloseTo(seconds)
  expect(estimate.secondsOf(2 * MIB)).toBeCloseTo(2 * seconds)
})

it('follows an adapter that becomes slower within some forty batches', () => {
  const estimate = learnt(0, 1e9, Array(100).fill(MIB))
  for (let batch = 0; batch < 40; batch += 1) estimate.note(MIB, MIB / 1e7)
  const seconds = estimate.secondsOf(MIB)!
  expect(seconds).toBeGreaterThan((0.9 * MIB) / 1e7)
  expect(seconds).toBeLessThanOrEqual(MIB / 1e7)
})

it.each([1, 2, 3, 4])('never answers less than nothing, nor less for more bytes (seed %i)', (seed) => {
  const next = random(seed)
  const estimate = new LoadEstimate()
  for (let batch = 0; batch < 500; batch += 1) {
    estimate.note(1 + next(2 ** 30), (1 + next(1e6)) / 1e5)
    const seconds = [1, MIB, 2 ** 30, 2 ** 40].map((bytes) => estimate.secondsOf(bytes)!)
    expect(seconds[0]).toBeGreaterThanOrEqual(0)
    expect([...seconds].sort((a, b) => a - b)).toEqual(seconds)
  }
})
