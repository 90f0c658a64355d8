import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { Counter, Registry } from 'prom-client'
import { CounterTable } from '../src/core/counters.ts'
import { renderPieces } from '../src/metrics/prometheus.ts'
import type { SnapshotReader } from '../src/metrics/snapshot.ts'
import { type Figure, printReport, ratioFigure } from './support/figures.ts'
import { countLines, fullMetrics } from './support/full-metrics.ts'
import { median, runPairs } from './support/pairs.ts'

/**
 * Recording and scraping against prom-client and OpenTelemetry: ns a count, bytes of heap a count, CPU a scrape.
 *
 * A count goes to one of 100 tenants, two labels each: a cell of ours, a bound child of prom-client, and an instrument
 * of OpenTelemetry with prepared attributes. A scrape renders 1,000, 10,000 and 100,000 series, ours and prom-client's,
 * in turn. Must hold: 10 ns a count and no heap; at 100,000 series a quarter of prom-client's CPU time. Words: --json.
 */
const TENANTS = 100
const COUNTS = 200_000
const ROUNDS = 15
const COUNT_NS_MAX = 10
const SCRAPE_MAX = 0.25
/** Tenants of ours that give about as many series. */
const SCRAPES = [
  { series: 1_000, tenants: 10 },
  { series: 10_000, tenants: 150 },
  { series: 100_000, tenants: 1_000 },
]

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Adds 1 to the counter of a tenant. */
type Count = (tenant: number) => void

const labelsOf = (tenant: number) => ({ model_name: 'vendor/model', cache_salt: `tenant-${tenant}` })

function recorders(): { name: string; count: Count; total: () => number }[] {
  const table = new CounterTable(
    ['lookups', 'hits', 'misses'],
    TENANTS,
    new Float64Array(new SharedArrayBuffer(TENANTS * 3 * 8)),
  )
  const { values, stride } = table
  const hits = table.column('hits')
  const registry = new Registry()
  const counter = new Counter({
    name: 'hits_total',
    help: 'h',
    labelNames: ['model_name', 'cache_salt'],
    registers: [registry],
  })
  const children = Array.from({ length: TENANTS }, (_, tenant) => counter.labels(labelsOf(tenant)))
  let promTotal = 0
  const instrument = new MeterProvider().getMeter('bench').createCounter('hits')
  const attributes = Array.from({ length: TENANTS }, (_, tenant) => labelsOf(tenant))
  let otelTotal = 0
  return [
    {
      name: 'kvtier',
      count: (tenant) => {
        const at = tenant * stride + hits
        values[at] = values[at]! + 1
      },
      total: () => table.sum('hits'),
    },
    {
      name: 'prom-client',
      count: (tenant) => {
        children[tenant]!.inc()
        promTotal += 1
      },
      total: () => promTotal,
    },
    {
      name: 'OpenTelemetry',
      count: (tenant) => {
        instrument.add(1, attributes[tenant]!)
        otelTotal += 1
      },
      total: () => otelTotal,
    },
  ]
}

function run(count: Count): number {
  const start = performance.now()
  for (let at = 0, tenant = 0; at < COUNTS; at += 1) {
    count(tenant)
    tenant = tenant + 7 < TENANTS ? tenant + 7 : tenant + 7 - TENANTS
  }
  return ((performance.now() - start) * 1e6) / COUNTS
}

function counting(): { rows: object[]; figures: Figure[] } {
  const sides = recorders()
  const times = sides.map((): number[] => [])
  for (let round = -3; round < ROUNDS; round += 1) {
    for (const [at, { count }] of sides.entries()) {
      const ns = run(count)
      if (round >= 0) times[at]!.push(ns)
    }
  }
  const rows = sides.map(({ name, count, total }, at) => {
    collect()
    const before = process.memoryUsage().heapUsed
    run(count)
    const heapBytes = Math.max(0, process.memoryUsage().heapUsed - before) / COUNTS
    if (total() !== COUNTS * (ROUNDS + 4)) throw new Error(`${name} lost counts`)
    return { what: 'a count', side: name, medianNs: Number(median(times[at]!).toFixed(2)), heapBytes }
  })
  const [ours, ...others] = rows
  const figures: Figure[] = [
    { name: 'a count, ns', value: ours!.medianNs, unit: 'ns', better: 'lower', bound: COUNT_NS_MAX },
    // What asking for the heap's size takes itself.
    { name: 'a count, bytes of heap', value: ours!.heapBytes, unit: 'B', better: 'lower', bound: 0.5 },
    ...others.map(({ side, medianNs }) => ratioFigure(`a count, to ${side}`, ours!.medianNs / medianNs, 'lower', 1)),
  ]
  return { rows, figures }
}

function promClient(series: number): Registry {
  const registry = new Registry()
  const metrics = Math.min(100, series / 10)
  for (let metric = 0; metric < metrics; metric += 1) {
    const name = `cache_mp_counter_${metric}_total`
    const counter = new Counter({ name, help: 'h', labelNames: ['model_name', 'cache_salt'], registers: [registry] })
    for (let at = 0; at < series / metrics; at += 1) counter.inc(labelsOf(at), at + 1)
  }
  return registry
}

function bytesOf(reader: SnapshotReader): number {
  let bytes = 0
  for (const piece of renderPieces(reader.take(), 'text')) bytes += piece.length
  return bytes
}

async function scraping(): Promise<{ rows: object[]; figures: Figure[] }> {
  const rows: object[] = []
  const figures: Figure[] = []
  for (const { series, tenants } of SCRAPES) {
    const { reader } = fullMetrics(series, false, tenants)
    const lines = countLines(reader)
    const registry = promClient(series)
    const repeats = Math.max(1, Math.round(20_000 / series))
    const pairs = await runPairs(
      {
        name: 'kvtier',
        run: () => {
          for (let at = 0; at < repeats; at += 1) if (bytesOf(reader) === 0) throw new Error('nothing was rendered')
          return lines * repeats
        },
      },
      {
        name: 'prom-client',
        run: async () => {
          for (let at = 0; at < repeats; at += 1) await registry.metrics()
          return series * repeats
        },
      },
      { pairs: 11 },
    )
    const ms = (ns: number) => Number(((ns * series) / 1e6).toFixed(2))
    rows.push({
      what: `a scrape of ${series} series`,
      linesOfOurs: lines,
      kvtierMs: ms(pairs.a.medianNs),
      promClientMs: ms(pairs.b.medianNs),
    })
    const bound = series === 100_000 ? SCRAPE_MAX : 1
    figures.push(ratioFigure(`a series of ${series} in a scrape, to prom-client`, pairs.ratio, 'lower', bound))
  }
  return { rows, figures }
}

const counted = counting()
const scraped = await scraping()
printReport({
  figures: [...counted.figures, ...scraped.figures],
  rows: [...counted.rows, ...scraped.rows],
})
