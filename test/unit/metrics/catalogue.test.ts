import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { EVENT_TYPES } from '../../../src/events/define.ts'
import { CATALOGUE } from '../../../src/metrics/catalogue.ts'
import { TABLES } from '../../../src/metrics/cells.ts'
import { DISTANCE_EVENTS } from '../../../src/metrics/recorder.ts'

const INTERFACE = JSON.parse(
  readFileSync(new URL('../../golden/interface-metrics.json', import.meta.url), 'utf8'),
) as Record<string, string>

const INTERNAL_FIELDS: Record<string, string> = {
  'engine.peerAdapters': 'only makes active_p2p_lookup_jobs appear',
  'sampling.askedBelow': 'a wish of the recorder to the engine; reuse_history_sample_ratio shows it as a ratio',
  'sampling.usedBelow': 'the same of the history of reuse',
}

const ALWAYS = [
  'l1_usage_ratio',
  'l1_memory_usage_bytes',
  'l2_usage_bytes',
  'l2_adapters',
  'num_inflight_l2_stores',
  'num_inflight_l2_loads',
  'inflight_load_memory_usage_bytes',
  'active_prefetch_jobs',
  'event_bus_queue_depth',
  'event_bus_drain_lag_seconds',
  'event_bus_dropped_events_total',
]

it('has the 46 metrics of the interface document, with their types, and marks all others as extensions', () => {
  const own = CATALOGUE.filter((metric) => !metric.extension)
  expect(own).toHaveLength(46)
  expect(Object.fromEntries(own.map(({ name, type }) => [name, type]))).toEqual(INTERFACE)
})

it('has every extension that was asked for', () => {
  const names = new Set(
    CATALOGUE.filter(({ extension }) => extension).map(({ name }) => name.slice('cache_mp_'.length)),
  )
  const wanted = [
    'lookup_hit_tier_tokens_total',
    'lookups_total',
    'l1_removed_chunks_total',
    'l1_allocation_failure_chunks_total',
    'l1_tenant_usage_bytes',
    'l2_store_failed_objects_chunks_total',
    'l2_evicted_chunks_total',
    'l2_circuit_state',
    ...['l0_l1_store', 'l0_l1_load', 'l2_store', 'l2_load'].flatMap((path) => [
      `${path}_bytes_total`,
      `${path}_busy_seconds_total`,
    ]),
    'leases_expired_total',
    'label_overflow_total',
    'checksum_failures_total',
    'ghost_expired_total',
    'loop_heartbeat_age_seconds',
    'l1_recovered_chunks_total',
    'l1_quarantined_bytes',
    'l1_would_hit_ratio',
    'event_bus_dropped_events_by_type_total',
    'device_info',
  ]
  expect(wanted.filter((name) => !names.has(name))).toEqual([])
})

it('exports the always-on metrics of the interface, and no other of its 46, from the start', () => {
  const always = CATALOGUE.filter((metric) => metric.always && !metric.extension).map(({ name }) => name)
  expect(always.sort()).toEqual(ALWAYS.map((name) => `cache_mp_${name}`).sort())
})

it('names each metric once, counters with _total and nothing else', () => {
  const names = CATALOGUE.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const { name, type } of CATALOGUE) {
    expect(name).toMatch(/^cache_mp_[a-zA-Z0-9_]+$/)
    expect(name.endsWith('_total')).toBe(type === 'counter')
  }
})

it('exports every counter field of the engine, or says why not', () => {
  const exported = new Set<string>()
  for (const { source } of CATALOGUE) {
    if (source.kind === 'cells') for (const { table, field } of source.parts) exported.add(`${table}.${field}`)
  }
  const all = Object.entries(TABLES).flatMap(([table, { fields }]) => fields.map((field) => `${table}.${field}`))
  expect(all.filter((field) => !exported.has(field)).sort()).toEqual(Object.keys(INTERNAL_FIELDS).sort())
  expect([...exported].filter((field) => !all.includes(field))).toEqual([])
})

it('consumes every event of the engine', () => {
  const consumed = new Set<number>(DISTANCE_EVENTS.map(({ id }) => id))
  for (const { source } of CATALOGUE) {
    if (source.kind === 'event') consumed.add(source.sample.on.id)
    if (source.kind === 'reuseDistance') for (const { id } of source.events) consumed.add(id)
  }
  expect(EVENT_TYPES.filter(({ id }) => !consumed.has(id)).map(({ name }) => name)).toEqual([])
})

it('gives each cell exactly the labels that its metric declares', () => {
  const rowLabels = {
    one: [],
    tenant: ['model_name', 'cache_salt'],
    adapter: ['l2_name'],
    adapterTenant: ['model_name', 'cache_salt', 'l2_name'],
    loop: ['loop'],
  }
  for (const { name, labels, source } of CATALOGUE) {
    if (source.kind !== 'cells') continue
    for (const { table, extra, isSummed, visibleWith } of source.parts) {
      const fromRow = isSummed ? [] : rowLabels[TABLES[table].rows]
      expect([...fromRow, ...Object.keys(extra)], name).toEqual(labels)
      for (const sibling of visibleWith) expect(TABLES[table].fields).toContain(sibling)
    }
  }
})

it('has ascending histogram bounds', () => {
  for (const { type, bounds, name } of CATALOGUE) {
    expect(bounds.length > 0, name).toBe(type === 'histogram')
    expect([...bounds].sort((a, b) => a - b)).toEqual(bounds)
  }
})

it('splits the reason of a prefetch failure as the interface document does, and further', () => {
  const metric = CATALOGUE.find(({ name }) => name === 'cache_mp_l2_prefetch_failure_chunks_total')!
  const reasons = metric.source.kind === 'cells' ? metric.source.parts.map(({ extra }) => extra.reason) : []
  expect(reasons).toEqual(['l1_oom', 'not_found', 'corrupt', 'error', 'cancelled'])
})
