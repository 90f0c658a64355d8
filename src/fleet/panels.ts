/** How a panel draws its queries. */
export type PanelKind = 'timeseries' | 'stat' | 'table'

/** Units by their names in Grafana. */
export type PanelUnit = 'percentunit' | 'bytes' | 'short' | 'ops' | 'GBs' | 's'

export interface PanelQuery {
  /**
   * PromQL. `$where` stands for the matchers of the dashboard's variables that every series has, `$tenant` for those
   * of series with `model_name` and `cache_salt` besides.
   */
  readonly expr: string
  readonly legend: string
}

export interface Panel {
  readonly title: string
  /** What it tells, and what to do about it: the reading guide. */
  readonly guide: string
  readonly kind: PanelKind
  readonly unit: PanelUnit
  readonly queries: readonly PanelQuery[]
}

export interface PanelRow {
  readonly title: string
  readonly panels: readonly Panel[]
}

function rate(name: string, matchers = '$tenant'): string {
  return `rate(cache_mp_${name}{${matchers}}[5m])`
}

function quantile(share: number, name: string): string {
  return `histogram_quantile(${share}, sum by (le) (${rate(`${name}_bucket`)}))`
}

/** Median and tail of a distribution. */
function spread(name: string): PanelQuery[] {
  return [
    { expr: quantile(0.5, name), legend: 'p50' },
    { expr: quantile(0.9, name), legend: 'p90' },
  ]
}

/** The live rate of a path: by batch as the interface document has it, and by byte. */
function speed(name: string, legend: string): PanelQuery[] {
  const batches = `sum(${rate(`${name}_throughput_GB_per_second_sum`)}) / sum(${rate(`${name}_throughput_GB_per_second_count`)})`
  const bytes = `sum(${rate(`${name}_bytes_total`)}) / sum(${rate(`${name}_busy_seconds_total`)}) / 1e9`
  return [
    { expr: batches, legend: `${legend}, by batch` },
    { expr: bytes, legend: `${legend}, by byte` },
  ]
}

const HITS = rate('lookup_hit_tokens_total')
const REQUESTED = rate('lookup_requested_tokens_total')

const ANSWERS: PanelRow = {
  title: 'Hit rate',
  panels: [
    {
      title: 'Hit rate',
      guide: 'Tokens found in cache over tokens asked for, over five minutes. No value: no traffic has reached it yet.',
      kind: 'stat',
      unit: 'percentunit',
      queries: [{ expr: `sum(${HITS}) / sum(${REQUESTED})`, legend: 'hit rate' }],
    },
    {
      title: 'Hit rate by model',
      guide: 'A fall of one model alone points at its prompts or its salts, a fall of all at L1 or L2.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        { expr: `sum by (model_name) (${HITS}) / sum by (model_name) (${REQUESTED})`, legend: '{{model_name}}' },
      ],
    },
    {
      title: 'Where hits come from',
      guide:
        'Share of the tokens asked for that each tier held. More from L2 than from L1: L1 is small for the traffic.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr: `sum by (tier) (${rate('lookup_hit_tier_tokens_total')}) / scalar(sum(${REQUESTED}))`,
          legend: '{{tier}}',
        },
      ],
    },
    {
      title: 'Warm path',
      guide: 'Hits that rise while no chunk is loaded mean that the warm path loads nothing.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        { expr: `sum(${HITS})`, legend: 'hit tokens' },
        { expr: `sum(${rate('num_chunks_loaded_total')})`, legend: 'chunks loaded' },
      ],
    },
    {
      title: 'Largest tenants',
      guide: 'Tokens asked for by model and salt. One salt a tenant is fine; one a request multiplies series.',
      kind: 'table',
      unit: 'ops',
      queries: [
        { expr: `topk(10, sum by (model_name, cache_salt) (${REQUESTED}))`, legend: '{{model_name}} {{cache_salt}}' },
      ],
    },
  ],
}

const L1: PanelRow = {
  title: 'L1, host memory',
  panels: [
    {
      title: 'Fill',
      guide: 'Share of the arena in use. Full is normal; what counts is how soon evicted chunks are asked for again.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [{ expr: 'cache_mp_l1_usage_ratio{$where}', legend: '{{instance}}' }],
    },
    {
      title: 'Chunks read, written, evicted',
      guide:
        'Many writes and few reads: poor reuse, or a hot set that does not fit. Evictions climb: L1 is undersized.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        { expr: `sum(${rate('l1_read_chunks_total')})`, legend: 'read' },
        { expr: `sum(${rate('l1_write_chunks_total')})`, legend: 'written' },
        { expr: `sum(${rate('l1_evicted_chunks_total')}) or vector(0)`, legend: 'evicted' },
        { expr: `sum(${rate('l1_read_failure_chunks_total')}) or vector(0)`, legend: 'failed reads' },
      ],
    },
    {
      title: 'Eviction loop',
      guide: 'Cycles, and cycles in which the policy ran. No cycles: the loop is dead.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        { expr: `sum(${rate('l1_eviction_loop_ticks_total', '$where')})`, legend: 'cycles' },
        { expr: `sum(${rate('l1_eviction_loop_triggered_total', '$where')}) or vector(0)`, legend: 'policy ran' },
      ],
    },
    {
      title: 'Evicted, then asked for again',
      guide: 'Share of evicted chunks that are asked for again. High: a larger L1 would have kept what is needed.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr: `(sum(${rate('l1_chunk_evict_reuse_gap_seconds_count')}) or vector(0)) / (sum(${rate('l1_evicted_chunks_total')}) > 0 or vector(1))`,
          legend: 'asked for again',
        },
      ],
    },
    {
      title: 'Hit rate if L1 were larger or smaller',
      guide: 'What an L1 of this multiple of its size would have hit since the start, least recently used first.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [{ expr: 'avg by (scale) (cache_mp_l1_would_hit_ratio{$where})', legend: '{{scale}} x' }],
    },
  ],
}

const L2: PanelRow = {
  title: 'L2, external storage',
  panels: [
    {
      title: 'In flight',
      guide: 'Batches on their way. What never comes down hangs: see the state of the circuit.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: 'sum by (l2_name) (cache_mp_num_inflight_l2_stores{$where})', legend: '{{l2_name}} stores' },
        { expr: 'sum by (l2_name) (cache_mp_num_inflight_l2_loads{$where})', legend: '{{l2_name}} loads' },
      ],
    },
    {
      title: 'Stores',
      guide: 'Chunks handed over and chunks written. A gap that stays: stores fail, see their reason.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (l2_name) (${rate('l2_store_submitted_objects_chunks_total')})`,
          legend: '{{l2_name}} submitted',
        },
        {
          expr: `sum by (l2_name) (${rate('l2_store_completed_objects_chunks_total')})`,
          legend: '{{l2_name}} written',
        },
      ],
    },
    {
      title: 'Prefetch',
      guide: 'Chunks asked of L2, found there, and loaded.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        { expr: `sum by (l2_name) (${rate('l2_prefetch_lookup_objects_chunks_total')})`, legend: '{{l2_name}} asked' },
        { expr: `sum by (l2_name) (${rate('l2_prefetch_hit_chunks_total')})`, legend: '{{l2_name}} found' },
        { expr: `sum by (l2_name) (${rate('l2_prefetch_load_completed_chunks_total')})`, legend: '{{l2_name}} loaded' },
      ],
    },
    {
      title: 'Failures by reason',
      guide:
        'A load fails with l1_oom where L1 had no room, with not_found where the object went away; the rest is the backend.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (reason) (${rate('l2_prefetch_failure_chunks_total')}) or vector(0)`,
          legend: 'load: {{reason}}',
        },
        {
          expr: `sum by (reason) (${rate('l2_store_failed_objects_chunks_total')}) or vector(0)`,
          legend: 'store: {{reason}}',
        },
      ],
    },
    {
      title: 'Bytes held',
      guide: 'Against the capacity of each adapter.',
      kind: 'timeseries',
      unit: 'bytes',
      queries: [
        { expr: 'sum by (l2_name) (cache_mp_l2_usage_bytes{$where})', legend: '{{l2_name}}' },
        { expr: 'sum by (l2_name) (cache_mp_l2_capacity_bytes{$where})', legend: '{{l2_name}} capacity' },
      ],
    },
    {
      title: 'Circuits and drains',
      guide: 'Circuit: 0 closed, 1 half open, 2 open. A drain that does not end shows as draining.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: 'max by (l2_name) (cache_mp_l2_circuit_state{$where})', legend: '{{l2_name}} circuit' },
        { expr: 'sum by (state) (cache_mp_l2_adapters{$where})', legend: '{{state}}' },
      ],
    },
  ],
}

const MOVEMENT: PanelRow = {
  title: 'Throughput and reuse',
  panels: [
    {
      title: 'GPU and host memory',
      guide:
        "GB a second of busy time. Where the GPU is the inference server's, it copies by itself and nothing shows.",
      kind: 'timeseries',
      unit: 'GBs',
      queries: [...speed('l0_l1_store', 'store'), ...speed('l0_l1_load', 'load')],
    },
    {
      title: 'Host memory and storage',
      guide: 'GB a second of busy time.',
      kind: 'timeseries',
      unit: 'GBs',
      queries: [...speed('l2_store', 'store'), ...speed('l2_load', 'load')],
    },
    {
      title: 'Time until reuse',
      guide: 'From the store or reuse of a chunk to its next reuse. L1 should hold what comes back within minutes.',
      kind: 'timeseries',
      unit: 's',
      queries: spread('real_reuse_gap_seconds'),
    },
    {
      title: 'Chunks until reuse',
      guide: 'Distinct chunks between two uses: how many chunks a tier must hold to hit.',
      kind: 'timeseries',
      unit: 'short',
      queries: spread('real_reuse_gap_objects'),
    },
    {
      title: 'Life of chunks in L1',
      guide: 'From allocation to eviction. Shorter than the time until reuse: L1 is undersized.',
      kind: 'timeseries',
      unit: 's',
      queries: spread('l1_chunk_lifetime_seconds'),
    },
    {
      title: 'Life of blocks in L0',
      guide: "From allocation to eviction, of the engine's device or of the GPUs that inference servers report.",
      kind: 'timeseries',
      unit: 's',
      queries: spread('l0_block_lifetime_seconds'),
    },
  ],
}

const HEALTH: PanelRow = {
  title: 'Health',
  panels: [
    {
      title: 'Event bus',
      guide: 'A lag that rises: the metrics thread falls behind. Drops: distributions miss samples, counters do not.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: 'sum(cache_mp_event_bus_queue_depth{$where})', legend: 'waiting events' },
        { expr: 'max(cache_mp_event_bus_drain_lag_seconds{$where})', legend: 'lag, s' },
        { expr: `sum(${rate('event_bus_dropped_events_total', '$where')})`, legend: 'dropped a second' },
      ],
    },
    {
      title: 'Prefetch jobs',
      guide: 'Between a lookup and its final answer.',
      kind: 'timeseries',
      unit: 'short',
      queries: [{ expr: 'sum(cache_mp_active_prefetch_jobs{$where})', legend: 'jobs' }],
    },
    {
      title: 'Loops',
      guide: 'Seconds since each background loop finished a cycle.',
      kind: 'timeseries',
      unit: 's',
      queries: [{ expr: 'max by (loop) (cache_mp_loop_heartbeat_age_seconds{$where})', legend: '{{loop}}' }],
    },
    {
      title: 'CPU',
      guide: 'Cores that the engine uses.',
      kind: 'timeseries',
      unit: 'short',
      queries: [{ expr: 'rate(process_cpu_seconds_total{$where}[5m])', legend: '{{instance}}' }],
    },
    {
      title: 'Memory',
      guide: 'Resident bytes, the arena that clients touched included.',
      kind: 'timeseries',
      unit: 'bytes',
      queries: [{ expr: 'process_resident_memory_bytes{$where}', legend: '{{instance}}' }],
    },
  ],
}

/** The dashboard, row by row. */
export const PANEL_ROWS: readonly PanelRow[] = [ANSWERS, L1, L2, MOVEMENT, HEALTH]

/** An expression with its variables replaced: matchers without braces. */
export function withMatchers(expr: string, where: string, tenant: string): string {
  return expr.replaceAll('$tenant', tenant).replaceAll('$where', where)
}
