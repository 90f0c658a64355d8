import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { engineOptions, readReplaySettings } from '../src/cli/replay-settings.ts'
import { loadTrace, openTrace } from '../src/cli/replay-trace.ts'
import { readMachineFacts } from '../src/config/machine-facts.ts'
import { L1_POLICIES, type L1PolicyName } from '../src/l1/options.ts'
import { belady } from '../src/replay/belady.ts'
import { loadMooncakeTrace } from '../src/replay/mooncake-trace.ts'
import { prefixTraceOf } from '../src/replay/prefix-nodes.ts'
import { referenceLru } from '../src/replay/reference-lru.ts'
import type { TraceBatch } from '../src/replay/trace-batch.ts'
import { AGENT_TRACE, CONVERSATION_TRACE } from '../test/support/public-trace.ts'
import { chats, deepChain, loops, phases, popular, scans, sessions, tenants } from '../test/support/trace-shapes.ts'
import { branches, evaluations, retrieval, tides } from '../test/support/trace-strangers.ts'
import { median } from './support/pairs.ts'
import { runPolicy } from './support/policy-run.ts'

/**
 * Hit ratio of every eviction policy and watermark setting, beside exact LRU and Belady, and time per reference.
 *
 * `npm run bench -- policies [TRACE.jsonl ...] [--watermarks] [--seed N] [--only NAME,...] [--json]`. Traces are
 * Mooncake's conversations and mini-SWE-agent's texts where they lie beside the checkout, synthetic shapes of
 * `test/support/trace-shapes.ts` and `trace-strangers.ts`, and files in Mooncake's format that are named. Sizes are shares of the
 * distinct blocks of a trace. Each run goes through a real L1 and its eviction loop, without bytes.
 * `--watermarks` runs every setting; without it, the one that `serve` has.
 *
 * A gain is what a policy has over exact LRU, as a share of the gap between that and Belady, which knows the future.
 */
const SHARES = [0.01, 0.02, 0.05, 0.1, 0.2] as const
const CHUNKS_MIN = 16
/** Where Belady hits hardly more than LRU, there is nothing to gain. */
const GAP_MIN = 0.005
const WATERMARKS = [
  { name: '99.8/99.6', highRatio: 0.998, lowRatio: 0.996 },
  { name: '100/100', highRatio: 1, lowRatio: 1 },
  { name: '98/97', highRatio: 0.98, lowRatio: 0.97 },
  { name: '80/60', highRatio: 0.8, lowRatio: 0.6 },
] as const

/** Shapes that the adaptive policy was made with, and those that were kept from it until it was done. */
const SHAPES: readonly { name: string; isHeldOut: boolean; make: (seed: number) => TraceBatch }[] = [
  { name: 'chats', isHeldOut: false, make: (seed) => chats(seed, 6_000) },
  { name: 'scans', isHeldOut: false, make: (seed) => scans(seed, 6_000) },
  { name: 'popular', isHeldOut: false, make: (seed) => popular(seed, 8_000) },
  { name: 'loops', isHeldOut: false, make: (seed) => loops(seed, 6_000) },
  { name: 'tenants', isHeldOut: true, make: (seed) => tenants(seed, 6_000) },
  { name: 'deep chain', isHeldOut: true, make: (seed) => deepChain(seed, 150) },
  { name: 'phases', isHeldOut: true, make: (seed) => phases(seed, 8_000) },
  { name: 'sessions', isHeldOut: true, make: (seed) => sessions(seed, 6_000) },
  { name: 'retrieval', isHeldOut: true, make: (seed) => retrieval(seed, 6_000) },
  { name: 'evaluations', isHeldOut: true, make: (seed) => evaluations(seed, 6_000) },
  { name: 'branches', isHeldOut: true, make: (seed) => branches(seed, 6_000) },
  { name: 'tides', isHeldOut: true, make: (seed) => tides(seed, 6_000) },
]

interface Trace {
  readonly name: string
  readonly isHeldOut: boolean
  readonly batch: TraceBatch
}

type ByPolicy = Readonly<Record<L1PolicyName, number>>

interface Row {
  readonly trace: string
  readonly held_out: boolean
  readonly share: number
  readonly chunks: number
  readonly watermarks: string
  readonly exact_lru: number
  readonly belady: number
  readonly hit_ratio: ByPolicy
  readonly gain: ByPolicy
  readonly ns_per_ref: ByPolicy
}

function option(name: string): string | undefined {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? undefined : process.argv[at + 1]
}

async function readTraces(): Promise<Trace[]> {
  const seed = Number(option('seed') ?? 1)
  const values = new Set(['seed', 'only'].map((name) => option(name)))
  const files = process.argv.slice(3).filter((word) => !word.startsWith('--') && !values.has(word))
  const named = existsSync(CONVERSATION_TRACE) ? [CONVERSATION_TRACE, ...files] : files
  const only = option('only')?.split(',')
  const traces: Trace[] = []
  for (const file of named) {
    const batch = await loadMooncakeTrace(file, { partialBlocks: 'count' })
    traces.push({ name: basename(file).replace(/\.jsonl.*/, ''), isHeldOut: file !== CONVERSATION_TRACE, batch })
  }
  if (existsSync(AGENT_TRACE)) traces.push({ name: 'agents', isHeldOut: true, batch: await readAgents() })
  for (const { name, isHeldOut, make } of SHAPES) traces.push({ name, isHeldOut, batch: make(seed) })
  return only === undefined ? traces : traces.filter(({ name }) => only.includes(name))
}

/** The texts of agents, tokenized, in chunks of 256 tokens. */
async function readAgents(): Promise<TraceBatch> {
  const options = { format: 'agent-text', 'flat-out': true, 'metadata-only': true }
  const settings = readReplaySettings({ positionals: [AGENT_TRACE], options } as never)
  const { tokenizer } = engineOptions(settings, readMachineFacts())
  const trace = await openTrace(settings, tokenizer, (model, error) => {
    throw new Error(model, { cause: error })
  })
  try {
    return await loadTrace(trace, { bytesTaken: 0 }, () => {})
  } finally {
    trace.close()
  }
}

function measure({ name, isHeldOut, batch }: Trace, watermarks: (typeof WATERMARKS)[number][]): Row[] {
  const trace = prefixTraceOf(batch)
  return SHARES.flatMap((share) => {
    const chunks = Math.max(CHUNKS_MIN, Math.ceil(trace.distinct * share))
    const exact = referenceLru(trace, chunks)
    const best = belady(trace, chunks).hitRatio
    return watermarks.map(({ name: marks, highRatio, lowRatio }) => {
      const results = L1_POLICIES.map((policy) => runPolicy(batch, { chunks, policy, highRatio, lowRatio }))
      if (results.some(({ hitRatio }) => hitRatio > best + 1e-9)) throw new Error('better than Belady cannot be')
      const by = (value: (result: (typeof results)[number]) => number) =>
        Object.fromEntries(
          L1_POLICIES.map((policy, at) => [policy, Number(value(results[at]!).toFixed(4))]),
        ) as ByPolicy
      return {
        trace: name,
        held_out: isHeldOut,
        share,
        chunks,
        watermarks: marks,
        exact_lru: Number(exact.hitRatio.toFixed(4)),
        belady: Number(best.toFixed(4)),
        hit_ratio: by(({ hitRatio }) => hitRatio),
        gain: by(({ hitRatio }) =>
          best - exact.hitRatio < GAP_MIN ? 0 : (hitRatio - exact.hitRatio) / (best - exact.hitRatio),
        ),
        ns_per_ref: by(({ nsPerRef }) => nsPerRef),
      }
    })
  })
}

function print(rows: readonly Row[]): void {
  const title = ['share', 'marks', 'LRU', 'Belady', ...L1_POLICIES, 'its gain']
    .map((word) => word.padStart(10))
    .join('')
  let trace = ''
  for (const row of rows) {
    if (row.trace !== trace) console.log(`\n${row.trace}${row.held_out ? ' (held out)' : ''}\n${title}`)
    trace = row.trace
    const percents = [row.exact_lru, row.belady, ...L1_POLICIES.map((policy) => row.hit_ratio[policy])]
    const gap = row.gain.adaptive
    const cells = [`${row.share * 100} %`, row.watermarks, ...percents.map((value) => (value * 100).toFixed(2))]
    console.log([...cells, `${(gap * 100).toFixed(0)} %`].map((cell) => cell.padStart(10)).join(''))
  }
}

function summaryOf(rows: readonly Row[]) {
  if (rows.length === 0) return null
  return Object.fromEntries(
    L1_POLICIES.map((policy) => {
      const small = rows.filter(({ share, belady: best, exact_lru: lru }) => share <= 0.05 && best - lru >= GAP_MIN)
      const worst = rows.reduce((low, row) => Math.min(low, row.hit_ratio[policy] - row.hit_ratio.lru!), 1)
      const speed = rows.map(({ ns_per_ref: ns }) => ns[policy] / ns.lru!)
      const summary = {
        median_gain_at_1_to_5_percent: Number(median(small.map(({ gain }) => gain[policy])).toFixed(3)),
        worst_points_against_lru: Number((worst * 100).toFixed(2)),
        median_ns_per_ref: Math.round(median(rows.map(({ ns_per_ref: ns }) => ns[policy]))),
        time_over_lru: Number(median(speed).toFixed(2)),
      }
      return [policy, summary]
    }),
  )
}

const marks = process.argv.includes('--watermarks') ? [...WATERMARKS] : [WATERMARKS[0]]
const traces = await readTraces()
runPolicy(traces[0]!.batch, { chunks: 1000, policy: 'lru', highRatio: 1, lowRatio: 1 }) // compiles the code
const rows = traces.flatMap((trace) => measure(trace, marks))
const summary = { all: summaryOf(rows), held_out: summaryOf(rows.filter((row) => row.held_out)) }
if (process.argv.includes('--json')) console.log(JSON.stringify({ rows, summary }))
else {
  print(rows)
  console.log(`\n${JSON.stringify(summary, null, 2)}`)
}
