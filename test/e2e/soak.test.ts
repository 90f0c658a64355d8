import { afterAll, beforeAll, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { HttpClient } from '../support/http-client.ts'
import { LiveHeap } from '../support/live-heap.ts'
import { HttpSoakClient, MpSoakClient } from '../support/soak-clients.ts'
import { closedLoopMs, growthOf, SoakLoop } from '../support/soak-run.ts'
import { until } from '../support/until.ts'

const MIB = 1024 ** 2
/** KVTIER_SOAK_MINUTES sets another time: `npm run soak` is half an hour. */
const MINUTES = Number(process.env.KVTIER_SOAK_MINUTES ?? 0.3)
const PARTS = 24
const L1_BYTES = 8 * MIB
/** Growth of the live heap of all threads that is taken for noise, over the last two thirds of a soak. */
const HEAP_GROWTH_MAX = 8 * MIB
/** The same of L1 in use: it is full all the time, so it may only swing between the watermarks. */
const ARENA_GROWTH_MAX = 0.02 * L1_BYTES
const GAUGES = [
  'cache_mp_num_inflight_l2_stores',
  'cache_mp_num_inflight_l2_loads',
  'cache_mp_inflight_load_memory_usage_bytes',
  'cache_mp_l2_inflight_store_chunks',
  'cache_mp_l2_inflight_load_chunks',
  'cache_mp_l2_active_jobs',
  'cache_mp_active_prefetch_jobs',
]

const home = new EngineHome()
let engine: EngineProcess
let heap: LiveHeap
beforeAll(async () => {
  const flags = ['--l2', 'name=disk,type=filesystem,capacity=24MiB,durability=checksum']
  engine = await home.start({ l1Size: '8MiB', flags, nodeFlags: ['--inspect=127.0.0.1:0'] })
  heap = await LiveHeap.connect(engine.printed)
})
afterAll(async () => {
  heap?.close()
  await home.remove()
})

it(
  `keeps heap and arena level under 80 % load, gives out right bytes, and holds nothing at the end (${MINUTES} minutes)`,
  async () => {
    const http = new HttpClient(engine, await home.token('admin'))
    const clients = [await MpSoakClient.open(engine, 1), await MpSoakClient.open(engine, 2)]
    const all = [...clients, await HttpSoakClient.open(http, 3)]
    const partMs = (MINUTES * 60_000) / PARTS
    const loops = (await closedLoopMs(all, partMs)).map((closedMs, at) => new SoakLoop(all[at]!, closedMs))
    const running = Promise.all(loops.map((loop) => loop.run()))
    const heapBytes: number[] = []
    const arenaBytes: number[] = []
    for (let part = 1; part <= PARTS; part += 1) {
      // Fails at once when a client does: a wrong byte, an error that is none of the load.
      await Promise.race([running, new Promise((resolve) => setTimeout(resolve, partMs))])
      for (const loop of loops) loop.endPart(Math.round((part * partMs) / 1000))
      heapBytes.push(await heap.bytes())
      arenaBytes.push((await http.status()).l1.usageBytes)
    }
    for (const loop of loops) loop.stop()
    await running
    report(loops, heapBytes, arenaBytes)

    for (const { client } of loops) {
      const { compared, stored } = client.counts
      expect(Math.min(compared, stored), `chunks that ${client.name} compared and stored`).toBeGreaterThan(0)
    }
    const settled = (values: readonly number[]) => values.slice(PARTS / 3)
    expect(growthOf(settled(heapBytes)), 'growth of the live heap').toBeLessThan(HEAP_GROWTH_MAX)
    expect(growthOf(settled(arenaBytes)), 'growth of L1 in use').toBeLessThan(ARENA_GROWTH_MAX)

    for (const client of all) await client.close()
    await until('nothing is under way or leased', async () => (await heldThings(http)).length === 0 || undefined)
    await http.must('POST', '/v1/clear', {})
    await until('L1 is empty', async () => (await http.status()).l1.usageBytes === 0 || undefined)
    expect((await http.status()).totals.hitTokensL2, 'tokens that came from L2').toBeGreaterThan(0)
    heap.close() // node waits at its end for inspectors
    expect(await engine.stop()).toBe(0)
    expect(engine.printed).not.toMatch(/AssertionError|loop .* failed/)
  },
  MINUTES * 60_000 + 600_000,
)

/** What an engine at rest must not hold, with what it still has. */
async function heldThings(http: HttpClient): Promise<string[]> {
  const { l1, l2, lookups, pins } = await http.status()
  const { samples } = parseExposition(await (await fetch(engine.metricsUrl)).text())
  const held: [string, number][] = [
    ['open leases', l1.openLeases],
    ['bytes in quarantine', l1.quarantinedBytes],
    ['queued stores', l2.queuedStores],
    ['stores in flight', l2.inflightStores],
    ['pending lookups', lookups.pending],
    ['prefetch jobs', lookups.prefetchJobs],
    ['pins', pins],
  ]
  for (const { name, value } of samples) if (GAUGES.includes(name)) held.push([name, value])
  for (const name of GAUGES) expect(samples.map((sample) => sample.name)).toContain(name)
  return held.filter(([, count]) => count !== 0).map(([name, count]) => `${name}: ${count}`)
}

/** Latencies over time, and what heap and arena did, for who runs it by hand. */
function report(loops: readonly SoakLoop[], heapBytes: readonly number[], arenaBytes: readonly number[]): void {
  const clients = loops.map(({ client, parts }) => ({ name: client.name, ...client.counts, parts }))
  const mib = (bytes: readonly number[]) => bytes.map((value) => Number((value / MIB).toFixed(2)))
  const text = {
    minutes: MINUTES,
    threads: heap.threads,
    heap_mib: mib(heapBytes),
    arena_mib: mib(arenaBytes),
    clients,
  }
  if (process.env.KVTIER_SOAK_MINUTES !== undefined) console.log(JSON.stringify(text))
}
