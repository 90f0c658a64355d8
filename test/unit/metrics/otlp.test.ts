import { JsonMetricsSerializer } from '@opentelemetry/otlp-transformer'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { DataPointType, type MetricData } from '@opentelemetry/sdk-metrics'
import { expect, it } from 'vitest'
import { CATALOGUE } from '../../../src/metrics/catalogue.ts'
import { hrTimeOf, otlpBatches } from '../../../src/metrics/otlp.ts'
import { ProcessMetrics } from '../../../src/metrics/process-metrics.ts'
import { renderPieces } from '../../../src/metrics/prometheus.ts'
import { parseExposition } from '../../support/exposition-parser.ts'
import { measured, recordEverything } from '../../support/full-cells.ts'
import { seriesName } from '../../support/otlp-receiver.ts'

const TIMES = { start: hrTimeOf(1_700_000_000_000), end: hrTimeOf(1_700_000_060_500.25) }

/** Sample lines of both exports under one form of name; a bucket is named by its bound. */
function samplesOf(metrics: readonly MetricData[]): Map<string, number> {
  const samples = new Map<string, number>()
  for (const { descriptor, dataPointType, dataPoints } of metrics) {
    for (const { attributes, value } of dataPoints) {
      const labels = attributes as Record<string, string>
      if (dataPointType !== DataPointType.HISTOGRAM) {
        samples.set(seriesName(descriptor.name, labels), value as number)
        continue
      }
      const { buckets, sum, count } = value as {
        buckets: { boundaries: number[]; counts: number[] }
        sum: number
        count: number
      }
      let below = 0
      for (const [at, inBucket] of buckets.counts.entries()) {
        below += inBucket
        samples.set(
          seriesName(`${descriptor.name}_bucket`, { ...labels, le: `${buckets.boundaries[at] ?? '+Inf'}` }),
          below,
        )
      }
      samples.set(seriesName(`${descriptor.name}_sum`, labels), sum)
      samples.set(seriesName(`${descriptor.name}_count`, labels), count)
    }
  }
  return samples
}

it('pushes exactly the samples of a scrape: the same names, labels and values', () => {
  const { reader } = recordEverything()
  const text = Buffer.concat([...renderPieces(reader.take(), 'text')]).toString()
  const scraped = parseExposition(text).samples.map(
    ({ name, labels, value }) => [seriesName(name, Object.fromEntries(Object.entries(labels))), value] as const,
  )
  const pushed = samplesOf([...otlpBatches(reader.take(), TIMES)].flat())
  expect(pushed.size).toBeGreaterThan(1000)
  expect([...pushed].toSorted()).toEqual(scraped.toSorted())
})

it('makes small batches, and loses nothing between them', () => {
  const { reader } = recordEverything()
  const whole = samplesOf([...otlpBatches(reader.take(), TIMES)].flat())
  for (const pointsMax of [1, 7, 100]) {
    const batches = [...otlpBatches(reader.take(), TIMES, pointsMax)]
    const sizes = batches.map((batch) => batch.reduce((sum, { dataPoints }) => sum + dataPoints.length, 0))
    expect(Math.max(...sizes)).toBeLessThanOrEqual(pointsMax)
    expect(samplesOf(batches.flat())).toEqual(whole)
  }
})

it('has no unit and keeps the kind of each metric, so that nothing renames it', () => {
  const { reader } = recordEverything()
  const kinds = { counter: DataPointType.SUM, gauge: DataPointType.GAUGE, histogram: DataPointType.HISTOGRAM }
  for (const { descriptor, dataPointType } of [...otlpBatches(reader.take(), TIMES)].flat()) {
    const metric = CATALOGUE.find(({ name }) => name === descriptor.name)!
    expect(descriptor).toMatchObject({ name: metric.name, unit: '', description: metric.help })
    expect(dataPointType, descriptor.name).toBe(kinds[metric.type])
  }
})

it('writes the times of the count and of the reading', () => {
  expect(TIMES.end).toEqual([1_700_000_060, 500_250_000])
  const [[metric]] = [...otlpBatches(measured().reader.take(), TIMES)] as [[MetricData]]
  const request = {
    resource: resourceFromAttributes({}),
    scopeMetrics: [{ scope: { name: 'kvtier' }, metrics: [metric] }],
  }
  const text = new TextDecoder().decode(JsonMetricsSerializer.serializeRequest(request))
  expect(text).toContain('"startTimeUnixNano":"1700000000000000000"')
  expect(text).toContain('"timeUnixNano":"1700000060500250000"')
})

it('pushes the metrics of the process that a scrape shows', async () => {
  const process = new ProcessMetrics()
  const scraped = parseExposition(await process.text('text'))
  const pushed = samplesOf(await process.data(TIMES))
  const names = (all: Iterable<string>) => [...new Set([...all].map((name) => name.split('[')[0]!))].toSorted()
  const finite = scraped.samples.filter(({ value }) => Number.isFinite(value))
  expect(names(pushed.keys())).toEqual(names(finite.map(({ name }) => name)))
  expect(pushed.get(seriesName('process_start_time_seconds', {}))).toBeGreaterThan(1e9)
})
