import { randomInt } from 'node:crypto'
import { composeEngine, type EngineRuntime } from '../src/app/compose.ts'
import { IoPool } from '../src/app/io-pool.ts'
import { loadConfig } from '../src/config/load-config.ts'
import { readMachineFacts } from '../src/config/machine-facts.ts'
import { SystemClock } from '../src/core/clock.ts'
import { HASH_BYTES, HashChain } from '../src/core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../src/core/ids.ts'
import { SlotList } from '../src/l1/slot-list.ts'
import { FAULT_DEFAULT, type FaultAdapterOptions } from '../src/l2/adapters/fault/options.ts'
import { ADAPTER_LIMITS_DEFAULT, MEMORY_DEFAULT } from '../src/l2/options.ts'
import { MetricCells } from '../src/metrics/cells.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { Samples } from './support/samples.ts'

/**
 * What lookups and L1 notice of an adapter that is down: p50, p99 and the worst, beside the undisturbed run.
 *
 * One lookup a millisecond, 2 % of them for prompts that L1 does not have, and a store every 50 ms, over an engine with
 * the defaults of `serve` and one fault injector on an io worker. Every outage begins with a fresh adapter whose
 * circuit is closed, so its first deadlines are part of the figures. Words: --seconds N of each run, --json.
 */
const MIB = 1024 * 1024
const SHARD_BYTES = 256 * 1024
const CHUNKS = 4
const HOT_PROMPTS = 40
const COLD_EVERY = 50
const STORE_EVERY_MS = 50
/** What a run may be worse than the undisturbed one. */
const FACTOR_MAX = 2
const EXTRA_MS = 2

interface Outage extends Partial<FaultAdapterOptions> {
  /** Of lookups; 0 = the default. */
  readonly deadlineMs?: number
}

const OUTAGES: Record<string, Outage> = {
  undisturbed: { latencyMs: 1 },
  refuses: { errorRate: 1 },
  hangs: { hangRate: 1 },
  'takes 1 s': { latencyMs: 1_000 },
  'takes 1 s, lookup-deadline=100ms': { latencyMs: 1_000, deadlineMs: 100 },
  'is corrupt': { latencyMs: 1, corruptRate: 1 },
}

interface Run {
  readonly hits: Samples
  readonly all: Samples
  readonly delay: LoopDelay
}

class Bench {
  readonly #runtime: EngineRuntime
  readonly #memory: Uint8Array
  readonly #space: SpaceId
  readonly #hot = Array.from({ length: HOT_PROMPTS }, () => freshChain())
  #cold: HashChain[] = []

  constructor(runtime: EngineRuntime, memory: Uint8Array) {
    this.#runtime = runtime
    this.#memory = memory
    const spec = { model: 'bench', salt: '', ranks: 1, shardBytes: SHARD_BYTES, layout: 'bench' }
    this.#space = runtime.engine.openSpace(spec)
    for (const chain of this.#hot) this.#store(chain)
  }

  async run(seconds: number): Promise<Run> {
    const run = { hits: new Samples(), all: new Samples(), delay: new LoopDelay() }
    const endMs = performance.now() + seconds * 1000
    let pending = 0
    let number = 0
    let storeAtMs = performance.now()
    run.delay.start()
    for (let dueMs = performance.now(); dueMs < endMs; dueMs += 1) {
      while (performance.now() < dueMs) await new Promise((resolve) => setTimeout(resolve, 1))
      number += 1
      const isCold = number % COLD_EVERY === 0
      pending += 1
      this.#look(isCold ? this.#coldChain() : this.#hot[number % HOT_PROMPTS]!, (ms) => {
        pending -= 1
        run.all.push(ms)
        if (!isCold) run.hits.push(ms)
      })
      if (performance.now() < storeAtMs) continue
      storeAtMs += STORE_EVERY_MS
      const chain = freshChain()
      this.#store(chain)
      this.#cold.push(chain)
    }
    run.delay.stop()
    while (pending > 0) await new Promise((resolve) => setTimeout(resolve, 10))
    return run
  }

  /** Something that was stored a while ago and has left L1 by now. */
  #coldChain(): HashChain {
    return (this.#cold.length > 200 ? this.#cold.shift() : undefined) ?? freshChain()
  }

  #look(chain: HashChain, done: (ms: number) => void): void {
    const { engine } = this.#runtime
    const startMs = performance.now()
    engine.lookup(this.#space, chain, engine.sessions.nextOwner(), (lookup) => {
      done(performance.now() - startMs)
      engine.release(lookup)
    })
  }

  #store(chain: HashChain): void {
    const { engine } = this.#runtime
    const slots = new SlotList()
    const lease = engine.reserve(this.#space, 0, chain, 0, chain.count, engine.sessions.nextOwner(), slots)
    if (lease === NO_LEASE) return
    for (let row = 0; row < slots.count; row += 1) this.#memory.fill(row, slots.offset[row]!, slots.offset[row]! + 64)
    engine.commit(this.#space, 0, lease)
  }
}

let chains = 0

function freshChain(): HashChain {
  const bytes = Buffer.alloc(CHUNKS * HASH_BYTES)
  for (let chunk = 0; chunk < CHUNKS; chunk += 1) {
    chains += 1
    bytes.writeUInt32LE(Math.imul(chains, 0x9e3779b1) >>> 0, chunk * HASH_BYTES)
    bytes.writeUInt32LE(chains, chunk * HASH_BYTES + 4)
  }
  return HashChain.of(bytes)
}

async function main(): Promise<void> {
  const at = process.argv.indexOf('--seconds')
  const seconds = at < 0 ? 7 : Number(process.argv[at + 1])
  const argv = ['--l1-size', '192MiB', '--l2', 'none']
  const { options } = loadConfig({ argv, env: {}, machine: readMachineFacts(), readFile: () => '' })
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: 192 * MIB })
  segment.unlink()
  const pool = await IoPool.start(1, segment, (reason) => console.error(reason))
  const runtime = composeEngine(options, {
    clock: new SystemClock(),
    cells: MetricCells.create({ maxTenants: 8, busCapacityEvents: 2 ** 16 }),
    memory: segment.memory,
    device: null,
    random: (limit) => randomInt(limit),
    onError: () => undefined,
  })
  runtime.start()
  const bench = new Bench(runtime, segment.memory)
  const rows = []
  let calm: { hits: number; all: number } | undefined
  for (const [at, [title, { deadlineMs, ...faults }]] of Object.entries(OUTAGES).entries()) {
    const name = `outage-${at}`
    const lookupDeadlineMs = deadlineMs ?? ADAPTER_LIMITS_DEFAULT.lookupDeadlineMs
    const inner = { ...MEMORY_DEFAULT, capacityBytes: 512 * MIB }
    const adapter = pool.adapter({ ...FAULT_DEFAULT, inner, ...faults })
    await runtime.engine.adapters.add(name, adapter, { ...ADAPTER_LIMITS_DEFAULT, lookupDeadlineMs })
    const { hits, all, delay } = await bench.run(seconds)
    const p99 = { hits: hits.at(0.99), all: all.at(0.99) }
    calm ??= p99
    const isFine = (['hits', 'all'] as const).every(
      (kind) => p99[kind] <= Math.max(FACTOR_MAX * calm![kind], calm![kind] + EXTRA_MS),
    )
    rows.push({
      'the adapter': title,
      l1_p50_ms: round(hits.at(0.5)),
      l1_p99_ms: round(p99.hits),
      all_p50_ms: round(all.at(0.5)),
      all_p99_ms: round(p99.all),
      all_worst_ms: round(all.at(1)),
      thread_p99_ms: delay.at(0.99),
      lookups: all.count,
      within: isFine,
    })
    await runtime.engine.adapters.remove(name, { force: true })
  }
  runtime.stop()
  await pool.close()
  if (process.argv.includes('--json')) console.log(JSON.stringify(rows))
  else {
    console.table(rows)
    console.log(`within: every p99 is at most ${FACTOR_MAX} times the undisturbed one, or ${EXTRA_MS} ms above it`)
  }
}

function round(ms: number): number {
  return Number(ms.toFixed(3))
}

await main()
process.exit(0)
