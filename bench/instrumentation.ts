import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { letHeapsGrow } from '../src/app/heap-growth.ts'
import { openReplayEngine } from '../src/cli/replay-engine.ts'
import { type ReplaySettings, readReplaySettings } from '../src/cli/replay-settings.ts'
import { ManualClock, SystemClock } from '../src/core/clock.ts'
import type { MetricCells } from '../src/metrics/cells.ts'
import { ChunkChecker } from '../src/replay/chunk-checker.ts'
import { ClientPath } from '../src/replay/client-path.ts'
import { readMooncakeTrace } from '../src/replay/mooncake-trace.ts'
import { ReplayCounts } from '../src/replay/replay-counts.ts'
import { VirtualPace } from '../src/replay/replay-pace.ts'
import { VirtualServer } from '../src/replay/virtual-server.ts'
import { importWithoutRecording } from './support/build-without-recording.ts'
import { writeConversations } from './support/conversations.ts'
import { processCpuNs, threadCpuNs } from './support/cpu-clock.ts'
import { median } from './support/pairs.ts'
import { recordingGrowth } from './support/recording-growth.ts'

/**
 * What all instrumentation costs a replay, in CPU time of the process, beside a build with recording switched off.
 *
 * `npm run bench -- instrumentation [TRACE.jsonl] [--pairs N] [--only 'no bytes'] [--json]`. One side is the source as it is,
 * with a service thread that drains the events into histograms; the other is the same source with the recording taken
 * out (`support/build-without-recording.ts`), and no service thread. Both replay the same prompts, in turn, through a
 * new engine of L1 alone: without bytes, with the 64 bytes a token of `kvtier replay`, and with 1 KiB a token, which is
 * still little. CPU time counts every thread.
 * When the ring of events is half full the replay waits, so that no event is dropped and none is had for nothing.
 */
const PAIRS = 15
const WARMUPS = 2

/** What is replayed: bytes of a token (0 = none are kept), chunks that L1 holds, prompts of the trace. */
const REPLAYS = {
  'no bytes': { tokenBytes: 0, l1Chunks: 18_279, prompts: 12_000 },
  'blocks of 32 KiB': { tokenBytes: 64, l1Chunks: 6_000, prompts: 4_000 },
  'blocks of 512 KiB': { tokenBytes: 1_024, l1Chunks: 1_000, prompts: 1_500 },
} as const
type Replay = (typeof REPLAYS)[keyof typeof REPLAYS]
const LIMITS = { metadataNsPerBlock: 150, bytesRatio: 1.03 }

type Build = Pick<typeof import('../src/cli/replay-engine.ts'), 'openReplayEngine'>

interface Cost {
  readonly refs: number
  readonly hits: number
  readonly cpuNs: number
  /** Of the thread that runs the engine. */
  readonly dataNs: number
  readonly dropped: number
}

/** The service thread of one engine after the other, so that its code is compiled once. */
class MetricsThread {
  readonly #worker = new Worker(new URL('./support/metrics-thread.ts', import.meta.url))
  readonly #flag = new Int32Array(new SharedArrayBuffer(4))

  async follow(cells: MetricCells): Promise<void> {
    this.#worker.postMessage(cells.handles)
    await once(this.#worker, 'message')
  }

  /** Sleeps while there is little room on the bus. */
  readonly keepUp = ({ bus }: MetricCells): void => {
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

async function replay(build: Build, settings: ReplaySettings, thread: MetricsThread | null): Promise<Cost> {
  const clock = new ManualClock()
  const onError = (_where: string, error: unknown): never => {
    throw error
  }
  const { runtime, cells, space, arena, close } = await build.openReplayEngine(settings, { clock, onError })
  const counts = new ReplayCounts()
  const pace = new VirtualPace(clock, new SystemClock(), true, () => false)
  const chunkBytes = settings.blockBytes
  const checker = new ChunkChecker(settings.verifyEvery, chunkBytes, counts)
  const path = new ClientPath({ engine: runtime.engine, chunkBytes, counts, checker, arena })
  const onProgress = () => thread?.keepUp(cells)
  const server = new VirtualServer(settings, { engine: runtime.engine, space, pace, path, counts, onProgress })
  const { partialBlocks, limit } = settings
  await thread?.follow(cells)
  let [cpuNs, dataNs] = [0, 0]
  for await (const batch of readMooncakeTrace(settings.file, { partialBlocks, limit })) {
    const [process0, thread0] = [processCpuNs(), threadCpuNs()]
    await server.run(batch)
    dataNs += threadCpuNs() - thread0
    cpuNs += processCpuNs() - process0
  }
  const process0 = processCpuNs()
  await server.finish()
  await thread?.finish()
  cpuNs += processCpuNs() - process0
  const dropped = cells.bus.dropped()
  await close()
  if (counts.corruptChunks > 0) throw new Error('wrong bytes')
  return { refs: counts.blockRefs, hits: counts.hitL0 + counts.hitL1, cpuNs, dataNs, dropped }
}

/** Both sides in turn, from the same start. */
async function compare(builds: { on: Build; off: Build }, settings: ReplaySettings, pairs: number) {
  const thread = new MetricsThread()
  const costs: { on: Cost; off: Cost }[] = []
  for (let pair = -WARMUPS; pair < pairs; pair += 1) {
    const isSwapped = pair % 2 !== 0
    const early = isSwapped ? await replay(builds.off, settings, null) : null
    const on = await replay(builds.on, settings, thread)
    const off = early ?? (await replay(builds.off, settings, null))
    if (on.hits !== off.hits || on.refs !== off.refs) throw new Error('the builds do not do the same')
    if (pair >= 0) costs.push({ on, off })
  }
  await thread.close()
  const refs = costs[0]!.on.refs
  const added = costs.map(({ on, off }) => (on.cpuNs - off.cpuNs) / refs)
  const of = (values: readonly number[], digits = 0) => Number(median(values).toFixed(digits))
  return {
    blocks: refs,
    hit_ratio: Number((costs[0]!.on.hits / refs).toFixed(3)),
    pairs,
    cpu_ns_a_block: of(costs.map(({ on }) => on.cpuNs / refs)),
    without: of(costs.map(({ off }) => off.cpuNs / refs)),
    added_ns_a_block: of(added),
    least: Math.round(Math.min(...added)),
    greatest: Math.round(Math.max(...added)),
    added_on_data_thread: of(costs.map(({ on, off }) => (on.dataNs - off.dataNs) / refs)),
    ratio: of(
      costs.map(({ on, off }) => on.cpuNs / off.cpuNs),
      4,
    ),
    events_dropped: Math.max(...costs.map(({ on }) => on.dropped)),
  }
}

function settingsOf(file: string, { tokenBytes, l1Chunks, prompts }: Replay): ReplaySettings {
  const options = {
    ...(tokenBytes === 0 ? { 'metadata-only': true as const } : { 'kv-bytes-per-token': `${tokenBytes}` }),
    'flat-out': true as const,
    tiers: 'l1',
    'l1-chunks': `${l1Chunks}`,
    'partial-blocks': 'count',
    limit: `${prompts}`,
  }
  return readReplaySettings({ positionals: [file], options } as never)
}

async function main(argv: readonly string[]): Promise<void> {
  letHeapsGrow() // as `serve` does
  const word = (name: string, otherwise: number) =>
    argv.includes(name) ? Number(argv[argv.indexOf(name) + 1]) : otherwise
  const pairs = word('--pairs', PAIRS)
  const directory = mkdtempSync(join(tmpdir(), 'kvtier-bench-'))
  const given = argv.find((one) => one.endsWith('.jsonl'))
  const file = given ?? join(directory, 'trace.jsonl')
  if (given === undefined) writeConversations(file)
  const builds = { on: { openReplayEngine }, off: await importWithoutRecording<Build>('cli/replay-engine.ts') }
  const rows: Record<string, Awaited<ReturnType<typeof compare>>> = {}
  const only = argv.includes('--only') ? argv[argv.indexOf('--only') + 1] : undefined
  for (const [name, one] of Object.entries(REPLAYS)) {
    if (only !== undefined && name !== only) continue
    rows[name] = await compare(builds, settingsOf(file, one), pairs)
  }
  rmSync(directory, { recursive: true, force: true })
  const growth = recordingGrowth()
  const holds = {
    metadata: rows['no bytes'] && rows['no bytes'].added_ns_a_block <= LIMITS.metadataNsPerBlock,
    small_blocks: rows['blocks of 32 KiB'] && rows['blocks of 32 KiB'].ratio <= LIMITS.bytesRatio,
    large_blocks: rows['blocks of 512 KiB'] && rows['blocks of 512 KiB'].ratio <= LIMITS.bytesRatio,
    allocates_nothing: growth.bytes_a_record < 0.5,
  }
  if (argv.includes('--json')) console.log(JSON.stringify({ rows, growth, holds }))
  else {
    console.table(rows)
    console.table([growth])
    console.log(holds)
  }
}

await main(process.argv.slice(3))
