import type { DataPoint, MetricData } from '@opentelemetry/sdk-metrics'
import { collectDefaultMetrics, type MetricObject, Registry, type RegistryContentType } from 'prom-client'
import type { ForeignText } from './exposition.ts'
import { type Distribution, metricData, type PointTimes } from './otlp.ts'
import type { TextFormat } from './prometheus.ts'

/** Gauges whose names end as those of counters do; each is the sum of another gauge. */
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total']

/** CPU, memory and event loop of the process, as prom-client collects them: `process_*` and `nodejs_*`. One a process. */
export class ProcessMetrics implements ForeignText {
  readonly #registry = new Registry<RegistryContentType>()

  constructor() {
    collectDefaultMetrics({ register: this.#registry as Registry })
    for (const name of MISNAMED) this.#registry.removeSingleMetric(name)
  }

  /** The exposition without the closing `# EOF`. One call at a time: the format is a setting of the registry. */
  async text(format: TextFormat): Promise<string> {
    this.#registry.setContentType(
      format === 'text' ? Registry.PROMETHEUS_CONTENT_TYPE : Registry.OPENMETRICS_CONTENT_TYPE,
    )
    const text = (await this.#registry.metrics()).replaceAll('\n\n', '\n')
    const body = text.endsWith('# EOF\n') ? text.slice(0, -'# EOF\n'.length) : text
    return body.endsWith('\n') ? body : `${body}\n`
  }

  /** The same metrics for a push. */
  async data(times: PointTimes): Promise<MetricData[]> {
    const metrics = (await this.#registry.getMetricsAsJSON()) as unknown as JsonMetric[]
    return metrics
      .filter(({ type }) => type === 'counter' || type === 'gauge' || type === 'histogram')
      .map((metric) => metricData(metric as MetricHeadOf, pointsOf(metric, times)))
      .filter(({ dataPoints }) => dataPoints.length > 0)
  }
}

type MetricHeadOf = Parameters<typeof metricData>[0]
type Labels = Readonly<Record<string, string | number>>

/** What prom-client says of one metric: a histogram has a value a bucket (cumulative), one for its sum and its count. */
interface JsonMetric extends Pick<MetricObject, 'name' | 'help'> {
  readonly type: string
  readonly values: readonly { readonly value: number; readonly labels: Labels; readonly metricName?: string }[]
}

function pointsOf(metric: JsonMetric, times: PointTimes): DataPoint<number | Distribution>[] {
  const point = <T>(labels: Labels, value: T): DataPoint<T> => ({
    startTime: times.start,
    endTime: times.end,
    attributes: textsOf(labels),
    value,
  })
  if (metric.type === 'histogram') return distributionsOf(metric).map(([labels, value]) => point(labels, value))
  return metric.values.filter(({ value }) => Number.isFinite(value)).map(({ labels, value }) => point(labels, value))
}

function textsOf(labels: Labels): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, `${value}`]))
}

function distributionsOf({ name, values }: JsonMetric): (readonly [Labels, Distribution])[] {
  const bySeries = Map.groupBy(values, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels))
  return [...bySeries].map(([key, own]) => {
    const buckets = own.filter(({ labels }) => labels.le !== undefined)
    const cumulative = buckets.map(({ value }) => value)
    const counts = cumulative.map((count, at) => count - (cumulative[at - 1] ?? 0))
    const boundaries = buckets.map(({ labels }) => Number(labels.le)).filter(Number.isFinite)
    const sampleOf = (suffix: string) => own.find(({ metricName }) => metricName === name + suffix)?.value ?? 0
    return [
      JSON.parse(key) as Labels,
      { buckets: { boundaries, counts }, sum: sampleOf('_sum'), count: sampleOf('_count') },
    ]
  })
}
