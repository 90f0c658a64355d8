import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Pool } from 'undici'
import { bundledModels } from '../../src/tokenizer/bundled-models.ts'
import { NativeEncoder } from '../../src/tokenizer/native-encoder.ts'
import { EngineHome } from '../../test/support/engine-process.ts'
import { proseText } from '../../test/support/hostile-texts.ts'
import { type Figure, printReport, ratioFigure } from '../support/figures.ts'
import { runPairs } from '../support/pairs.ts'
import { processTreeCpu, type TreeCpu } from '../support/process-tree-cpu.ts'

/**
 * POST /tokenize of an engine process beside the same tokenizer in this process, on the same prompts.
 *
 * No prompt comes twice within a run, and nothing is cached. The reference encodes one prompt after the other and asks
 * for ids and token strings; the clients of the engine are this process, with 8 requests under way, and do not parse the
 * answers. Ratio: the time of the reference through that of the engine, so the share of its rate. CPU time beside it: of
 * the engine's process and of its tokenizer process for one request, and of the library for the same text; it says what
 * a request costs where the machine has other load. Then: lookups over the MP wire, from a third process, with and
 * without that load. `--json`: one line.
 */
const SIZES = [
  { name: '1 kB', length: 1_000, count: 400, pairs: 15, must: 0.7 },
  { name: '100 kB', length: 100_000, count: 8, pairs: 7, must: 0.8 },
]
const LOOKUP_MS = 5_000
const CONNECTIONS = 8
const WARMUPS = 2
const prepared = new Map<string, string[]>()
/** Tokens of each prompt. */
const counts = new Map<string, number>()

const home = new EngineHome()
const engine = await home.start()
const [files] = await bundledModels()
const { model } = files!
const reference = NativeEncoder.open(files!)
const pool = new Pool(`http://${engine.addresses.http}`, { connections: CONNECTIONS })
let seed = 0

const figures: Figure[] = []
const rows: object[] = []

try {
  for (const size of SIZES) await compare(size)
  await compareLookups()
} finally {
  await pool.close()
  await home.remove()
}
printReport({ figures, rows })

async function compare({ name, length, count, pairs, must }: (typeof SIZES)[number]): Promise<void> {
  // Both sides of a pair get the same texts.
  for (let round = 0; round < pairs + WARMUPS; round += 1) promptsOf(round, length, count)
  const taken: Record<'reference' | 'engine', number> = { reference: 0, engine: 0 }
  const textsOf = (side: 'reference' | 'engine') => promptsOf(taken[side]++, length, count)
  const spent: TreeCpu = { ownMs: 0, childrenMs: 0 }
  const postAndMeasure = async (texts: readonly string[]) => {
    const before = processTreeCpu(engine.addresses.pid)
    const tokens = await postAll(texts)
    const after = processTreeCpu(engine.addresses.pid)
    spent.ownMs += after.ownMs - before.ownMs
    spent.childrenMs += after.childrenMs - before.childrenMs
    return tokens
  }
  const result = await runPairs(
    { name: 'in process', run: () => encodeAll(textsOf('reference')) },
    { name: 'POST /tokenize', run: () => postAndMeasure(textsOf('engine')) },
    { pairs, warmups: WARMUPS },
  )
  const perRequestUs = (ms: number) => Math.round((ms / taken.engine / count) * 1e3)
  const tokens = tokensIn(promptsOf(0, length, count)) / count
  const us = (nsPerToken: number) => Math.round((nsPerToken * tokens) / 1e3)
  rows.push({
    what: name,
    'in process us': us(result.a.medianNs),
    'POST us': us(result.b.medianNs),
    'CPU us: in process': us(result.a.cpuMedianNs),
    client: us(result.b.cpuMedianNs),
    engine: perRequestUs(spent.ownMs),
    tokenizer: perRequestUs(spent.childrenMs),
  })
  figures.push(ratioFigure(`POST /tokenize of ${name}, share of the rate in process`, result.ratio, 'higher', must))
}

async function compareLookups(): Promise<void> {
  const quiet = await lookupLatency()
  const loaded = await underLoad(lookupLatency)
  const limit = Math.max(2 * quiet.p99, quiet.p99 + 2)
  rows.push({ what: 'lookups alone, ms', ...quiet }, { what: 'lookups beside requests of 1 kB, ms', ...loaded })
  figures.push(ratioFigure('lookup p99 beside requests, of its limit of 2x or + 2 ms', loaded.p99 / limit, 'lower', 1))
}

function tokensIn(texts: readonly string[]): number {
  let tokens = 0
  for (const text of texts) tokens += counts.get(text) ?? 0
  return tokens
}

/** The prompts of a round; made before anything is timed. */
function promptsOf(round: number, length: number, count: number): string[] {
  const key = `${length} ${round}`
  let texts = prepared.get(key)
  if (texts === undefined) {
    texts = Array.from({ length: count }, () => proseText(++seed, length))
    prepared.set(key, texts)
  }
  return texts
}

async function encodeAll(texts: readonly string[]): Promise<number> {
  let tokens = 0
  for (const text of texts) {
    const encoded = await reference.encode(text, true)
    tokens += encoded.ids.length + encoded.strings().length
    counts.set(text, encoded.ids.length)
  }
  return tokens / 2
}

async function postAll(texts: readonly string[]): Promise<number> {
  let tokens = 0
  let next = 0
  const client = async () => {
    while (next < texts.length) {
      const count = await post(texts[next++]!)
      tokens += count // not `+= await`: the sum is shared
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, client))
  return tokens
}

/** @returns the count of tokens; the answer is read whole and not parsed: that is the client's work. */
async function post(text: string): Promise<number> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/tokenize',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: text }),
  })
  const answer = await body.text()
  if (statusCode !== 200) throw new Error(answer)
  return Number(/^\{"count":(\d+)/.exec(answer)![1])
}

async function lookupLatency(): Promise<{ p50: number; p99: number; count: number }> {
  const script = join(import.meta.dirname, '../support/lookup-latency.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [script, engine.addresses.mp!, String(LOOKUP_MS)])
  return JSON.parse(stdout)
}

async function underLoad<T>(measure: () => Promise<T>): Promise<T> {
  let isOver = false
  const texts = Array.from({ length: 1_000 }, () => proseText(++seed, 1_000))
  const load = async () => {
    while (!isOver) await postAll(texts)
  }
  const loading = load()
  const result = await measure()
  isOver = true
  await loading
  return result
}
