import type { HrTime } from '@opentelemetry/api'
import { ValueType } from '@opentelemetry/api'
import { AggregationTemporality, type DataPoint, DataPointType, type MetricData } from '@opentelemetry/sdk-metrics'
import type { Metric } from './define.ts'
import type { Family } from './families.ts'
import type { FamilyVisitor, Series } from './series.ts'

/** A batch's points at most: about 2 ms to collect and to write. */
export const BATCH_POINTS = 2_000

/** Value of one point of a distribution, as the OpenTelemetry SDK has it. Counts are not cumulative. */
export interface Distribution {
  readonly buckets: { readonly boundaries: number[]; readonly counts: number[] }
  readonly sum: number
  readonly count: number
}

/** When counting began, and when the values were read. */
export interface PointTimes {
  readonly start: HrTime
  readonly end: HrTime
}

/** Milliseconds since 1970 as seconds and nanoseconds. */
export function hrTimeOf(wallMs: number): HrTime {
  const seconds = Math.floor(wallMs / 1000)
  return [seconds, Math.round((wallMs - seconds * 1000) * 1e6)]
}

/** The parts of a metric that every point shares. The name is literal and has no unit, so that nothing renames it. */
export interface MetricHead {
  readonly name: string
  readonly help: string
  readonly type: Metric['type']
}

/** One metric of a batch. */
export function metricData(head: MetricHead, points: DataPoint<number | Distribution>[]): MetricData {
  const descriptor = { name: head.name, description: head.help, unit: '', valueType: ValueType.DOUBLE }
  const common = { descriptor, aggregationTemporality: AggregationTemporality.CUMULATIVE }
  switch (head.type) {
    case 'counter':
      return {
        ...common,
        dataPointType: DataPointType.SUM,
        isMonotonic: true,
        dataPoints: points as DataPoint<number>[],
      }
    case 'gauge':
      return { ...common, dataPointType: DataPointType.GAUGE, dataPoints: points as DataPoint<number>[] }
    case 'histogram':
      return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints: points as DataPoint<Distribution>[] }
  }
}

/** Collects the points of one family. Values that are not finite have no form in JSON and are left out. */
class PointCollector implements FamilyVisitor {
  readonly points: DataPoint<number | Distribution>[] = []
  readonly #times: PointTimes
  readonly #boundaries: number[]

  constructor(metric: Metric, times: PointTimes) {
    this.#times = times
    this.#boundaries = [...metric.bounds]
  }

  value(series: Series, value: number): void {
    if (Number.isFinite(value)) this.#add(series, value)
  }

  distribution(series: Series, cells: Float64Array): void {
    const counts = Array.from(cells.subarray(0, -1))
    const count = counts.reduce((sum, one) => sum + one, 0)
    this.#add(series, { buckets: { boundaries: this.#boundaries, counts }, sum: cells.at(-1)!, count })
  }

  #add(series: Series, value: number | Distribution): void {
    series.attributes ??= Object.fromEntries(series.labels)
    this.points.push({
      startTime: this.#times.start,
      endTime: this.#times.end,
      attributes: series.attributes,
      value,
    })
  }
}

/**
 * A snapshot as OpenTelemetry metrics, with the names and labels of the exposition, in batches of at most
 * `pointsMax` points (at least one series each). Only one batch exists at a time, so that memory stays small however
 * many series there are. A metric with many series is spread over several batches.
 */
export function* otlpBatches(
  families: readonly Family[],
  times: PointTimes,
  pointsMax = BATCH_POINTS,
): Generator<MetricData[]> {
  let batch: MetricData[] = []
  let room = pointsMax
  for (const family of families) {
    const places = family.places()
    for (let from = 0; from < places; ) {
      const to = Math.min(places, from + room)
      const collector = new PointCollector(family.metric, times)
      family.visit(from, to, collector)
      if (collector.points.length > 0) batch.push(metricData(family.metric, collector.points))
      room -= collector.points.length
      from = to
      if (room > 0) continue
      yield batch
      batch = []
      room = pointsMax
    }
  }
  if (batch.length > 0) yield batch
}
