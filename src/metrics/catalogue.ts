import { HEALTH_METRICS } from './catalogue-health.ts'
import { L1_METRICS } from './catalogue-l1.ts'
import { L2_METRICS, PREFETCH_METRICS } from './catalogue-l2.ts'
import { LIFECYCLE_METRICS } from './catalogue-lifecycle.ts'
import { LOOKUP_METRICS } from './catalogue-lookup.ts'
import { REUSE_METRICS } from './catalogue-reuse.ts'
import { THROUGHPUT_METRICS } from './catalogue-throughput.ts'
import type { Metric } from './define.ts'

/** Every metric of the engine, once. Exporters, docs, dashboards and alert rules read this list. */
export const CATALOGUE: readonly Metric[] = [
  ...LOOKUP_METRICS,
  ...L1_METRICS,
  ...L2_METRICS,
  ...PREFETCH_METRICS,
  ...THROUGHPUT_METRICS,
  ...HEALTH_METRICS,
  ...REUSE_METRICS,
  ...LIFECYCLE_METRICS,
]
