import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { IoPool } from '../src/app/io-pool.ts'
import { sizeThreadPool } from '../src/app/thread-pool.ts'
import { goBeforeOtherThreads } from '../src/app/thread-priority.ts'
import { HASH_BYTES } from '../src/core/hash-chain.ts'
import { type KeyBatch, type KeySpace, type L2Adapter, OUTCOME_OK } from '../src/l2/adapter.ts'
import { fileBytes } from '../src/l2/adapters/object-files.ts'
import { ADAPTER_LIMITS_DEFAULT, FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../src/l2/options.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { median } from './support/pairs.ts'

/**
 * The filesystem adapter against fio on the same disk: objects of 4 MiB, same depth, same flags, in turn.
 *
 * Ours is the whole way: an io worker, checksums, manifest, rename, folders; fio writes and reads the same number of
 * files of the same size with the same number of threads, O_DIRECT, and an fsync a file where we ask for durability.
 * Delay is how late timers of this thread are meanwhile. Words: --dir DIR (a real disk), --pairs N, --json.
 */
const MIB = 1024 * 1024
const SHARD_BYTES = 4 * MIB
const OBJECTS = 128
const BATCH = 16
const BATCHES_IN_FLIGHT = 4
const SPACE: KeySpace = { model: 'bench', salt: '', ranks: 1, rank: 0, shardBytes: SHARD_BYTES, layout: 'bench' }
const NEVER = new AbortController().signal

type Durability = FilesystemAdapterOptions['durability']

function wordAfter(flag: string): string | undefined {
  const at = process.argv.indexOf(flag)
  return at < 0 ? undefined : process.argv[at + 1]
}

/** Keys [from, from + BATCH), a chain of their own. */
function batchAt(from: number): KeyBatch {
  const hashes = Buffer.alloc(BATCH * HASH_BYTES)
  const parents = Buffer.alloc(BATCH * HASH_BYTES)
  for (let key = 0; key < BATCH; key += 1) {
    // The first bytes choose the folder: spread them as hashes do.
    const write = (bytes: Buffer, number: number) => {
      bytes.writeUInt32LE(Math.imul(number, 0x9e3779b1) >>> 0, key * HASH_BYTES)
      bytes.writeUInt32LE(number, key * HASH_BYTES + 4)
    }
    write(hashes, from + key + 1)
    if (key > 0) write(parents, from + key)
  }
  return { space: SPACE, count: BATCH, hashes, parents }
}

/** Moves every object, a few batches at a time. @returns bytes a second. */
async function moveAll(move: (from: number) => Promise<Uint8Array>): Promise<number> {
  const startMs = performance.now()
  let next = 0
  const run = async () => {
    while (next < OBJECTS) {
      const from = next
      next += BATCH
      const outcomes = await move(from)
      if (outcomes.some((outcome) => outcome !== OUTCOME_OK)) throw new Error(`outcomes ${outcomes}`)
    }
  }
  await Promise.all(Array.from({ length: BATCHES_IN_FLIGHT }, run))
  return (OBJECTS * SHARD_BYTES) / ((performance.now() - startMs) / 1000)
}

function fio(directory: string, direction: 'write' | 'read', depth: number, durability: Durability): number {
  mkdirSync(directory, { recursive: true })
  const argv = [
    ...['--name=bench', `--directory=${directory}`, '--ioengine=psync', '--thread', `--numjobs=${depth}`],
    ...[`--rw=${direction}`, '--bs=4m', '--filesize=4m', `--nrfiles=${OBJECTS / depth}`, '--openfiles=1'],
    ...['--file_service_type=sequential', '--direct=1', '--fallocate=none', '--create_on_open=1', '--group_reporting'],
    ...[direction === 'write' && durability === 'fsync' ? '--fsync_on_close=1' : '--fsync_on_close=0'],
    '--output-format=json',
  ]
  const { stdout, status, error } = spawnSync('fio', argv, { encoding: 'utf8' })
  if (status !== 0) throw error ?? new Error(`fio ended with ${status}: ${stdout}`)
  const report = JSON.parse(stdout.slice(stdout.indexOf('{'))) as {
    jobs: Record<'read' | 'write', { bw_bytes: number }>[]
  }
  return report.jobs[0]![direction].bw_bytes
}

interface Round {
  readonly store: number
  readonly load: number
  readonly fioStore: number
  readonly fioLoad: number
}

class Bench {
  readonly #directory: string
  readonly #pool: IoPool
  readonly #memory: Uint8Array
  readonly #adapters = new Map<Durability, L2Adapter>()
  readonly delay = new LoopDelay()

  constructor(directory: string, pool: IoPool, memory: Uint8Array) {
    this.#directory = directory
    this.#pool = pool
    this.#memory = memory
  }

  /** One pair: both sides write, then both read, into folders that exist; which one begins alternates. */
  async round(pair: number, durability: Durability): Promise<Round> {
    const ours = await this.#open(durability)
    const depth = FILESYSTEM_DEFAULT.parallelism
    const both = async (first: () => Promise<number>, second: () => number): Promise<[number, number]> => {
      if (pair % 2 === 0) return [await first(), second()]
      const b = second()
      return [await first(), b]
    }
    const target = join(this.#directory, 'fio')
    const [store, fioStore] = await both(
      () => this.#watched(() => this.#storeAll(ours)),
      () => fio(target, 'write', depth, durability),
    )
    const [load, fioLoad] = await both(
      () => this.#watched(() => this.#loadAll(ours)),
      () => fio(target, 'read', depth, durability),
    )
    await ours.clear({}, NEVER)
    rmSync(target, { recursive: true })
    return { store, load, fioStore, fioLoad }
  }

  async #open(durability: Durability): Promise<L2Adapter> {
    const known = this.#adapters.get(durability)
    if (known !== undefined) return known
    const directory = join(this.#directory, durability)
    const adapter = this.#pool.adapter({ ...FILESYSTEM_DEFAULT, directory, durability })
    await adapter.open()
    this.#adapters.set(durability, adapter)
    return adapter
  }

  /** Stores twice what fits. @returns bytes a second of the first half and, with evictions, of the second; and the most held. */
  async fill(durability: Durability): Promise<{ before: number; after: number; overBytes: number }> {
    const directory = join(this.#directory, `fill-${durability}`)
    const capacityBytes = OBJECTS * fileBytes(SHARD_BYTES)
    const adapter = this.#pool.adapter({ ...FILESYSTEM_DEFAULT, directory, durability, capacityBytes })
    await adapter.open()
    let mostBytes = 0
    const half = (from: number) =>
      moveAll(async (at) => {
        const outcomes = new Uint8Array(BATCH)
        await adapter.store(batchAt(from + at), this.#slots(at), outcomes, NEVER)
        mostBytes = Math.max(mostBytes, adapter.usage().bytes)
        return outcomes
      })
    const before = await half(0)
    const after = await half(OBJECTS)
    await adapter.close()
    rmSync(directory, { recursive: true })
    return { before, after, overBytes: Math.max(0, mostBytes - capacityBytes) }
  }

  #storeAll(adapter: L2Adapter): Promise<number> {
    return moveAll(async (from) => {
      const outcomes = new Uint8Array(BATCH)
      await adapter.store(batchAt(from), this.#slots(from), outcomes, NEVER)
      return outcomes
    })
  }

  #loadAll(adapter: L2Adapter): Promise<number> {
    return moveAll(async (from) => {
      const outcomes = new Uint8Array(BATCH)
      await adapter.load(batchAt(from), this.#slots(from), outcomes, NEVER)
      return outcomes
    })
  }

  async #watched(run: () => Promise<number>): Promise<number> {
    this.delay.start()
    try {
      return await run()
    } finally {
      this.delay.stop()
    }
  }

  #slots(from: number): Uint8Array[] {
    return Array.from({ length: BATCH }, (_, key) =>
      this.#memory.subarray((from + key) * SHARD_BYTES, (from + key + 1) * SHARD_BYTES),
    )
  }
}

function rowsOf(durability: Durability, rounds: readonly Round[]) {
  const row = (name: string, of: (round: Round) => readonly [number, number]) => {
    const ratios = rounds.map((round) => of(round)[0] / of(round)[1])
    const rate = (side: 0 | 1) => gigabytes(median(rounds.map((round) => of(round)[side])))
    return {
      durability,
      what: name,
      ours_gb_per_s: rate(0),
      fio_gb_per_s: rate(1),
      ours_to_fio: Number(median(ratios).toFixed(2)),
      least: Number(Math.min(...ratios).toFixed(2)),
      greatest: Number(Math.max(...ratios).toFixed(2)),
    }
  }
  return [row('store', ({ store, fioStore }) => [store, fioStore]), row('load', ({ load, fioLoad }) => [load, fioLoad])]
}

function gigabytes(bytes: number): number {
  return Number((bytes / 1e9).toFixed(2))
}

async function main(): Promise<void> {
  goBeforeOtherThreads() // as the data thread of an engine does
  // The size that an engine with this one adapter has.
  sizeThreadPool([{ name: 'bench', backend: { ...FILESYSTEM_DEFAULT, directory: '' }, limits: ADAPTER_LIMITS_DEFAULT }])
  const pairs = Number(wordAfter('--pairs') ?? 5)
  const directory = mkdtempSync(join(wordAfter('--dir') ?? tmpdir(), 'kvtier-bench-'))
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: OBJECTS * SHARD_BYTES })
  segment.unlink()
  for (let at = 0; at < segment.bytes; at += 64) segment.memory[at] = at >>> 10
  const pool = await IoPool.start(1, segment, (reason) => console.error(reason))
  const bench = new Bench(directory, pool, segment.memory)
  const rows = []
  const fills = []
  try {
    for (const durability of ['fsync', 'checksum'] as const) {
      await bench.round(-1, durability) // not counted
      const rounds: Round[] = []
      for (let pair = 0; pair < pairs; pair += 1) rounds.push(await bench.round(pair, durability))
      rows.push(...rowsOf(durability, rounds))
      const { before, after, overBytes } = await bench.fill(durability)
      fills.push({
        durability,
        before_gb_per_s: gigabytes(before),
        after_gb_per_s: gigabytes(after),
        over_limit_bytes: overBytes,
      })
    }
  } finally {
    await pool.close()
    rmSync(directory, { recursive: true, force: true })
  }
  const delay = { p50_ms: bench.delay.at(0.5), p99_ms: bench.delay.at(0.99), samples: bench.delay.count }
  if (process.argv.includes('--json')) console.log(JSON.stringify({ rows, fills, delay, pairs }))
  else {
    console.table(rows)
    console.log('twice the capacity stored: the first half, and the second, which evicts')
    console.table(fills)
    console.log(
      `${pairs} pairs of ${OBJECTS} objects; delay of this thread: p50 ${delay.p50_ms} ms, p99 ${delay.p99_ms} ms`,
    )
  }
}

await main()
