import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { L1PolicyName } from '../src/l1/options.ts'
import { BATCH_RUNS, type Filled, L1Scene, RUN_CHUNKS } from './support/l1-scene.ts'
import { median } from './support/pairs.ts'

/**
 * L1 index: cost of an operation, bytes a chunk and longest pause, from 10 thousand to 10 million chunks.
 *
 * Each size is filled, then used half by lookups of resident runs (find, lease, serve, release) and half by stores
 * that evict (find, reserve, commit). In turn with them runs the reference: random reads of a plain open-addressing
 * table in one typed array, with entries of the same size and the same 32-byte compare. The claim is the growth from
 * the smallest size to the largest: ours may be at most 1.5 times that of the reference.
 *
 * `--json`, `--sizes 10000,1000000`, `--policy NAME`.
 */
const PAIRS = 41
const ROUNDS = 16 // batches a side and pair
const PAUSE_MAX_MS = 50
const BYTES_MAX = 120
const GROWTH_MAX = 1.5

interface Row extends Filled {
  readonly chunks: number
  /** Of every typed array: index, slots of the arena, leases. */
  readonly bytesPerChunk: number
  readonly openMs: number
  readonly hitNs: number
  readonly storeNs: number
  readonly mixedNs: number
  readonly probeNs: number
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function measure(chunks: number, policy: L1PolicyName): Row {
  collect()
  collect() // buffers of the last size are given back by the second
  const bytesBefore = process.memoryUsage().arrayBuffers
  const opened = performance.now()
  const scene = new L1Scene(chunks, policy)
  const openMs = performance.now() - opened
  const filled = scene.fill()
  const bytesPerChunk = (process.memoryUsage().arrayBuffers - bytesBefore - scene.ownBytes) / chunks
  const reference = scene.makeReference(scene.cache.indexBytes / chunks)
  const samples: Record<'hit' | 'store' | 'mixed' | 'probe', number[]> = { hit: [], store: [], mixed: [], probe: [] }
  for (let pair = -4; pair < PAIRS; pair += 1) {
    let hit = 0
    let store = 0
    let probe = 0
    for (let round = 0; round < ROUNDS; round += 1) {
      hit += scene.hits()
      probe += scene.probe(reference)
      store += scene.stores()
    }
    if (pair < 0) continue
    const toNs = 1e6 / (ROUNDS * BATCH_RUNS * RUN_CHUNKS)
    samples.hit.push(hit * toNs)
    samples.store.push(store * toNs)
    samples.mixed.push(((hit + store) / 2) * toNs)
    samples.probe.push(probe * toNs)
  }
  return {
    chunks,
    bytesPerChunk,
    openMs,
    ...filled,
    hitNs: median(samples.hit),
    storeNs: median(samples.store),
    mixedNs: median(samples.mixed),
    probeNs: median(samples.probe),
  }
}

function option(name: string, otherwise: string): string {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? otherwise : (process.argv[at + 1] ?? otherwise)
}

const policy = option('policy', 'lru') as L1PolicyName
const sizes = option('sizes', '10000,100000,1000000,10000000').split(',').map(Number)
measure(sizes[0]!, policy) // compiles the code
const rows: Row[] = []
for (const chunks of sizes) {
  rows.push(measure(chunks, policy))
  if (!process.argv.includes('--json')) console.log(lineOf(rows.at(-1)!))
}
const [first, last] = [rows[0]!, rows.at(-1)!]
const growth = last.mixedNs / first.mixedNs
const probeGrowth = last.probeNs / first.probeNs
const longestPauseMs = Math.max(...rows.map((row) => row.longestPauseMs))
const longestPauseCpuMs = Math.max(...rows.map((row) => row.longestPauseCpuMs))
const report = {
  policy,
  rows,
  growth,
  probeGrowth,
  relativeGrowth: growth / probeGrowth,
  longestPauseMs,
  longestPauseCpuMs,
  holds: growth <= GROWTH_MAX * probeGrowth && last.bytesPerChunk < BYTES_MAX && longestPauseMs < PAUSE_MAX_MS,
}
if (process.argv.includes('--json')) console.log(JSON.stringify(report))
else {
  console.log(
    `growth ${growth.toFixed(2)}, reference ${probeGrowth.toFixed(2)}, ratio ${(growth / probeGrowth).toFixed(2)}`,
  )
  console.log(
    `longest pause ${longestPauseCpuMs.toFixed(1)} ms of CPU, ${longestPauseMs.toFixed(1)} ms by the wall; ${report.holds ? 'holds' : 'DOES NOT HOLD'}`,
  )
}
if (!report.holds) process.exitCode = 1

function lineOf(row: Row): string {
  const ns = (value: number) => `${value.toFixed(0)} ns`
  return (
    `${String(row.chunks).padStart(8)} chunks: ${row.bytesPerChunk.toFixed(1)} bytes a chunk; a chunk takes ` +
    `${ns(row.mixedNs)} mixed (hit ${ns(row.hitNs)}, store with eviction ${ns(row.storeNs)}), reference ` +
    `${ns(row.probeNs)}; fill ${ns(row.fillNs)}, longest pause ${row.longestPauseMs.toFixed(1)} ms ` +
    `(CPU ${row.longestPauseCpuMs.toFixed(1)} ms), ` +
    `open ${row.openMs.toFixed(1)} ms`
  )
}
