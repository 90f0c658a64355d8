import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { openReplayEngine, type ReplayEngine } from '../src/cli/replay-engine.ts'
import { type ReplaySettings, readReplaySettings } from '../src/cli/replay-settings.ts'
import { ManualClock, SystemClock } from '../src/core/clock.ts'
import type { MetricCells } from '../src/metrics/cells.ts'
import { ChunkChecker } from '../src/replay/chunk-checker.ts'
import { GpuPath } from '../src/replay/gpu-path.ts'
import { loadMooncakeTrace } from '../src/replay/mooncake-trace.ts'
import { ReplayCounts } from '../src/replay/replay-counts.ts'
import { VirtualPace } from '../src/replay/replay-pace.ts'
import { TraceBatch } from '../src/replay/trace-batch.ts'
import { VirtualServer } from '../src/replay/virtual-server.ts'
import { sessions } from '../test/support/trace-shapes.ts'
import { importWithoutRecording } from './support/build-without-recording.ts'
import { median } from './support/pairs.ts'

/**
 * Sessions of ten tenants through L0, L1 and L2 with real bytes at full speed: time saved, and what recording costs.
 *
 * `npm run bench -- end-to-end [TRACE.jsonl] [--pairs N] [--prompts N] [--json]`. A simulated device of 16 MiB, 48 MiB
 * of shared memory, and files on the disk under the temporary directory, with chunks of 32 KiB. Each tenant has a cache
 * salt of its own; in a trace that is named, whose a conversation is follows from its first block. Flat out: virtual time, so that only the cache's
 * own work takes any. In turn with it runs the same source without recording (`support/build-without-recording.ts`).
 *
 * Time saved is the prefill of the tokens that were served, at 20,000 tokens a second, against the time of the whole run.
 * One of 64 fetched chunks is compared with what was stored; both builds must hit the same.
 */
const TENANTS = 10
const PAIRS = 3
const PROMPTS = 600
const SIZES = { 'l0-size': '16MiB', 'l1-size': '48MiB', 'l2-size': '1GiB' }

type Build = Pick<typeof import('../src/cli/replay-engine.ts'), 'openReplayEngine'>

interface Run {
  readonly refs: number
  readonly hits: { readonly l0: number; readonly l1: number; readonly l2: number }
  readonly savedTokens: number
  readonly seconds: number
  readonly cpuSeconds: number
  /** Of the thread that runs the engine. */
  readonly dataSeconds: number
}

interface TenantRequest {
  readonly tenant: number
  readonly request: TraceBatch
}

function requestOf(whole: TraceBatch, index: number, tenant: number): TenantRequest {
  const request = new TraceBatch()
  request.pushFrom(whole, index)
  return { tenant, request }
}

/** Requests of a trace with the tenant of each: by the first block, as conversations keep theirs. */
async function readRequests(file: string, limit: number): Promise<TenantRequest[]> {
  const whole = await loadMooncakeTrace(file, { partialBlocks: 'count', limit })
  return Array.from({ length: whole.count }, (_, index) => {
    return requestOf(whole, index, (whole.ids[whole.firstId[index]!] ?? 0) % TENANTS)
  })
}

/** Sessions of each tenant, in turn. */
function makeRequests(limit: number): TenantRequest[] {
  const wholes = Array.from({ length: TENANTS }, (_, tenant) => sessions(tenant + 1, Math.ceil(limit / TENANTS)))
  return Array.from({ length: limit }, (_, at) => {
    return requestOf(wholes[at % TENANTS]!, Math.floor(at / TENANTS), at % TENANTS)
  })
}

/** One server for each tenant, over one engine. */
function serversOf(opened: ReplayEngine, settings: ReplaySettings, clock: ManualClock, counts: ReplayCounts) {
  const { engine } = opened.runtime
  const { stores } = engine
  const isPending = () => stores.inflightBatches > 0 || stores.queuedShards > 0 || engine.pendingLookups > 0
  const pace = new VirtualPace(clock, new SystemClock(), true, isPending)
  const chunkBytes = settings.blockBytes
  const checker = new ChunkChecker(settings.verifyEvery, chunkBytes, counts)
  return Array.from({ length: TENANTS }, (_, tenant) => {
    const spec = { model: 'replay', salt: `tenant-${tenant}`, ranks: 1, shardBytes: chunkBytes, layout: 'replay' }
    const space = engine.openSpace(spec)
    const memory = opened.deviceMemory
    const path = new GpuPath({ engine, device: engine.device!, memory, chunkBytes, counts, checker })
    return new VirtualServer(settings, { engine, space, pace, path, counts })
  })
}

async function run(
  build: Build,
  settings: ReplaySettings,
  requests: readonly TenantRequest[],
  thread: MetricsThread | null,
): Promise<Run> {
  const clock = new ManualClock()
  const onError = (_where: string, error: unknown): never => {
    throw error
  }
  const opened = await build.openReplayEngine(settings, { clock, onError })
  const counts = new ReplayCounts()
  const servers = serversOf(opened, settings, clock, counts)
  await thread?.follow(opened.cells)
  const cpu0 = process.cpuUsage()
  const data0 = process.threadCpuUsage()
  const start = performance.now()
  for (const { tenant, request } of requests) {
    await servers[tenant]!.run(request)
    thread?.keepUp(opened.cells)
  }
  for (const server of servers) await server.finish()
  const seconds = (performance.now() - start) / 1000
  const data = process.threadCpuUsage(data0)
  await thread?.finish()
  const cpu = process.cpuUsage(cpu0)
  await opened.close()
  if (counts.corruptChunks > 0 || counts.verifiedChunks === 0) throw new Error('wrong bytes, or none compared')
  return {
    refs: counts.blockRefs,
    hits: { l0: counts.hitL0, l1: counts.hitL1, l2: counts.hitL2 },
    savedTokens: counts.savedTokens,
    seconds,
    cpuSeconds: (cpu.user + cpu.system) / 1e6,
    dataSeconds: (data.user + data.system) / 1e6,
  }
}

/** The service thread of one engine after the other, so that its code is compiled once. */
class MetricsThread {
  readonly #worker = new Worker(new URL('./support/metrics-thread.ts', import.meta.url))
  readonly #flag = new Int32Array(new SharedArrayBuffer(4))

  async follow(cells: MetricCells): Promise<void> {
    this.#worker.postMessage(cells.handles)
    await once(this.#worker, 'message')
  }

  /** Sleeps while there is little room on the bus: no event is had for nothing. */
  keepUp({ bus }: MetricCells): void {
    while (bus.depth() > bus.capacityEvents / 2) Atomics.wait(this.#flag, 0, 0, 1)
  }

  async finish(): Promise<void> {
    this.#worker.postMessage(null)
    await once(this.#worker, 'message')
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}

function summaryOf(pairs: readonly { on: Run; off: Run }[], prefillRate: number) {
  const { refs, hits, savedTokens } = pairs[0]!.on
  const of = (value: (pair: { on: Run; off: Run }) => number, digits = 3) => {
    return Number(median(pairs.map(value)).toFixed(digits))
  }
  const seconds = of(({ on }) => on.seconds)
  const savedSeconds = savedTokens / prefillRate
  return {
    tenants: TENANTS,
    blocks: refs,
    hit_ratio: Number(((hits.l0 + hits.l1 + hits.l2) / refs).toFixed(4)),
    hits,
    prefill_seconds_saved: Number(savedSeconds.toFixed(1)),
    seconds,
    saved_for_each_second_of_cache: Number((savedSeconds / seconds).toFixed(1)),
    cpu_us_a_block: of(({ on }) => (on.cpuSeconds * 1e6) / refs, 2),
    data_thread_us_a_block: of(({ on }) => (on.dataSeconds * 1e6) / refs, 2),
    cpu_ratio_to_no_recording: of(({ on, off }) => on.cpuSeconds / off.cpuSeconds),
    data_thread_ratio: of(({ on, off }) => on.dataSeconds / off.dataSeconds),
    wall_ratio: of(({ on, off }) => on.seconds / off.seconds),
    pairs: pairs.length,
  }
}

async function main(argv: readonly string[]): Promise<void> {
  const word = (name: string, otherwise: number) =>
    argv.includes(name) ? Number(argv[argv.indexOf(name) + 1]) : otherwise
  const directory = mkdtempSync(join(tmpdir(), 'kvtier-bench-'))
  const given = argv.find((one) => one.includes('.jsonl'))
  const limit = word('--prompts', PROMPTS)
  const options = { ...SIZES, 'flat-out': true, 'l2-dir': directory, limit: `${limit}`, 'partial-blocks': 'count' }
  const settings = readReplaySettings({ positionals: [given ?? ''], options } as never)
  const requests = given === undefined ? makeRequests(limit) : await readRequests(given, limit)
  const off = await importWithoutRecording<Build>('cli/replay-engine.ts')
  const thread = new MetricsThread()
  const pairs: { on: Run; off: Run }[] = []
  for (let pair = -1; pair < word('--pairs', PAIRS); pair += 1) {
    const early = pair % 2 !== 0 ? await run(off, settings, requests, null) : null
    const on = await run({ openReplayEngine }, settings, requests, thread)
    const late = early ?? (await run(off, settings, requests, null))
    if (on.refs !== late.refs || on.savedTokens === 0) throw new Error('the builds do not do the same')
    if (pair >= 0) pairs.push({ on, off: late })
  }
  await thread.close()
  rmSync(directory, { recursive: true, force: true })
  const summary = summaryOf(pairs, settings.prefillTokensPerSecond)
  if (argv.includes('--json')) console.log(JSON.stringify({ summary, pairs }))
  else console.table(summary)
}

await main(process.argv.slice(3))
