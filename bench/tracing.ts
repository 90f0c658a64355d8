import { randomFillSync } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Clock, SystemClock } from '../src/core/clock.ts'
import { HASH_WORDS, HashChain } from '../src/core/hash-chain.ts'
import { RandomWords } from '../src/core/random-words.ts'
import { SpanRing } from '../src/events/span-ring.ts'
import { TraceRatio } from '../src/events/trace-ratio.ts'
import { Tracer } from '../src/events/tracer.ts'
import { SlotList } from '../src/l1/slot-list.ts'
import { MetricCells } from '../src/metrics/cells.ts'
import { composeBenchEngine } from './support/bench-engine.ts'
import { formatNs, median } from './support/pairs.ts'

/**
 * What tracing costs a lookup that hits 32 chunks in L1, without bytes, in CPU time of the thread that runs the engine.
 *
 * `npm run bench -- tracing [--pairs N] [--json]`. One side is an engine without a tracer, the other one with: its
 * ratio 0, 0.01 and 1. Spans and events are drained by the same thread, outside of the time that counts. Then what the
 * heap grows by for each lookup.
 */
const PAIRS = 21
const WARMUPS = 3
const LOOKUPS = 8_000
const CHUNKS = 32
const CHUNK_TOKENS = 256
const SHARD_BYTES = 4_096
const RING_SPANS = 8_192
const GROWTH_LOOKUPS = 1_000

interface TracedEngine {
  /** Looks up and releases `count` times, in slices between which rings are emptied. @returns CPU ns a lookup. */
  lookups(count: number): number
  readonly spans: () => number
}

function tracerOf(ratio: number | null, clock: Clock, cells: MetricCells): { tracer: Tracer; ring: SpanRing } {
  const ring = SpanRing.create(RING_SPANS)
  if (ratio === null) return { tracer: Tracer.off(), ring }
  const ids = new RandomWords((pool) => void randomFillSync(pool))
  return { tracer: Tracer.create({ ring, clock, ratio: new TraceRatio(ratio), ids, cells: cells.spans }), ring }
}

/** @param ratio null = without a tracer. */
function engineWith(ratio: number | null): TracedEngine {
  const clock = new SystemClock()
  const cells = MetricCells.create({ maxTenants: 2, busCapacityEvents: 2 ** 19 })
  const { tracer, ring } = tracerOf(ratio, clock, cells)
  const setup = { clock, cells, memory: null, arenaBytes: 4 * 1024 * 1024, tracer }
  const { engine } = composeBenchEngine({ ...setup, chunkTokens: CHUNK_TOKENS, hashInlineChunks: 64 })
  const space = engine.openSpace({ model: 'm', salt: '', ranks: 1, shardBytes: SHARD_BYTES, layout: '' })
  const words = new Uint32Array(CHUNKS * HASH_WORDS)
  randomFillSync(words)
  const chain = HashChain.of(new Uint8Array(words.buffer))
  const lease = engine.reserve(space, 0, chain, 0, CHUNKS, 1, new SlotList())
  if (engine.commit(space, 0, lease) !== CHUNKS) throw new Error('the chunks were not stored')
  const lookups = (count: number) => {
    let cpuUs = 0
    for (let done = 0; done < count; done += GROWTH_LOOKUPS) {
      const before = process.threadCpuUsage()
      for (let at = 0; at < GROWTH_LOOKUPS; at += 1) {
        const lookup = engine.lookup(space, chain, 1)
        if (lookup.hitChunks !== CHUNKS) throw new Error('a lookup missed')
        engine.release(lookup)
      }
      const { user, system } = process.threadCpuUsage(before)
      cpuUs += user + system
      cells.bus.drain(2 ** 20, () => undefined)
      ring.drain(() => undefined)
    }
    return (cpuUs * 1_000) / count
  }
  return { lookups, spans: () => cells.spans.get(0, 'recorded') }
}

function compare(ratio: number, pairs: number) {
  const plain = engineWith(null)
  const traced = engineWith(ratio)
  const costs: { plainNs: number; tracedNs: number }[] = []
  for (let pair = -WARMUPS; pair < pairs; pair += 1) {
    const isSwapped = pair % 2 !== 0
    const firstNs = (isSwapped ? traced : plain).lookups(LOOKUPS)
    const secondNs = (isSwapped ? plain : traced).lookups(LOOKUPS)
    const [plainNs, tracedNs] = isSwapped ? [secondNs, firstNs] : [firstNs, secondNs]
    if (pair >= 0) costs.push({ plainNs, tracedNs })
  }
  const perSecond = (ns: number) => Math.round(1e9 / ns)
  const ratios = costs.map(({ plainNs, tracedNs }) => tracedNs / plainNs)
  return {
    ratio,
    lookups_per_cpu_second: perSecond(median(costs.map(({ tracedNs }) => tracedNs))),
    without_tracer: perSecond(median(costs.map(({ plainNs }) => plainNs))),
    added_ns_a_lookup: Number(median(costs.map(({ plainNs, tracedNs }) => tracedNs - plainNs)).toFixed(1)),
    cpu_ratio: Number(median(ratios).toFixed(3)),
    cpu_ratio_least: Number(Math.min(...ratios).toFixed(3)),
    cpu_ratio_greatest: Number(Math.max(...ratios).toFixed(3)),
    spans: traced.spans(),
  }
}

/** Bytes of heap that tracing every lookup adds to each: the median of rounds too short for a collection. */
function growth(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const bytesOf = (engine: TracedEngine) => {
    engine.lookups(100 * GROWTH_LOOKUPS)
    const growths = Array.from({ length: 30 }, () => {
      collect()
      const before = process.memoryUsage().heapUsed
      engine.lookups(GROWTH_LOOKUPS)
      return process.memoryUsage().heapUsed - before
    })
    return median(growths) / GROWTH_LOOKUPS
  }
  return bytesOf(engineWith(1)) - bytesOf(engineWith(null))
}

function main(argv: readonly string[]): void {
  const pairs = argv.includes('--pairs') ? Number(argv[argv.indexOf('--pairs') + 1]) : PAIRS
  const rows = [0, 0.01, 1].map((ratio) => compare(ratio, pairs))
  const result = { pairs, chunks: CHUNKS, rows, heap_bytes_added_a_lookup: Number(growth().toFixed(1)) }
  if (argv.includes('--json')) console.log(JSON.stringify(result))
  else {
    console.table(rows)
    console.log(
      `${pairs} pairs, ${CHUNKS} chunks a lookup; heap: ${result.heap_bytes_added_a_lookup} bytes a lookup more`,
    )
    console.log(`one traced lookup: ${formatNs(rows.at(-1)!.added_ns_a_lookup)}`)
  }
}

main(process.argv.slice(3))
