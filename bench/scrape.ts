import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { letHeapsGrow } from '../src/app/heap-growth.ts'
import { ReplayMetrics } from '../src/app/replay-metrics.ts'
import { goBeforeOtherThreads } from '../src/app/thread-priority.ts'
import { SystemClock } from '../src/core/clock.ts'
import { HASH_WORDS, HashChain } from '../src/core/hash-chain.ts'
import type { SpaceId } from '../src/core/ids.ts'
import type { Engine } from '../src/engine/engine.ts'
import { SlotList } from '../src/l1/slot-list.ts'
import { Exposition } from '../src/metrics/exposition.ts'
import { ProcessMetrics } from '../src/metrics/process-metrics.ts'
import { composeBenchEngine } from './support/bench-engine.ts'
import { threadCpuNs } from './support/cpu-clock.ts'
import { countLines, fullMetrics } from './support/full-metrics.ts'
import { median } from './support/pairs.ts'
import { Samples } from './support/samples.ts'

/**
 * A scrape of 100,000 sample lines: CPU time of the rendering, and what lookups notice of scrapes.
 *
 * `npm run bench -- scrape [--full] [--json]`. Threads as in service: this one is the data thread, another one drains the
 * events and serves `/metrics` over HTTP, a third one scrapes it again and again. A lookup of 64 resident chunks is due
 * every quarter of a millisecond, and counts from when it was due. Seconds with and without scrapes take turns; with
 * scrapes only those lookups count that end while an answer is awaited. `--full` has 100,000 samples behind each p99.
 * The data thread takes no part in a scrape; its CPU time a scrape, without lookups, shows that.
 */
const LINES = 100_000
const RENDERS = 21
const PROMPT_CHUNKS = 64
const PROMPTS = 64
const SHARD_BYTES = 4_096
const LOOKUP_EVERY_MS = 0.25
const TURN_MS = 1_000
const REST_MS = 20
const SAMPLES = { short: 10_000, full: 100_000 }
const IDLE_MS = 2_000
const LIMITS = { renderCpuMs: 25, sliceMs: 1, factor: 2, extraMs: 2 }

const cpuMs = (sinceNs: number) => (threadCpuNs() - sinceNs) / 1e6
const round = (ms: number, digits = 2) => Number(ms.toFixed(digits))

/** CPU time of whole renderings, and of the longest slice of each, on this thread. */
async function rendering() {
  const { reader } = fullMetrics(LINES)
  const lines = countLines(reader)
  let sliceNs = threadCpuNs()
  let longestMs = 0
  const endSlice = async () => {
    longestMs = Math.max(longestMs, cpuMs(sliceNs))
    await new Promise((resolve) => setImmediate(resolve))
    sliceNs = threadCpuNs()
  }
  const exposition = new Exposition(reader, new ProcessMetrics(), endSlice)
  const renders: { cpu: number; longest: number }[] = []
  for (let at = 0; at < RENDERS + 5; at += 1) {
    longestMs = 0
    const startNs = threadCpuNs()
    sliceNs = startNs
    const rendering = await exposition.render('text')
    const cpu = cpuMs(startNs)
    await endSlice()
    if (rendering.pieces.length === 0) throw new Error('nothing was rendered')
    rendering.release() // as the server does, once it was sent
    if (at >= 5) renders.push({ cpu, longest: longestMs })
  }
  return {
    lines,
    cpu_ms: round(median(renders.map(({ cpu }) => cpu))),
    cpu_ms_worst: round(Math.max(...renders.map(({ cpu }) => cpu))),
    longest_slice_cpu_ms: round(median(renders.map(({ longest }) => longest))),
    longest_slice_cpu_ms_worst: round(Math.max(...renders.map(({ longest }) => longest))),
  }
}

/** Lookups of resident prompts, each due at a time of its own. */
class Lookups {
  readonly #engine: Engine
  readonly #space: SpaceId
  readonly #chains: HashChain[] = []
  #serial = 0
  #dueMs = 0

  constructor(engine: Engine) {
    this.#engine = engine
    this.#space = engine.openSpace({ model: 'm', salt: '', ranks: 1, shardBytes: SHARD_BYTES, layout: '' })
    for (let prompt = 0; prompt < PROMPTS; prompt += 1) this.#chains.push(this.#store(prompt))
  }

  /** Runs them for a while. @param isCounted asked after each. */
  async run(ms: number, into: Samples, isCounted: () => boolean): Promise<void> {
    const endMs = performance.now() + ms
    this.#dueMs = performance.now()
    while (performance.now() < endMs) {
      for (; this.#dueMs <= performance.now(); this.#dueMs += LOOKUP_EVERY_MS) {
        this.#lookup()
        if (isCounted()) into.push(performance.now() - this.#dueMs)
      }
      await sleep(1)
    }
  }

  #lookup(): void {
    const engine = this.#engine
    const chain = this.#chains[this.#serial++ % PROMPTS]!
    const lookup = engine.lookup(this.#space, chain, engine.sessions.nextOwner())
    if (lookup.hitChunks !== PROMPT_CHUNKS) throw new Error('a prompt is gone')
    engine.release(lookup)
  }

  #store(prompt: number): HashChain {
    const chain = new HashChain(PROMPT_CHUNKS)
    for (let at = 0; at < PROMPT_CHUNKS * HASH_WORDS; at += 1)
      chain.words[at] = Math.imul(prompt * 65_536 + at + 1, 0x9e3779b1)
    chain.count = PROMPT_CHUNKS
    const slots = new SlotList()
    const lease = this.#engine.reserve(this.#space, 0, chain, 0, PROMPT_CHUNKS, 1, slots)
    this.#engine.commit(this.#space, 0, lease)
    return chain
  }
}

/** The scraper, and what it says of itself. */
class Scraper {
  readonly #flags = new Int32Array(new SharedArrayBuffer(16))
  readonly #worker: Worker

  constructor(port: number) {
    const workerData = { port, shared: this.#flags.buffer, restMs: REST_MS, gzip: false }
    this.#worker = new Worker(new URL('./support/scrape-loop.ts', import.meta.url), { workerData })
  }

  readonly isAnswerAwaited = (): boolean => Atomics.load(this.#flags, 1) === 1

  get scrapes(): number {
    return Atomics.load(this.#flags, 2)
  }

  get bytes(): number {
    return this.#flags[3]!
  }

  async ready(): Promise<void> {
    await once(this.#worker, 'message')
  }

  start(): void {
    Atomics.store(this.#flags, 0, 1)
    Atomics.notify(this.#flags, 0)
  }

  /** The scrape under way ends. */
  async pause(): Promise<void> {
    Atomics.store(this.#flags, 0, 0)
    while (this.isAnswerAwaited()) await sleep(5)
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}

/** CPU time of this thread a scrape, without lookups, beyond what it takes to wait. */
async function dataThreadCost(scraper: Scraper) {
  const idleNs = threadCpuNs()
  await sleep(IDLE_MS)
  const idle = cpuMs(idleNs)
  const before = scraper.scrapes
  scraper.start()
  const busyNs = threadCpuNs()
  await sleep(IDLE_MS)
  const busy = cpuMs(busyNs)
  await scraper.pause()
  return { scrapes: scraper.scrapes - before, cpu_ms_a_scrape: round((busy - idle) / (scraper.scrapes - before), 3) }
}

async function underScrapes(samplesWanted: number) {
  const { cells } = fullMetrics(LINES, true)
  const onError = (where: string, error: unknown): never => {
    throw new Error(where, { cause: error })
  }
  const arenaBytes = SHARD_BYTES * PROMPT_CHUNKS * PROMPTS * 2
  const runtime = composeBenchEngine({
    clock: new SystemClock(),
    cells,
    memory: null,
    arenaBytes,
    chunkTokens: 256,
    hashInlineChunks: PROMPT_CHUNKS,
  })
  runtime.start()
  const service = new ReplayMetrics(cells, null, onError)
  const address = await service.serve(0)
  const scraper = new Scraper(Number(address.slice(address.lastIndexOf(':') + 1)))
  await scraper.ready()
  const lookups = new Lookups(runtime.engine)
  await lookups.run(TURN_MS, new Samples(), () => false)
  const dataThread = await dataThreadCost(scraper)
  const [without, during] = [new Samples(), new Samples()]
  while (without.count < samplesWanted || during.count < samplesWanted) {
    await lookups.run(TURN_MS, without, () => true)
    scraper.start()
    await lookups.run(TURN_MS, during, scraper.isAnswerAwaited)
    await scraper.pause()
  }
  const row = (samples: Samples) => ({
    samples: samples.count,
    p50_ms: round(samples.at(0.5)),
    p99_ms: round(samples.at(0.99)),
    worst_ms: round(samples.at(1)),
  })
  const result = {
    bytes: scraper.bytes,
    scrapes: scraper.scrapes,
    dataThread,
    lookups: { without: row(without), during: row(during) },
    events_dropped: cells.bus.dropped(),
  }
  await scraper.close()
  await service.close()
  runtime.stop()
  return result
}

async function main(argv: readonly string[]): Promise<void> {
  letHeapsGrow() // as `serve` does
  const render = await rendering()
  goBeforeOtherThreads()
  const service = await underScrapes(argv.includes('--full') ? SAMPLES.full : SAMPLES.short)
  const { without, during } = service.lookups
  const holds = {
    rendering: render.cpu_ms < LIMITS.renderCpuMs,
    data_thread: service.dataThread.cpu_ms_a_scrape <= LIMITS.sliceMs,
    lookups: during.p99_ms <= Math.max(LIMITS.factor * without.p99_ms, without.p99_ms + LIMITS.extraMs),
  }
  if (argv.includes('--json')) console.log(JSON.stringify({ render, ...service, holds }))
  else {
    console.table([render])
    console.table(service.lookups)
    console.log({ ...service.dataThread, bytes: service.bytes, events_dropped: service.events_dropped, holds })
  }
}

await main(process.argv.slice(3))
