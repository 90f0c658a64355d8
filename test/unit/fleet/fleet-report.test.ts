import { expect, it } from 'vitest'
import { fleetReport } from '../../../src/fleet/fleet-report.ts'
import type { QueryRow } from '../../../src/fleet/prometheus-api.ts'

/** A server that answers by the metric that an expression names. */
function answering(rows: Readonly<Record<string, readonly QueryRow[]>>) {
  return {
    query: async (expression: string) => {
      const metric = /cache_mp_\w+/.exec(expression)![0]
      return [...(rows[metric] ?? [])]
    },
  }
}

const row = (labels: Record<string, string>, value: number): QueryRow => ({ labels, value })

it('has a row for each model, the busiest first, with its hit rate', async () => {
  const rows = await fleetReport(
    answering({
      cache_mp_lookup_requested_tokens_total: [row({ model_name: 'small' }, 10), row({ model_name: 'big' }, 1_000)],
      cache_mp_lookup_hit_tokens_total: [row({ model_name: 'small' }, 5), row({ model_name: 'big' }, 900)],
      cache_mp_num_chunks_loaded_total: [row({ model_name: 'big' }, 4)],
    }),
    'model',
  )
  expect(rows).toMatchObject([
    { labels: { model_name: 'big' }, hitRatio: 0.9, chunksLoaded: 4, problems: [] },
    { labels: { model_name: 'small' }, hitRatio: 0.5, problems: ['hits, but nothing is loaded'] },
  ])
})

it('has no hit rate where there is no traffic', async () => {
  const idle = answering({ cache_mp_l1_usage_ratio: [row({ job: 'k', instance: 'a' }, 0.25)] })
  expect(await fleetReport(idle, 'engine')).toMatchObject([{ hitRatio: null, l1Usage: 0.25, requestedTokens: 0 }])
})

it('tells what is wrong with an engine', async () => {
  const engine = { job: 'k', instance: 'a' }
  const rows = await fleetReport(
    answering({
      cache_mp_l2_circuit_state: [row(engine, 2)],
      cache_mp_event_bus_drain_lag_seconds: [row(engine, 9)],
      cache_mp_loop_heartbeat_age_seconds: [row(engine, 60)],
      cache_mp_l1_read_failure_chunks_total: [row(engine, 1)],
      cache_mp_l2_prefetch_failure_chunks_total: [row(engine, 1)],
    }),
    'engine',
  )
  expect(rows[0]!.problems).toEqual([
    'L1 reads fail',
    'L2 loads fail',
    'an L2 circuit is open',
    'metrics lag behind',
    'a loop has stopped',
  ])
})
