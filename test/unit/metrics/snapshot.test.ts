import { expect, it } from 'vitest'
import {
  CHUNK_ASKED,
  CHUNK_RETRIEVED,
  CHUNK_REUSED,
  CHUNK_STORED,
  L0_L1_STORED,
  L2_LOADED,
} from '../../../src/events/catalogue.ts'
import { chunkTag } from '../../../src/events/chunk-tag.ts'
import { LOOPS } from '../../../src/events/counters.ts'
import { CATALOGUE } from '../../../src/metrics/catalogue.ts'
import { labelText } from '../../../src/metrics/label-text.ts'
import { renderPieces } from '../../../src/metrics/prometheus.ts'
import type { SnapshotReader } from '../../../src/metrics/snapshot.ts'
import { parseExposition, seriesValue } from '../../support/exposition-parser.ts'
import { HOSTILE_LABELS, measured, recordEverything } from '../../support/full-cells.ts'

const TENANT = { model_name: 'm', cache_salt: 's' }

function scrape(reader: SnapshotReader) {
  return parseExposition(Buffer.concat([...renderPieces(reader.take(), 'text')]).toString())
}

function names(reader: SnapshotReader): string[] {
  return [...scrape(reader).types.keys()].map((name) => name.slice('cache_mp_'.length)).sort()
}

it('shows only always-on metrics on an idle engine', () => {
  const { reader } = measured()
  expect(names(reader)).toEqual(
    [
      'active_prefetch_jobs',
      'event_bus_drain_lag_seconds',
      'event_bus_dropped_events_total',
      'event_bus_queue_depth',
      'l1_capacity_bytes',
      'l1_memory_usage_bytes',
      'l1_usage_ratio',
      'l2_adapters',
    ].sort(),
  )
  expect(scrape(reader).samples.every(({ value }) => value === 0)).toBe(true)
})

it('shows the gauges of an adapter at 0 as soon as it is attached, until it is detached; its counters stay', () => {
  const { reader, cells } = measured()
  const disk = cells.adapters.rowOf('disk')
  const perAdapter = [
    'l2_usage_bytes',
    'num_inflight_l2_stores',
    'num_inflight_l2_loads',
    'inflight_load_memory_usage_bytes',
  ]
  for (const name of perAdapter) expect(seriesValue(scrape(reader), `cache_mp_${name}`, { l2_name: 'disk' })).toBe(0)
  const tenant = cells.tenants.tenantOf('m', 's')
  cells.l2Tenants.set(disk * cells.tenants.rows + tenant, 'storeSubmittedRequests', 3)
  cells.adapters.detach(disk)
  for (const name of perAdapter)
    expect(seriesValue(scrape(reader), `cache_mp_${name}`, { l2_name: 'disk' })).toBeUndefined()
  const labels = { ...TENANT, l2_name: 'disk' }
  expect(seriesValue(scrape(reader), 'cache_mp_l2_store_submitted_requests_total', labels)).toBe(3)
})

it('shows a zero hit count beside the first lookup, and nothing before it', () => {
  const { reader, cells } = measured()
  const tenant = cells.tenants.tenantOf('m', 's')
  expect(seriesValue(scrape(reader), 'cache_mp_lookup_hit_tokens_total', TENANT)).toBeUndefined()
  cells.engineTenants.add(tenant, 'lookups', 1)
  cells.engineTenants.add(tenant, 'requestedTokens', 512)
  expect(seriesValue(scrape(reader), 'cache_mp_lookup_requested_tokens_total', TENANT)).toBe(512)
  expect(seriesValue(scrape(reader), 'cache_mp_lookup_hit_tokens_total', TENANT)).toBe(0)
  expect(seriesValue(scrape(reader), 'cache_mp_l1_read_chunks_total', TENANT)).toBeUndefined()
})

it('shows lookups in flight to peers only with a peer adapter', () => {
  const { reader, cells } = measured()
  expect(names(reader)).not.toContain('active_p2p_lookup_jobs')
  cells.engine.set(0, 'peerAdapters', 1)
  expect(seriesValue(scrape(reader), 'cache_mp_active_p2p_lookup_jobs')).toBe(0)
})

it('tells the age of a heartbeat and of the oldest event against its clock', () => {
  const { reader, cells, clock } = measured()
  cells.loops.set(LOOPS.indexOf('store'), 'lastBeatMs', clock.nowMs())
  cells.bus.publish(CHUNK_STORED, 0, clock.nowMs())
  clock.advance(2_500)
  const parsed = scrape(reader)
  expect(seriesValue(parsed, 'cache_mp_loop_heartbeat_age_seconds', { loop: 'store' })).toBe(2.5)
  expect(seriesValue(parsed, 'cache_mp_loop_heartbeat_age_seconds', { loop: 'eviction' })).toBeUndefined()
  expect(seriesValue(parsed, 'cache_mp_event_bus_drain_lag_seconds')).toBe(2.5)
  expect(seriesValue(parsed, 'cache_mp_event_bus_queue_depth')).toBe(1)
})

it('counts dropped events and says of which kind', () => {
  const { reader, cells } = measured()
  for (let i = 0; i < 70; i += 1) cells.bus.publish(CHUNK_STORED, 0, 1)
  const parsed = scrape(reader)
  expect(seriesValue(parsed, 'cache_mp_event_bus_dropped_events_total')).toBe(6)
  expect(seriesValue(parsed, 'cache_mp_event_bus_dropped_events_by_type_total', { type: 'chunk_stored' })).toBe(6)
})

it('sums the checksum failures of all adapters', () => {
  const { reader, cells } = measured()
  for (const name of ['a', 'b']) cells.l2.set(cells.adapters.rowOf(name), 'checksumFailures', 2)
  expect(seriesValue(scrape(reader), 'cache_mp_checksum_failures_total', { tier: 'l2' })).toBe(4)
  expect(seriesValue(scrape(reader), 'cache_mp_checksum_failures_total', { tier: 'l1' })).toBeUndefined()
})

it('folds tenants past the limit into one series and counts them', () => {
  const { reader, cells } = measured({}, 2)
  for (let i = 0; i < 5; i += 1) cells.l1Tenants.add(cells.tenants.tenantOf('m', `${i}`), 'writeShards', 1)
  const parsed = scrape(reader)
  const fold = { model_name: '__other__', cache_salt: '__other__' }
  expect(seriesValue(parsed, 'cache_mp_l1_write_chunks_total', fold)).toBe(3)
  expect(seriesValue(parsed, 'cache_mp_label_overflow_total')).toBe(3)
  expect(parsed.samples.filter(({ name }) => name === 'cache_mp_l1_write_chunks_total')).toHaveLength(3)
})

it('records rates in GB/s with the label of the adapter, and nothing for a batch without bytes or time', () => {
  const { reader, recorder, cells } = measured()
  const tenant = cells.tenants.tenantOf('m', 's')
  cells.adapters.rowOf('first')
  const disk = cells.adapters.rowOf('disk')
  recorder.record(L2_LOADED.id, tenant, 1, 3e9, 2, disk)
  recorder.record(L2_LOADED.id, tenant, 1, 0, 2, disk)
  recorder.record(L2_LOADED.id, tenant, 1, 5, 0, disk)
  recorder.record(L0_L1_STORED.id, tenant, 1, 50e9, 1, 0)
  const parsed = scrape(reader)
  const labels = { ...TENANT, l2_name: 'disk' }
  expect(seriesValue(parsed, 'cache_mp_l2_load_throughput_GB_per_second_sum', labels)).toBe(1.5)
  expect(seriesValue(parsed, 'cache_mp_l2_load_throughput_GB_per_second_count', labels)).toBe(1)
  expect(seriesValue(parsed, 'cache_mp_l2_load_throughput_GB_per_second_bucket', { ...labels, le: '1' })).toBe(0)
  expect(seriesValue(parsed, 'cache_mp_l2_load_throughput_GB_per_second_bucket', { ...labels, le: '2' })).toBe(1)
  expect(seriesValue(parsed, 'cache_mp_l0_l1_store_throughput_GB_per_second_sum', TENANT)).toBe(50)
})

it('takes the distance of a reuse among the chunks stored and reused, tenants apart', () => {
  const { reader, recorder, cells } = measured()
  const [one, two] = [cells.tenants.tenantOf('m', 's'), cells.tenants.tenantOf('m', 't')]
  for (let i = 0; i < 4; i += 1) recorder.record(CHUNK_STORED.id, one, 1, chunkTag(i, i, 0), 0, 0)
  recorder.record(CHUNK_STORED.id, two, 1, chunkTag(0, 0, 1), 0, 0) // same hash, another tenant's space
  recorder.record(CHUNK_RETRIEVED.id, one, 1, chunkTag(0, 0, 0), 0, 0) // since then: 1, 2, 3 and the other tenant's
  recorder.record(CHUNK_RETRIEVED.id, one, 1, chunkTag(0, 0, 0), 0, 0) // at once
  recorder.record(CHUNK_REUSED.id, one, 1, 9, 2, 0) // the two, in one event
  const parsed = scrape(reader)
  expect(seriesValue(parsed, 'cache_mp_real_reuse_gap_objects_sum', TENANT)).toBe(4)
  expect(seriesValue(parsed, 'cache_mp_real_reuse_gap_objects_count', TENANT)).toBe(2)
  expect(seriesValue(parsed, 'cache_mp_real_reuse_gap_seconds_sum', TENANT)).toBe(18)
  expect(seriesValue(parsed, 'cache_mp_real_reuse_gap_seconds_count', TENANT)).toBe(2)
})

it('tells what another L1 size would have hit, and asks producers to leave out what is not followed', () => {
  const { reader, recorder, cells } = measured()
  cells.l1.set(0, 'capacityBytes', 400)
  const ask = (ids: number[], askedBefore: number) => {
    for (const id of ids) cells.bus.publish(CHUNK_ASKED, 0, 1, chunkTag(id, 0, 0), 100, askedBefore)
    recorder.drain(100)
  }
  expect(names(reader)).not.toContain('l1_would_hit_ratio')
  ask([2, 1], 0)
  ask([4, 3], 2)
  ask([2, 1], 4) // both at a distance of 400 bytes or less: within the L1, not within half of it
  const parsed = scrape(reader)
  expect(seriesValue(parsed, 'cache_mp_l1_would_hit_ratio', { scale: '0.5' })).toBe(0)
  expect(seriesValue(parsed, 'cache_mp_l1_would_hit_ratio', { scale: '1' })).toBeCloseTo(2 / 6)
  expect(seriesValue(parsed, 'cache_mp_reuse_history_sample_ratio', { history: 'lookup' })).toBe(1)
  expect(cells.sampling.get(0, 'askedBelow')).toBe(2 ** 32)
  ask(
    Array.from({ length: 40 }, (_, i) => 100 + i),
    6,
  )
  expect(cells.sampling.get(0, 'askedBelow')).toBeLessThan(2 ** 32)
  const dropped = seriesValue(scrape(reader), 'cache_mp_reuse_history_dropped_chunks_total', { history: 'lookup' })
  expect(dropped).toBeGreaterThan(0)
})

it('shows every metric of the catalogue once something was recorded for each, hostile labels and all', () => {
  const { reader, cells } = recordEverything()
  const parsed = scrape(reader)
  expect([...parsed.types.keys()]).toEqual(CATALOGUE.map(({ name }) => name))
  for (const { name, type, help } of CATALOGUE) {
    expect(parsed.types.get(name)).toBe(type)
    expect(parsed.help.get(name)).toBe(help)
  }
  for (const label of HOSTILE_LABELS) {
    const row = cells.tenants.tenantOf(`m${label}`, label)
    const labels = { model_name: labelText(`m${label}`), cache_salt: labelText(label) }
    expect(seriesValue(parsed, 'cache_mp_l1_read_chunks_total', labels)).toBe(cells.l1Tenants.get(row, 'readShards'))
  }
})

it('shows one moment, however long the rendering takes', () => {
  const { reader, cells } = measured()
  const tenant = cells.tenants.tenantOf('m', 's')
  cells.engineTenants.add(tenant, 'lookups', 1)
  cells.engineTenants.add(tenant, 'requestedTokens', 100)
  const pieces: Buffer[] = []
  for (const piece of renderPieces(reader.take(), 'text', 1)) {
    pieces.push(piece)
    cells.engineTenants.add(tenant, 'hitTokens', 1000)
  }
  expect(
    seriesValue(parseExposition(Buffer.concat(pieces).toString()), 'cache_mp_lookup_hit_tokens_total', TENANT),
  ).toBe(0)
})
