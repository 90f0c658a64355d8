import type { MetricCells } from '../metrics/cells.ts'
import { belady } from './belady.ts'
import { prefixTraceOf } from './prefix-nodes.ts'
import { referenceLru } from './reference-lru.ts'
import type { ReplayCounts } from './replay-counts.ts'
import type { TraceBatch } from './trace-batch.ts'

/** How a replay was set up. */
export interface ReplaySetup {
  readonly file: string
  /** Whose tokenizer made tokens of the texts of the trace; null = it has no texts. */
  readonly model: string | null
  readonly tiers: readonly string[]
  readonly policy: string
  readonly isMetadataOnly: boolean
  readonly pace: string
  readonly blockTokens: number
  readonly blockBytes: number
  readonly l0Bytes: number
  readonly l1Bytes: number
  readonly l2Bytes: number
  readonly prefillTokensPerSecond: number
  /** Requests were stopped before the end of the trace. */
  readonly isCutShort: boolean
}

export interface ReplayTimes {
  /** Wall-clock seconds that the engine and the virtual server took; reading the file is apart. */
  readonly seconds: number
  readonly readSeconds: number
}

export interface TierReport {
  readonly hits: number
  readonly hit_ratio: number
  readonly capacity_bytes: number
  readonly evictions: number
}

/** What is known of the whole trace, with the room of all tiers together. */
export interface ReferenceReport {
  readonly blocks: number
  readonly exact_lru: number
  readonly belady: number
  readonly infinite: number
}

/** The result of a replay as `--json` prints it. */
export interface ReplayReport {
  readonly file: string
  /** Whose tokenizer made tokens of texts; absent where the trace has none, as are the sessions. */
  readonly model?: string
  readonly sessions?: { readonly count: number; readonly ended: number; readonly open_at_once_max: number }
  readonly requests: number
  readonly block_refs: number
  readonly block_hits: number
  readonly hit_ratio: number
  readonly seconds: number
  readonly refs_per_second: number
  readonly read_seconds: number
  readonly tiers: Readonly<Record<string, TierReport>>
  /** Absent unless asked for. */
  readonly reference?: ReferenceReport
  readonly policy: string
  readonly metadata_only: boolean
  readonly pace: string
  readonly block_tokens: number
  readonly block_bytes: number
  readonly bytes_moved: Readonly<
    Record<'l0_to_l1' | 'l1_to_l0' | 'l1_to_l2' | 'l2_to_l1' | 'client_to_l1' | 'l1_to_client', number>
  >
  readonly stored_blocks: number
  readonly unstored_blocks: number
  readonly expired_blocks: number
  readonly unfetched_blocks: number
  readonly verified_blocks: number
  readonly corrupt_blocks: number
  readonly prompt_tokens: number
  readonly saved_tokens: number
  readonly prefill_tokens_per_second: number
  readonly saved_prefill_seconds: number
  readonly trace_seconds: number
  readonly cut_short: boolean
  /** What is not real, in words. */
  readonly simulated: readonly string[]
}

/** Puts a finished replay in words and numbers. Evictions and bytes between tiers are the engine's own counters. */
export function replayReport(
  setup: ReplaySetup,
  counts: ReplayCounts,
  cells: MetricCells,
  times: ReplayTimes,
  reference: ReferenceReport | null,
): ReplayReport {
  return {
    file: setup.file,
    ...(setup.model === null ? {} : { model: setup.model, sessions: sessionReport(counts) }),
    requests: counts.requests,
    block_refs: counts.blockRefs,
    block_hits: counts.blockHits,
    hit_ratio: counts.hitRatio,
    seconds: times.seconds,
    refs_per_second: times.seconds > 0 ? counts.blockRefs / times.seconds : 0,
    read_seconds: times.readSeconds,
    tiers: tierReports(setup, counts, cells),
    ...(reference === null ? {} : { reference }),
    policy: setup.policy,
    metadata_only: setup.isMetadataOnly,
    pace: setup.pace,
    block_tokens: setup.blockTokens,
    block_bytes: setup.blockBytes,
    bytes_moved: {
      l0_to_l1: cells.copyTenants.sum('storeBytes'),
      l1_to_l0: cells.copyTenants.sum('loadBytes'),
      l1_to_l2: cells.l2Tenants.sum('storeBytes'),
      l2_to_l1: cells.l2Tenants.sum('loadBytes'),
      client_to_l1: counts.writtenBytes,
      l1_to_client: counts.fetchedBytes,
    },
    stored_blocks: counts.storedChunks,
    unstored_blocks: counts.unstoredChunks,
    expired_blocks: counts.expiredChunks,
    unfetched_blocks: counts.unfetchedChunks,
    verified_blocks: counts.verifiedChunks,
    corrupt_blocks: counts.corruptChunks,
    prompt_tokens: counts.promptTokens,
    saved_tokens: counts.savedTokens,
    prefill_tokens_per_second: setup.prefillTokensPerSecond,
    saved_prefill_seconds: counts.savedTokens / setup.prefillTokensPerSecond,
    trace_seconds: counts.traceSeconds,
    cut_short: setup.isCutShort,
    simulated: simulatedParts(setup),
  }
}

function sessionReport({ sessions, endedSessions, openSessionsMax }: ReplayCounts) {
  return { count: sessions, ended: endedSessions, open_at_once_max: openSessionsMax }
}

/** Reference models of a trace, for a cache of so many blocks. */
export function referenceReport(batch: TraceBatch, blocks: number): ReferenceReport {
  const trace = prefixTraceOf(batch)
  return {
    blocks,
    exact_lru: referenceLru(trace, blocks).hitRatio,
    belady: belady(trace, blocks).hitRatio,
    infinite: belady(trace, Number.POSITIVE_INFINITY).hitRatio,
  }
}

function tierReports(setup: ReplaySetup, counts: ReplayCounts, cells: MetricCells): Record<string, TierReport> {
  const ratio = (hits: number): number => (counts.blockRefs === 0 ? 0 : hits / counts.blockRefs)
  const all: Record<string, TierReport> = {
    l0: {
      hits: counts.hitL0,
      hit_ratio: ratio(counts.hitL0),
      capacity_bytes: setup.l0Bytes,
      evictions: cells.l0Tenants.sum('evictedBlocks'),
    },
    l1: {
      hits: counts.hitL1,
      hit_ratio: ratio(counts.hitL1),
      capacity_bytes: setup.l1Bytes,
      evictions: cells.l1Tenants.sum('evictedShards'),
    },
    l2: {
      hits: counts.hitL2,
      hit_ratio: ratio(counts.hitL2),
      capacity_bytes: setup.l2Bytes,
      evictions: cells.l2.sum('evictedObjects'),
    },
  }
  return Object.fromEntries(setup.tiers.map((tier) => [tier, all[tier]!]))
}

function simulatedParts({ isMetadataOnly, tiers, prefillTokensPerSecond, model }: ReplaySetup): string[] {
  const parts = [`the inference server: it computes nothing and prefills ${prefillTokensPerSecond} tokens a second`]
  if (tiers.includes('l0')) parts.push('the GPU: L0 is a simulated device')
  if (isMetadataOnly) parts.push('the bytes: none are kept or moved; those between L0 and L1 are what would have moved')
  else parts.push('the content of chunks: a pattern made from their hash')
  if (model === null) parts.push('the keys: derived from the hash ids of the trace, not from tokens')
  return parts
}

/** Rows of the table that ends a replay: what, value. */
export function reportRows(report: ReplayReport): string[][] {
  const prefillSeconds = report.prompt_tokens / report.prefill_tokens_per_second
  const rows = [
    ['requests', count(report.requests)],
    ...sessionRows(report),
    ['block references', `${count(report.block_refs)} of ${report.block_tokens} tokens`],
    ['hit ratio', `${percent(report.hit_ratio)} (${count(report.block_hits)} blocks)`],
  ]
  for (const [tier, { hits, hit_ratio, capacity_bytes, evictions }] of Object.entries(report.tiers)) {
    const size = report.metadata_only ? `${count(capacity_bytes / report.block_bytes)} blocks` : bytes(capacity_bytes)
    rows.push([`  ${tier}`, `${percent(hit_ratio)} (${count(hits)} blocks); ${size}; ${count(evictions)} evictions`])
  }
  rows.push(...referenceRows(report))
  for (const [path, moved] of Object.entries(report.bytes_moved)) {
    if (moved > 0) rows.push([`bytes ${path.replaceAll('_', ' ')}`, bytes(moved)])
  }
  rows.push(['blocks stored', `${count(report.stored_blocks)}; ${count(report.unstored_blocks)} not`])
  if (report.verified_blocks > 0) {
    rows.push(['blocks verified', `${count(report.verified_blocks)}; ${count(report.corrupt_blocks)} wrong`])
  }
  if (report.expired_blocks > 0) rows.push(['blocks lost', `${count(report.expired_blocks)}, their lease had expired`])
  if (report.unfetched_blocks > 0) rows.push(['blocks not fetched', `${count(report.unfetched_blocks)}, no room in L0`])
  rows.push(
    ['prefill time saved', `${seconds(report.saved_prefill_seconds)} of ${seconds(prefillSeconds)}`],
    ['time of the trace', seconds(report.trace_seconds)],
    ['seconds', `${report.seconds.toFixed(2)}, and ${report.read_seconds.toFixed(2)} to read the trace`],
    ['references a second', count(Math.round(report.refs_per_second))],
  )
  return rows
}

function sessionRows({ sessions, model }: ReplayReport): string[][] {
  if (sessions === undefined) return []
  const { count: begun, ended, open_at_once_max: open } = sessions
  return [
    ['sessions', `${count(begun)}, ${count(ended)} of them ended; ${count(open)} at most at a time`],
    ['tokens of', model ?? ''],
  ]
}

function referenceRows({ reference }: ReplayReport): string[][] {
  if (reference === undefined) return []
  const { blocks, exact_lru, belady: best, infinite } = reference
  return [
    ['with the same room', `${count(blocks)} blocks`],
    ['  exact LRU', percent(exact_lru)],
    ['  Belady', `${percent(best)}, the best possible`],
    ['  without limit', percent(infinite)],
  ]
}

function seconds(value: number): string {
  return `${count(Math.round(value))} s`
}

/** `0.1958` as `19.58 %`. */
export function percent(ratio: number): string {
  return `${(ratio * 100).toFixed(2)} %`
}

function count(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 })
}

function bytes(value: number): string {
  for (const [unit, size] of [
    ['TB', 1e12],
    ['GB', 1e9],
    ['MB', 1e6],
    ['kB', 1e3],
  ] as const) {
    if (value >= size) return `${(value / size).toFixed(2)} ${unit}`
  }
  return `${value} B`
}
