export interface RecordingRule {
  readonly record: string
  readonly expr: string
}

export interface AlertRule {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly severity: 'warning' | 'critical'
  /** One sentence; may hold `{{ $labels.x }}` and `{{ $value }}`. */
  readonly summary: string
  /** What to look at, and what helps. */
  readonly action: string
}

const ENGINE = 'job, instance'

/** Series that alerts and fleet queries read: by engine, so that a restart of one does not hide in a sum. */
export const RECORDING_RULES: readonly RecordingRule[] = [
  {
    record: 'kvtier:lookup_requested_tokens:rate5m',
    expr: `sum by (${ENGINE}, model_name) (rate(cache_mp_lookup_requested_tokens_total[5m]))`,
  },
  {
    record: 'kvtier:lookup_hit_tokens:rate5m',
    expr: `sum by (${ENGINE}, model_name) (rate(cache_mp_lookup_hit_tokens_total[5m]))`,
  },
  {
    record: 'kvtier:hit_ratio:rate5m',
    expr: 'kvtier:lookup_hit_tokens:rate5m / (kvtier:lookup_requested_tokens:rate5m > 0)',
  },
  {
    record: 'kvtier:l1_evicted_chunks:rate5m',
    expr: `sum by (${ENGINE}) (rate(cache_mp_l1_evicted_chunks_total[5m]))`,
  },
]

export const ALERT_RULES: readonly AlertRule[] = [
  {
    alert: 'KvtierHitRateCollapse',
    expr:
      'kvtier:hit_ratio:rate5m < 0.5 * avg_over_time(kvtier:hit_ratio:rate5m[2h] offset 15m) ' +
      'and avg_over_time(kvtier:hit_ratio:rate5m[2h] offset 15m) > 0.05 and kvtier:lookup_requested_tokens:rate5m > 100',
    for: '10m',
    severity: 'warning',
    summary:
      'The hit rate of {{ $labels.model_name }} fell to {{ $value | humanizePercentage }}, less than half of before.',
    action: 'Look for a changed prompt template or salt, a restart that lost L1, and evictions.',
  },
  {
    alert: 'KvtierWarmPathLoadsNothing',
    expr:
      `sum by (${ENGINE}) (kvtier:lookup_hit_tokens:rate5m) > 0 ` +
      `unless on (${ENGINE}) sum by (${ENGINE}) (rate(cache_mp_num_chunks_loaded_total[5m])) > 0`,
    for: '10m',
    severity: 'critical',
    summary: '{{ $labels.instance }} reports hits, but no chunk is loaded back into service.',
    action:
      'The inference server finds its prefixes and does not fetch them: look at the transfer mode of its connector.',
  },
  {
    alert: 'KvtierL1Thrash',
    expr:
      `sum by (${ENGINE}) (rate(cache_mp_l1_chunk_evict_reuse_gap_seconds_bucket{le="60"}[10m])) ` +
      `/ on (${ENGINE}) (sum by (${ENGINE}) (rate(cache_mp_l1_evicted_chunks_total[10m])) > 0) > 0.3`,
    for: '15m',
    severity: 'warning',
    summary:
      '{{ $value | humanizePercentage }} of the chunks that L1 of {{ $labels.instance }} evicts are wanted within a minute.',
    action:
      'Give L1 more memory (see cache_mp_l1_would_hit_ratio for what it buys), or send less traffic to this engine.',
  },
  {
    alert: 'KvtierEvictionLoopDead',
    expr: `rate(cache_mp_l1_eviction_loop_ticks_total[5m]) == 0`,
    for: '2m',
    severity: 'critical',
    summary: 'The eviction loop of {{ $labels.instance }} does not run.',
    action: 'See /readyz and the log of the engine; restart it if the loop does not come back.',
  },
  {
    alert: 'KvtierLoopFails',
    expr: `sum by (${ENGINE}, loop) (increase(cache_mp_loop_errors_total[10m])) > 3`,
    for: '0m',
    severity: 'warning',
    summary: 'Cycles of the loop {{ $labels.loop }} of {{ $labels.instance }} fail.',
    action: 'The log of the engine has the error.',
  },
  {
    alert: 'KvtierL2CircuitOpen',
    expr: 'cache_mp_l2_circuit_state == 2',
    for: '1m',
    severity: 'warning',
    summary: 'The L2 adapter {{ $labels.l2_name }} of {{ $labels.instance }} fails and is left alone.',
    action: 'Look at the storage behind it. L1 goes on; the adapter is tried again by itself.',
  },
  {
    alert: 'KvtierPrefetchFindsNoRoom',
    expr: `sum by (${ENGINE}, l2_name) (rate(cache_mp_l2_prefetch_failure_chunks_total{reason="l1_oom"}[5m])) > 0`,
    for: '10m',
    severity: 'warning',
    summary:
      'Hits in {{ $labels.l2_name }} are lost because L1 of {{ $labels.instance }} has no room that can be freed.',
    action: 'Look at pins, quarantined bytes and leases in /status; give L1 more memory.',
  },
  {
    alert: 'KvtierEventBusSaturated',
    expr:
      `sum by (${ENGINE}) (rate(cache_mp_event_bus_dropped_events_total[5m])) > 0 ` +
      `or max by (${ENGINE}) (cache_mp_event_bus_drain_lag_seconds) > 5`,
    for: '5m',
    severity: 'warning',
    summary: 'The metrics of {{ $labels.instance }} fall behind: distributions miss samples, counters stay exact.',
    action:
      'The service thread is short of CPU; give the engine another core, or raise --event-bus-capacity for bursts.',
  },
  {
    alert: 'KvtierDrainStuck',
    expr: 'cache_mp_l2_adapters{state="draining"} > 0',
    for: '30m',
    severity: 'warning',
    summary: 'An L2 adapter of {{ $labels.instance }} has been draining for half an hour.',
    action: 'kvtier l2 list says what it waits for; undrain it, or remove it by force.',
  },
  {
    alert: 'KvtierChecksumFailures',
    // A counter appears with its first failure, which is no increase of anything yet.
    expr:
      `sum by (${ENGINE}, tier) (increase(cache_mp_checksum_failures_total[15m])) > 0 ` +
      `or sum by (${ENGINE}, tier) (cache_mp_checksum_failures_total unless cache_mp_checksum_failures_total offset 15m) > 0`,
    for: '0m',
    severity: 'critical',
    summary: '{{ $labels.instance }} found altered bytes in {{ $labels.tier }}; they were not served.',
    action: 'Suspect memory or storage: run kvtier l2 verify, and look at the hardware.',
  },
  {
    alert: 'KvtierQuarantineGrows',
    expr: `sum by (${ENGINE}) (cache_mp_l1_quarantined_bytes) / on (${ENGINE}) cache_mp_l1_capacity_bytes > 0.1`,
    for: '5m',
    severity: 'warning',
    summary: '{{ $value | humanizePercentage }} of L1 of {{ $labels.instance }} waits for workers that went silent.',
    action: 'Restart the workers that are gone; then release what is left by hand.',
  },
]

/** The rules as a mapping in the form of a Prometheus rule file. */
export function ruleGroups(): { groups: object[] } {
  const alerts = ALERT_RULES.map(({ alert, expr, for: wait, severity, summary, action }) => ({
    alert,
    expr,
    for: wait,
    labels: { severity },
    annotations: { summary, action },
  }))
  return {
    groups: [
      { name: 'kvtier-recording', rules: [...RECORDING_RULES] },
      { name: 'kvtier-alerts', rules: alerts },
    ],
  }
}
