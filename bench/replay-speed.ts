import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { openReplayEngine } from '../src/cli/replay-engine.ts'
import { type ReplaySettings, readReplaySettings } from '../src/cli/replay-settings.ts'
import { ManualClock, SystemClock } from '../src/core/clock.ts'
import { ChunkChecker } from '../src/replay/chunk-checker.ts'
import { ClientPath } from '../src/replay/client-path.ts'
import { readMooncakeTrace } from '../src/replay/mooncake-trace.ts'
import { ReplayCounts } from '../src/replay/replay-counts.ts'
import { VirtualPace } from '../src/replay/replay-pace.ts'
import { VirtualServer } from '../src/replay/virtual-server.ts'
import { writeConversations } from './support/conversations.ts'
import { median } from './support/pairs.ts'

/**
 * Block references a second of a flat-out replay that moves no bytes: the engine's own cost a block, on one thread.
 *
 * `npm run bench -- replay-speed [TRACE.jsonl] [--chunks N] [--json]`. Without a trace, conversations of growing
 * prompts are made up. Each round is a new engine; the first one runs code that V8 has not compiled yet. The time is
 * that of the replay, reading the file aside; CPU time is that of the one thread that runs it. Beside it, in turn,
 * the npm `lru-cache` takes the same references as bare integers, tail first: an index without tiers, leases, slots,
 * hashes or metrics.
 */
const ROUNDS = 15
const CHUNKS_DEFAULT = 18_279

interface Round {
  readonly refs: number
  readonly hitRatio: number
  readonly wallMs: number
  readonly cpuMs: number
}

async function runRound(settings: ReplaySettings): Promise<Round> {
  const clock = new ManualClock()
  const { runtime, space, close } = await openReplayEngine(settings, {
    clock,
    onError: (_where, error) => {
      throw error
    },
  })
  const counts = new ReplayCounts()
  const pace = new VirtualPace(clock, new SystemClock(), true, () => false)
  const chunkBytes = settings.blockBytes
  const checker = new ChunkChecker(0, chunkBytes, counts)
  const path = new ClientPath({ engine: runtime.engine, chunkBytes, counts, checker, arena: null })
  const server = new VirtualServer(settings, { engine: runtime.engine, space, pace, path, counts })
  let wallMs = 0
  let cpuMs = 0
  const { partialBlocks, limit } = settings
  for await (const batch of readMooncakeTrace(settings.file, { partialBlocks, limit })) {
    const startMs = performance.now()
    const startCpu = process.threadCpuUsage()
    await server.run(batch)
    wallMs += performance.now() - startMs
    const cpu = process.threadCpuUsage(startCpu)
    cpuMs += (cpu.user + cpu.system) / 1_000
  }
  await server.finish()
  await close()
  return { refs: counts.blockRefs, hitRatio: (counts.hitL0 + counts.hitL1) / counts.blockRefs, wallMs, cpuMs }
}

/** The references of the trace against a plain LRU map of integers. */
async function runPlain(settings: ReplaySettings): Promise<Round> {
  const cache = new LRUCache<number, true>({ max: settings.l1Chunks })
  let [refs, hits, wallMs, cpuMs] = [0, 0, 0, 0]
  const { partialBlocks, limit } = settings
  for await (const batch of readMooncakeTrace(settings.file, { partialBlocks, limit })) {
    const startMs = performance.now()
    const startCpu = process.threadCpuUsage()
    for (let index = 0; index < batch.count; index += 1) {
      const first = batch.firstId[index]!
      const end = batch.firstId[index + 1]!
      let at = first
      while (at < end && cache.has(batch.ids[at]!)) at += 1
      hits += at - first
      refs += end - first
      for (let tail = end - 1; tail >= first; tail -= 1) {
        if (cache.get(batch.ids[tail]!) === undefined) cache.set(batch.ids[tail]!, true)
      }
    }
    wallMs += performance.now() - startMs
    const cpu = process.threadCpuUsage(startCpu)
    cpuMs += (cpu.user + cpu.system) / 1_000
  }
  return { refs, hitRatio: hits / refs, wallMs, cpuMs }
}

function speeds(rounds: readonly Round[]) {
  const perSecond = (ms: (round: Round) => number) =>
    Math.round(median(rounds.map((one) => (one.refs / ms(one)) * 1_000)))
  return { refs_per_second: perSecond(({ wallMs }) => wallMs), refs_per_cpu_second: perSecond(({ cpuMs }) => cpuMs) }
}

async function main(argv: readonly string[]): Promise<void> {
  const given = argv.find((word) => word.endsWith('.jsonl'))
  const chunks = argv.includes('--chunks') ? Number(argv[argv.indexOf('--chunks') + 1]) : CHUNKS_DEFAULT
  const directory = mkdtempSync(join(tmpdir(), 'kvtier-bench-'))
  const file = given ?? join(directory, 'trace.jsonl')
  if (given === undefined) writeConversations(file)
  const options = {
    'metadata-only': true as const,
    'flat-out': true as const,
    tiers: 'l1',
    'l1-chunks': `${chunks}`,
    'partial-blocks': 'count',
  }
  const settings = readReplaySettings({ positionals: [file], options } as never)
  const rounds: Round[] = []
  const plain: Round[] = []
  for (let round = 0; round < ROUNDS + 1; round += 1) {
    rounds.push(await runRound(settings))
    plain.push(await runPlain(settings))
  }
  rmSync(directory, { recursive: true, force: true })
  const { refs, hitRatio } = rounds[0]!
  const result = {
    trace: given === undefined ? 'made up' : 'given',
    l1_chunks: chunks,
    block_refs: refs,
    hit_ratio: Number(hitRatio.toFixed(4)),
    rounds: ROUNDS,
    first_round: speeds(rounds.slice(0, 1)),
    median_of_later_rounds: speeds(rounds.slice(1)),
    lru_cache: { hit_ratio: Number(plain[0]!.hitRatio.toFixed(4)), ...speeds(plain.slice(1)) },
    engine_to_lru_cache: Number(
      median(rounds.slice(1).map(({ cpuMs }, at) => plain[at + 1]!.cpuMs / cpuMs)).toFixed(2),
    ),
  }
  console.log(argv.includes('--json') ? JSON.stringify(result) : result)
}

await main(process.argv.slice(3))
