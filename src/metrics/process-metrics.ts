import { collectDefaultMetrics, Registry, type RegistryContentType } from 'prom-client'
import type { ForeignText } from './exposition.ts'
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
}
