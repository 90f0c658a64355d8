import { expect, it } from 'vitest'
import { type BenchResult, compareResults } from '../../bench/support/compare-results.ts'
import { type Figure, holds, ratioFigure } from '../../bench/support/figures.ts'

const machine = { processor: 'p', cores: 2, memoryGib: 1, node: '24', kernel: 'linux', load: 0 }

function resultOf(benches: Record<string, readonly Figure[]>): BenchResult {
  const reports = Object.entries(benches).map(([name, figures]) => [name, { figures, rows: [], seconds: 1 }])
  return { date: '2026-01-01T00:00:00.000Z', machine, benches: Object.fromEntries(reports) }
}

it('finds ratios that got worse, whichever way is better, and leaves times alone', () => {
  const time: Figure = { name: 'time', value: 1, unit: 'ns', better: 'lower' }
  const before = resultOf({ wire: [ratioFigure('latency', 0.2, 'lower'), ratioFigure('rate', 10, 'higher'), time] })
  const now = resultOf({
    wire: [ratioFigure('latency', 0.5, 'lower'), ratioFigure('rate', 9, 'higher'), { ...time, value: 99 }],
  })
  const { changes, missing } = compareResults(before, now, 1.5)
  expect(changes.map(({ figure, isWorse }) => [figure, isWorse])).toEqual([
    ['latency', true],
    ['rate', false],
  ])
  expect(changes[0]!.worse).toBeCloseTo(2.5)
  expect(missing).toEqual([])
})

it('misses a ratio that is gone, but not a bench that was not run', () => {
  const before = resultOf({ wire: [ratioFigure('latency', 0.2, 'lower')], index: [ratioFigure('growth', 1, 'lower')] })
  expect(compareResults(before, resultOf({ wire: [] }), 1.5).missing).toEqual(['wire: latency'])
  const failed = { ...resultOf({}), benches: { wire: { error: 'no result' } } }
  expect(compareResults(before, failed, 1.5).missing).toEqual(['wire: latency'])
})

it('holds a figure to its bound from the side that is worse', () => {
  expect(holds(ratioFigure('a', 0.2, 'lower', 0.2))).toBe(true)
  expect(holds(ratioFigure('a', 0.3, 'lower', 0.2))).toBe(false)
  expect(holds(ratioFigure('a', 9, 'higher', 10))).toBe(false)
  expect(holds(ratioFigure('a', 9, 'higher'))).toBe(true)
})
