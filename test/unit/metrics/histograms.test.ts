import { expect, it } from 'vitest'
import { CATALOGUE } from '../../../src/metrics/catalogue.ts'
import { Histograms } from '../../../src/metrics/histograms.ts'
import { random } from '../../support/random.ts'

const METRIC = CATALOGUE.find(({ name }) => name === 'cache_mp_l1_chunk_lifetime_seconds')!

// Oracle: count the samples under each bound.
it.each([1, 2, 3])('puts each sample under the first bound that holds it (seed %i)', (seed) => {
  const next = random(seed)
  const histograms = new Histograms(METRIC)
  const samples: number[] = []
  for (let i = 0; i < 500; i += 1) {
    const sample = next(3) === 0 ? METRIC.bounds[next(METRIC.bounds.length)]! : next(60_000_000) / 1000
    samples.push(sample)
    histograms.record(5, sample)
  }
  const cells = histograms.cells(5)!
  let cumulative = 0
  for (const [i, bound] of METRIC.bounds.entries()) {
    cumulative += cells[i]!
    expect(cumulative).toBe(samples.filter((sample) => sample <= bound).length)
  }
  expect(histograms.count(5)).toBe(samples.length)
  expect(cells.at(-1)).toBeCloseTo(
    samples.reduce((sum, sample) => sum + sample, 0),
    3,
  )
})

it('makes the cells of a label set at its first sample', () => {
  const histograms = new Histograms(METRIC)
  expect([histograms.series, histograms.cells(9), histograms.count(9)]).toEqual([[], undefined, 0])
  histograms.record(9, 1)
  histograms.record(2, 1)
  histograms.record(9, 1)
  expect(histograms.series).toEqual([9, 2])
})
