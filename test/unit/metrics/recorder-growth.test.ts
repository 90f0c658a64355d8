import { expect, it } from 'vitest'
import { recordingGrowth } from '../../../bench/support/recording-growth.ts'

it('allocates nothing to record: events of every kind, histograms, reuse distances and counters', () => {
  const { bytes_a_record, dropped } = recordingGrowth()
  expect(dropped).toBe(0)
  expect(bytes_a_record).toBeLessThan(1) // one boxed number in sixteen records would be more
})
