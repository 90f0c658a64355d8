import { Counter, Registry } from 'prom-client'
import { CHUNK_ASKED, L1_SHARD_LEFT, L1_SHARD_TOUCHED, L2_LOADED } from '../src/events/catalogue.ts'
import { chunkTag } from '../src/events/chunk-tag.ts'
import { MetricCells } from '../src/metrics/cells.ts'
import { renderPieces, SLICE_LINES } from '../src/metrics/prometheus.ts'
import { Recorder } from '../src/metrics/recorder.ts'
import type { SnapshotReader } from '../src/metrics/snapshot.ts'
import { countLines, fullMetrics } from './support/full-metrics.ts'
import { median, runPairs } from './support/pairs.ts'

/**
 * Metrics: rendering 100,000 sample lines against prom-client, the longest slice, and what one event costs.
 *
 * The lines are counters of 1,000 tenants and histograms of 150 of them, as an engine at its limits would have.
 * prom-client renders as many lines, all of them counters. An event is published and drained on one thread.
 */
const LINES = 100_000
const EVENTS = 1_000_000
const BATCH = 1_024

/** Renders once. @returns bytes, and the longest time without a pause, in ms. */
function renderOnce(reader: SnapshotReader): { bytes: number; longestMs: number } {
  let bytes = 0
  let longestMs = 0
  let start = performance.now()
  for (const piece of renderPieces(reader.take(), 'text', SLICE_LINES)) {
    bytes += piece.length
    const now = performance.now()
    longestMs = Math.max(longestMs, now - start)
    start = now
  }
  return { bytes, longestMs }
}

function promClient(lines: number): Registry {
  const registry = new Registry()
  const names = Array.from({ length: 100 }, (_, i) => `cache_mp_counter_${i}_total`)
  for (const name of names) {
    const counter = new Counter({ name, help: 'h', labelNames: ['model_name', 'cache_salt'], registers: [registry] })
    for (let i = 0; i < lines / names.length; i += 1) {
      counter.inc({ model_name: `vendor/model-${i % 8}`, cache_salt: `tenant-${i}` }, i + 1)
    }
  }
  return registry
}

async function rendering() {
  const { reader } = fullMetrics(LINES)
  const lines = countLines(reader)
  const registry = promClient(LINES)
  const pairs = await runPairs(
    { name: 'kvtier', run: () => (renderOnce(reader).bytes > 0 ? lines : 0) },
    { name: 'prom-client', run: async () => ((await registry.metrics()).length > 0 ? LINES : 0) },
  )
  const slices = Array.from({ length: 21 }, () => renderOnce(reader).longestMs)
  const perHundredThousandMs = (ns: number) => Number(((ns * LINES) / 1e6).toFixed(1))
  return {
    lines,
    kvtier_ms: perHundredThousandMs(pairs.a.medianNs),
    kvtier_cpu_ms: perHundredThousandMs(pairs.a.cpuMedianNs),
    prom_client_ms: perHundredThousandMs(pairs.b.medianNs),
    kvtier_to_prom_client: Number(pairs.ratio.toFixed(3)),
    longest_slice_ms: Number(median(slices).toFixed(2)),
    longest_slice_ms_worst: Number(Math.max(...slices).toFixed(2)),
  }
}

/** Nanoseconds to publish, and to drain, one event. */
function eventCost(publish: (cells: MetricCells, index: number) => void) {
  const cells = MetricCells.create()
  const recorder = new Recorder(cells)
  let publishMs = 0
  let drainMs = 0
  for (let round = -100; round < EVENTS / BATCH; round += 1) {
    if (round === 0) publishMs = drainMs = 0
    const start = performance.now()
    for (let i = 0; i < BATCH; i += 1) publish(cells, (round + 100) * BATCH + i)
    const published = performance.now()
    recorder.drain(BATCH)
    publishMs += published - start
    drainMs += performance.now() - published
  }
  if (cells.bus.dropped() > 0) throw new Error('events were dropped')
  const perEvent = (ms: number) => Number(((ms * 1e6) / EVENTS).toFixed(1))
  return { publish_ns: perEvent(publishMs), drain_ns: perEvent(drainMs) }
}

const EVENT_COSTS = {
  one_sample: () => eventCost((cells, i) => cells.bus.publish(L1_SHARD_TOUCHED, i & 63, i, i % 1000, 1)),
  two_samples: () => eventCost((cells, i) => cells.bus.publish(L1_SHARD_LEFT, i & 63, i, i % 5000, i % 1000, 1)),
  throughput: () => eventCost((cells, i) => cells.bus.publish(L2_LOADED, i & 63, i, 4e6 + i, 0.002, 0)),
  // Prompts of 64 chunks out of a million; after a while most are outside the sample, as without a producer's help.
  asked: () =>
    eventCost((cells, i) => {
      const prompt = i >>> 6
      const chunk = (Math.imul(prompt, 2_654_435_761) >>> 18) * 64 + (63 - (i & 63))
      cells.bus.publish(CHUNK_ASKED, 0, i, chunkTag(chunk, 0, 0), 4_194_304, prompt * 64)
    }),
}

const render = await rendering()
const events = Object.fromEntries(Object.entries(EVENT_COSTS).map(([name, cost]) => [name, cost()]))
if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ render, events }))
} else {
  console.table([render])
  console.table(events)
}
