import { statSync } from 'node:fs'
import { readMachineFacts } from '../config/machine-facts.ts'
import { ManualClock, SystemClock } from '../core/clock.ts'
import { belady } from '../replay/belady.ts'
import { ChunkChecker } from '../replay/chunk-checker.ts'
import { ClientPath } from '../replay/client-path.ts'
import { type PrefixTrace, prefixTraceOf } from '../replay/prefix-nodes.ts'
import { referenceLru } from '../replay/reference-lru.ts'
import { ReplayCounts } from '../replay/replay-counts.ts'
import { VirtualPace } from '../replay/replay-pace.ts'
import { percent } from '../replay/report.ts'
import type { TraceBatch } from '../replay/trace-batch.ts'
import { VirtualServer } from '../replay/virtual-server.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { ProgressBar } from './progress-bar.ts'
import { openReplayEngine } from './replay-engine.ts'
import { engineOptions, POLICIES, type Policy, type ReplaySettings } from './replay-settings.ts'
import { loadTrace, openTrace } from './replay-trace.ts'
import { textTable } from './table.ts'

/** Sizes of L1 in a sweep, as shares of the distinct chunks of the trace. */
const SWEEP_RATIOS = [0.02, 0.05, 0.1, 0.25, 0.5]
const CHUNKS_MIN = 16

interface SweepRow {
  readonly l1_chunks: number
  /** Hit ratio of the engine, by policy. */
  readonly policies: Readonly<Record<string, number>>
  readonly exact_lru: number
  readonly belady: number
}

/** `kvtier replay FILE --sweep`: the engine's hit ratio over sizes and policies, beside what is known of the trace. */
export async function printSweep(call: CommandCall, settings: ReplaySettings): Promise<ExitCode> {
  const { file } = settings
  const batch = await loadWhole(call, settings)
  const trace = prefixTraceOf(batch)
  const sizes = settings.sweepChunks.length > 0 ? settings.sweepChunks : sizesFor(trace.distinct)
  const policies = call.options.policy === undefined ? POLICIES : [settings.policy]
  const bar = new ProgressBar(call.terminal, new SystemClock(), 'sweep')
  const rows: SweepRow[] = []
  for (const [index, l1Chunks] of sizes.entries()) {
    const ratios: Record<string, number> = {}
    for (const [turn, policy] of policies.entries()) {
      const done = index * policies.length + turn
      bar.update(done / (sizes.length * policies.length), done * batch.idCount, 'refs')
      ratios[policy] = await hitRatio(batch, { ...settings, policy, l1Chunks, l1Bytes: l1Chunks * settings.blockBytes })
    }
    rows.push(sweepRow(trace, l1Chunks, ratios))
  }
  bar.finish()
  const infinite = belady(trace, Number.POSITIVE_INFINITY).hitRatio
  const json = {
    file,
    requests: batch.count,
    block_refs: batch.idCount,
    distinct_blocks: trace.distinct,
    infinite,
    rows,
  }
  answer(call, json, () => sweepText(settings, trace, policies, rows, infinite))
  return 0
}

async function loadWhole(call: CommandCall, settings: ReplaySettings): Promise<TraceBatch> {
  const { tokenizer } = engineOptions(settings, readMachineFacts())
  const trace = await openTrace(settings, tokenizer, (model, error) => call.terminal.log(`kvtier: ${model}: ${error}`))
  const bar = new ProgressBar(call.terminal, new SystemClock(), 'read')
  const progress = { bytesTaken: 0 }
  const fileBytes = Math.max(1, statSync(settings.file, { throwIfNoEntry: false })?.size ?? 1)
  try {
    return await loadTrace(trace, progress, (batch) =>
      bar.update(progress.bytesTaken / fileBytes, batch.count, 'requests'),
    )
  } finally {
    bar.finish()
    trace.close()
  }
}

function sizesFor(distinct: number): number[] {
  const sizes = SWEEP_RATIOS.map((ratio) => Math.max(CHUNKS_MIN, Math.ceil(distinct * ratio)))
  return [...new Set(sizes)] // shares of a small trace may all be the smallest size
}

function sweepRow(trace: PrefixTrace, l1Chunks: number, policies: Record<string, number>): SweepRow {
  const exact = referenceLru(trace, l1Chunks).hitRatio
  return { l1_chunks: l1Chunks, policies, exact_lru: exact, belady: belady(trace, l1Chunks).hitRatio }
}

async function hitRatio(batch: TraceBatch, settings: ReplaySettings): Promise<number> {
  const clock = new ManualClock()
  const onError = (where: string, error: unknown): void => {
    throw new Error(`loop ${where} failed`, { cause: error })
  }
  const { runtime, space, close } = await openReplayEngine(settings, { clock, onError })
  try {
    const { engine } = runtime
    const counts = new ReplayCounts()
    const checker = new ChunkChecker(0, settings.blockBytes, counts)
    const path = new ClientPath({ engine, arena: null, chunkBytes: settings.blockBytes, counts, checker })
    const pace = new VirtualPace(clock, new SystemClock(), true, () => false)
    const server = new VirtualServer(settings, { engine, space, pace, path, counts })
    await server.run(batch)
    await server.finish()
    return counts.hitRatio
  } finally {
    await close()
  }
}

function sweepText(
  { file, format, blockTokens }: ReplaySettings,
  trace: PrefixTrace,
  policies: readonly Policy[],
  rows: readonly SweepRow[],
  infinite: number,
): string {
  const right = (title: string) => ({ title, align: 'right' as const })
  const columns = ['L1 blocks', 'share', ...policies, 'exact LRU', 'Belady', 'infinite'].map(right)
  const cells = rows.map((row) => [
    grouped(row.l1_chunks),
    percent(row.l1_chunks / trace.distinct),
    ...policies.map((policy) => percent(row.policies[policy]!)),
    percent(row.exact_lru),
    percent(row.belady),
    percent(infinite),
  ])
  const [requests, refs, distinct] = [trace.requests, trace.nodes.length, trace.distinct].map(grouped)
  return [
    `Hit ratio by size and policy of L1: ${file}`,
    `${requests} requests, ${refs} block references of ${blockTokens} tokens, ${distinct} distinct blocks.`,
    `Flat out, metadata only; keys are derived from ${format === 'mooncake' ? 'the hash ids of the trace' : 'hashes of tokens'}.`,
    '',
    textTable(columns, cells),
    '',
    'Policies ran on the real engine. Exact LRU, Belady (the best possible) and infinite are computed from the trace.',
  ].join('\n')
}

function grouped(value: number): string {
  return value.toLocaleString('en-US')
}
