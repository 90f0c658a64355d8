import type { PrometheusApi, QueryRow } from './prometheus-api.ts'

/** What a fleet can be looked at by, and the labels that tell its rows apart. */
export const GROUPINGS = {
  model: ['model_name'],
  tenant: ['model_name', 'cache_salt'],
  engine: ['job', 'instance'],
} as const

export type Grouping = keyof typeof GROUPINGS

/** One model, tenant or engine. Rates are a second, over five minutes. */
export interface FleetRow {
  readonly labels: Readonly<Record<string, string>>
  /** Null without traffic. */
  readonly hitRatio: number | null
  readonly requestedTokens: number
  readonly chunksLoaded: number
  readonly l1Evicted: number
  /** Engines only: share of L1 in use. */
  readonly l1Usage: number | null
  readonly problems: readonly string[]
}

const RATES = {
  requested: 'cache_mp_lookup_requested_tokens_total',
  hit: 'cache_mp_lookup_hit_tokens_total',
  loaded: 'cache_mp_num_chunks_loaded_total',
  evicted: 'cache_mp_l1_evicted_chunks_total',
  readFailures: 'cache_mp_l1_read_failure_chunks_total',
  loadFailures: 'cache_mp_l2_prefetch_failure_chunks_total',
} as const

type Values = Map<string, Map<string, number>>

/** Hit rate and health of a fleet from a Prometheus server, by model, tenant or engine; most traffic first. */
export async function fleetReport(api: Pick<PrometheusApi, 'query'>, grouping: Grouping): Promise<FleetRow[]> {
  const labels = GROUPINGS[grouping]
  const by = labels.join(', ')
  const names = Object.keys(RATES) as (keyof typeof RATES)[]
  const rates = await Promise.all(names.map((name) => api.query(`sum by (${by}) (rate(${RATES[name]}[5m]))`)))
  const gauges =
    grouping === 'engine'
      ? {
          usage: await api.query(`max by (${by}) (cache_mp_l1_usage_ratio)`),
          circuits: await api.query(`max by (${by}) (cache_mp_l2_circuit_state)`),
          lag: await api.query(`max by (${by}) (cache_mp_event_bus_drain_lag_seconds)`),
          stalled: await api.query(`max by (${by}) (cache_mp_loop_heartbeat_age_seconds)`),
        }
      : {}
  const values: Values = new Map()
  for (const [at, name] of names.entries()) collect(values, name, labels, rates[at]!)
  for (const [name, rows] of Object.entries(gauges)) collect(values, name, labels, rows)
  return [...values]
    .map(([key, row]) => fleetRow(JSON.parse(key) as Record<string, string>, row))
    .toSorted((left, right) => right.requestedTokens - left.requestedTokens)
}

function collect(values: Values, name: string, labels: readonly string[], rows: readonly QueryRow[]): void {
  for (const row of rows) {
    const key = JSON.stringify(Object.fromEntries(labels.map((label) => [label, row.labels[label] ?? ''])))
    const known = values.get(key) ?? new Map<string, number>()
    known.set(name, row.value)
    values.set(key, known)
  }
}

function fleetRow(labels: Record<string, string>, values: ReadonlyMap<string, number>): FleetRow {
  const of = (name: string) => values.get(name) ?? 0
  const requested = of('requested')
  return {
    labels,
    hitRatio: requested > 0 ? of('hit') / requested : null,
    requestedTokens: requested,
    chunksLoaded: of('loaded'),
    l1Evicted: of('evicted'),
    l1Usage: values.get('usage') ?? null,
    problems: problemsOf(of),
  }
}

function problemsOf(of: (name: string) => number): string[] {
  const problems: string[] = []
  if (of('hit') > 0 && of('loaded') === 0) problems.push('hits, but nothing is loaded')
  if (of('readFailures') > 0) problems.push('L1 reads fail')
  if (of('loadFailures') > 0) problems.push('L2 loads fail')
  if (of('circuits') === 2) problems.push('an L2 circuit is open')
  if (of('lag') > 5) problems.push('metrics lag behind')
  if (of('stalled') > 30) problems.push('a loop has stopped')
  return problems
}
