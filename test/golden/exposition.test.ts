import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { gauge, type Metric, SECONDS } from '../../src/metrics/define.ts'
import type { Family } from '../../src/metrics/families.ts'
import { Histograms } from '../../src/metrics/histograms.ts'
import { renderPieces, type TextFormat } from '../../src/metrics/prometheus.ts'
import { Series, TextStore } from '../../src/metrics/series.ts'
import { HOSTILE_LABELS, recordEverything } from '../support/full-cells.ts'
import { random } from '../support/random.ts'

// The oracle is prom-client. It merges label sets such as {a: '1,b:2'} and {a: '1', b: '2'}, so each series gets a
// registry of its own.

function render(families: readonly Family[], format: TextFormat): string {
  return Buffer.concat([...renderPieces(families, format)]).toString()
}

/** A family of given values, as a snapshot would have it. */
function family(metric: Metric, values: readonly (readonly [Series, number])[]): Family {
  return {
    metric,
    places: () => values.length,
    visit: (from, to, visitor) => {
      for (const [series, value] of values.slice(from, to)) visitor.value(series, value)
    },
  }
}

function promClientRegistry(format: TextFormat): Registry {
  const registry = new Registry()
  if (format === 'openmetrics') registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never)
  return registry
}

async function promClientText(metric: Metric, series: Series, value: number, format: TextFormat): Promise<string> {
  const registry = promClientRegistry(format)
  const labels = Object.fromEntries(series.labels)
  const options = { name: metric.name, help: metric.help, labelNames: Object.keys(labels), registers: [registry] }
  if (metric.type === 'counter') new Counter(options).inc(labels, value)
  else new Gauge(options).set(labels, value)
  return (await registry.metrics()).replace(/# EOF\n$/, '').trimEnd()
}

it.each(['text', 'openmetrics'] as const)('writes every counter and gauge as prom-client does (%s)', async (format) => {
  let compared = 0
  for (const original of recordEverything().reader.take()) {
    if (original.metric.type === 'histogram') continue
    const values: [Series, number][] = []
    original.visit(0, original.places(), {
      value: (series, value) => values.push([series, value]),
      distribution: () => expect.unreachable(),
    })
    expect(values.length, original.metric.name).toBeGreaterThan(0)
    for (const [series, value] of values.slice(0, 40)) {
      const own = render([family(original.metric, [[series, value]])], format)
      expect(own.trimEnd()).toBe(await promClientText(original.metric, series, value, format))
      compared += 1
    }
  }
  expect(compared).toBeGreaterThan(1_000)
})

it('writes hostile label values as prom-client does', async () => {
  const metric = gauge('x', { help: 'Any "help" with \\ and a\nbreak.', labels: ['a', 'b'], from: 'busDepth' })
  for (const a of HOSTILE_LABELS.filter((text) => text.isWellFormed())) {
    for (const b of HOSTILE_LABELS.filter((text) => text.isWellFormed())) {
      const labels: [string, string][] = [
        ['a', a],
        ['b', b],
      ]
      const series = new Series(labels, new TextStore())
      const own = render([family(metric, [[series, 1]])], 'text')
      expect(own.trimEnd()).toBe(await promClientText(metric, series, 1, 'text'))
    }
  }
})

it.each([
  0,
  -0,
  1,
  -1.5,
  0.1,
  1e21,
  1e-9,
  2 ** 53,
  999_999_999,
  1e9,
  2 ** 31,
  5e12 + 7,
  2 ** 53 - 1,
  -5,
  -1.2345678901234567e-100,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
])('writes the value %d as prom-client does', async (value) => {
  const metric = gauge('x', { help: 'x', labels: [], from: 'busDepth' })
  const own = render([family(metric, [[new Series([], new TextStore()), value]])], 'text')
  expect(own.trimEnd()).toBe(await promClientText(metric, new Series([], new TextStore()), value, 'text'))
})

it('writes NaN in the case that the format asks for', () => {
  const metric = gauge('x', { help: 'x', labels: [], from: 'busDepth' })
  expect(render([family(metric, [[new Series([], new TextStore()), Number.NaN]])], 'text')).toContain(
    'cache_mp_x NaN\n',
  )
})

it.each([1, 2, 3])('writes a histogram as prom-client does, samples on the bounds included (seed %i)', async (seed) => {
  const next = random(seed)
  const metric: Metric = {
    name: 'cache_mp_h_seconds',
    type: 'histogram',
    help: 'h',
    labels: ['a'],
    always: false,
    extension: true,
    bounds: SECONDS,
    source: { kind: 'reuseDistance', events: [] },
  }
  const registry = promClientRegistry('text')
  const oracle = new Histogram({
    name: metric.name,
    help: 'h',
    labelNames: ['a'],
    buckets: [...SECONDS],
    registers: [registry],
  })
  const own = new Histograms(metric)
  for (let i = 0; i < 500; i += 1) {
    // Quarters, so that the sum is exact in any order.
    const value = next(2) === 0 ? SECONDS[4 + next(SECONDS.length - 4)]! : next(400_000) / 4
    oracle.observe({ a: 'v' }, value)
    own.record(0, value)
  }
  const shown: Family = {
    metric,
    places: () => 1,
    visit: (_from, _to, visitor) => visitor.distribution(new Series([['a', 'v']], new TextStore()), own.cells(0)!),
  }
  // prom-client puts `le` first; the order of labels means nothing.
  const leLast = (await registry.metrics()).replaceAll(/\{(le="[^"]+"),([^}]*)\}/g, '{$2,$1}')
  expect(render([shown], 'text').trimEnd()).toBe(leLast.trimEnd())
})

it('renders the same text whatever the length of a slice', () => {
  const { reader } = recordEverything()
  const whole = [...renderPieces(reader.take(), 'text', 1e9)]
  expect(whole).toHaveLength(1)
  for (const lines of [1, 7, 100, 5_000]) {
    const pieces = [...renderPieces(reader.take(), 'text', lines)]
    expect(Buffer.concat(pieces).equals(whole[0]!)).toBe(true)
    for (const piece of pieces) expect(piece.toString().split('\n').length).toBeLessThan(lines + 200)
  }
})
