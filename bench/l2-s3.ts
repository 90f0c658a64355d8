import { once } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import { IoPool } from '../src/app/io-pool.ts'
import { HASH_BYTES } from '../src/core/hash-chain.ts'
import { CallPort, remoteOf } from '../src/core/rpc.ts'
import { type KeyBatch, type KeySpace, type L2Adapter, OUTCOME_OK } from '../src/l2/adapter.ts'
import { HEADER_BYTES } from '../src/l2/object-format.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { needsS3Server, S3Server } from '../test/support/s3-server.ts'
import type { BareS3Calls } from './support/bare-s3.ts'
import type { BareS3Data } from './support/bare-s3-thread.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { median } from './support/pairs.ts'

/**
 * The s3 adapter against a bare loop over undici, on the same server: objects of 4 MiB, in turn.
 *
 * Ours is the whole way: an io worker, checksums, the index, the arena. The floor runs on a worker, too: it signs and
 * sends the same bytes, and copies what it reads into the arena. Both have as many requests under way. `signed` is the
 * default over plain http, a SHA-256 of each object; `unsigned` is the default over https. Delay is how late timers of this thread are while ours, or the floor, runs. Words: --pairs N, --json.
 */
const MIB = 1024 * 1024
const SHARD_BYTES = 4 * MIB
const OBJECTS = 32
const BATCH = 16
const DEPTH = 16
const SPACE: KeySpace = { model: 'bench', salt: '', ranks: 1, rank: 0, shardBytes: SHARD_BYTES, layout: 'bench' }
const NEVER = new AbortController().signal
const OBJECT_BYTES = HEADER_BYTES + SHARD_BYTES

/** Keys [from, from + BATCH) of one chain. */
function batchAt(from: number): KeyBatch {
  const hashes = Buffer.alloc(BATCH * HASH_BYTES)
  const parents = Buffer.alloc(BATCH * HASH_BYTES)
  for (let key = 0; key < BATCH; key += 1) {
    hashes.writeUInt32LE(from + key + 1, key * HASH_BYTES)
    if (from + key > 0) parents.writeUInt32LE(from + key, key * HASH_BYTES)
  }
  return { space: SPACE, count: BATCH, hashes, parents }
}

/** Moves every object, all batches at a time. */
async function moveAll(move: (batch: KeyBatch, from: number, outcomes: Uint8Array) => Promise<number>): Promise<void> {
  const froms = Array.from({ length: OBJECTS / BATCH }, (_, at) => at * BATCH)
  await Promise.all(
    froms.map(async (from) => {
      const outcomes = new Uint8Array(BATCH)
      await move(batchAt(from), from, outcomes)
      if (outcomes.some((outcome) => outcome !== OUTCOME_OK)) throw new Error(`outcomes ${outcomes}`)
    }),
  )
}

/** GB/s of an operation that moves every object. */
async function rateOf(operation: () => Promise<void>): Promise<number> {
  const startMs = performance.now()
  await operation()
  return (OBJECTS * SHARD_BYTES) / 1e6 / (performance.now() - startMs)
}

interface Round {
  readonly store: number
  readonly load: number
  readonly put: number
  readonly get: number
}

class Bench {
  readonly #floor: BareS3Calls
  readonly #memory: Uint8Array
  readonly #delay: LoopDelay
  readonly #floorDelay: LoopDelay

  constructor(floor: BareS3Calls, memory: Uint8Array, delay: LoopDelay, floorDelay: LoopDelay) {
    this.#floor = floor
    this.#memory = memory
    this.#delay = delay
    this.#floorDelay = floorDelay
  }

  /** One pair: both store, then both load. Which side begins alternates; deletions in between are not timed. */
  async round(pair: number, ours: L2Adapter): Promise<Round> {
    const inTurn = async (first: () => Promise<number>, second: () => Promise<number>): Promise<[number, number]> => {
      if (pair % 2 === 0) return [await first(), await second()]
      const b = await second()
      return [await first(), b]
    }
    const slots = (from: number) => Array.from({ length: BATCH }, (_, key) => this.#slot(from + key))
    const [store, put] = await inTurn(
      () => watched(this.#delay, () => moveAll((batch, from, out) => ours.store(batch, slots(from), out, NEVER))),
      () => watched(this.#floorDelay, () => this.#floor.put(OBJECTS, SHARD_BYTES, OBJECT_BYTES)),
    )
    const [load, get] = await inTurn(
      () => watched(this.#delay, () => moveAll((batch, from, out) => ours.load(batch, slots(from), out, NEVER))),
      () => watched(this.#floorDelay, () => this.#floor.get(OBJECTS, SHARD_BYTES, OBJECT_BYTES)),
    )
    await ours.clear({}, NEVER)
    await this.#floor.delete(OBJECTS)
    return { store, load, put, get }
  }

  #slot(at: number): Uint8Array {
    return this.#memory.subarray(at * SHARD_BYTES, (at + 1) * SHARD_BYTES)
  }
}

async function watched(delay: LoopDelay, operation: () => Promise<void>): Promise<number> {
  delay.start()
  const rate = await rateOf(operation)
  delay.stop()
  return rate
}

/** A thread that runs the floor. */
async function startFloor(data: Omit<BareS3Data, 'port'>) {
  const { port1, port2 } = new MessageChannel()
  const workerData: BareS3Data = { ...data, port: port2 }
  const url = new URL('./support/bare-s3-thread.ts', import.meta.url)
  const worker = new Worker(url, { workerData, transferList: [port2] })
  await once(worker, 'message')
  const calls = new CallPort(port1)
  const end = async () => {
    calls.close()
    await worker.terminate()
  }
  return { floor: remoteOf<BareS3Calls>(calls, ['put', 'get', 'delete']), end }
}

function row(name: string, ours: readonly number[], floor: readonly number[]) {
  const ratios = ours.map((rate, at) => rate / floor[at]!)
  const round2 = (value: number) => Number(value.toFixed(2))
  return {
    direction: name,
    ours_gb_per_s: round2(median(ours)),
    bare_gb_per_s: round2(median(floor)),
    ours_to_bare: round2(median(ratios)),
    least: round2(Math.min(...ratios)),
    greatest: round2(Math.max(...ratios)),
    pairs: ratios.length,
  }
}

async function main(): Promise<void> {
  const at = process.argv.indexOf('--pairs')
  const pairs = at < 0 ? 15 : Number(process.argv[at + 1])
  if (needsS3Server().skip) throw new Error('the S3 server is missing: run test/support/install-s3-server.sh')
  const server = await S3Server.start()
  // One page more: the floor's objects are as long as ours, header included.
  const segment = await openSegment({
    name: `kvtier-bench-${process.pid}`,
    bytes: OBJECTS * SHARD_BYTES + HEADER_BYTES,
  })
  segment.unlink()
  for (let offset = 0; offset < segment.bytes; offset += 4) {
    segment.memory[offset] = Math.imul(offset, 0x9e3779b1) >>> 24
  }
  const pool = await IoPool.start(1, segment, (reason) => console.error(reason))
  const delay = new LoopDelay()
  const floorDelay = new LoopDelay()
  const rows = []
  for (const payload of ['unsigned', 'signed'] as const) {
    const options = server.options({ payload, parallelism: DEPTH, prefix: `${payload}/` })
    const { floor, end } = await startFloor({ arena: segment.handle, options, depth: DEPTH })
    const bench = new Bench(floor, segment.memory, delay, floorDelay)
    const ours = pool.adapter(options)
    await ours.open()
    const rounds: Round[] = []
    for (let pair = -2; pair < pairs; pair += 1) {
      const done = await bench.round(pair, ours)
      if (pair >= 0) rounds.push(done)
    }
    const of = (side: keyof Round) => rounds.map((round) => round[side])
    rows.push(row(`PUT, ${payload}`, of('store'), of('put')))
    rows.push(row(`GET, ${payload}`, of('load'), of('get')))
    await ours.close()
    await end()
  }
  await pool.close()
  segment.close()
  await server.stop()
  const delays = {
    delay_p50_ms: delay.at(0.5),
    delay_p99_ms: delay.at(0.99),
    floor_delay_p99_ms: floorDelay.at(0.99),
    samples: delay.count,
  }
  if (process.argv.includes('--json')) console.log(JSON.stringify({ rows, ...delays }))
  else {
    console.table(rows)
    console.log(delays)
  }
}

await main()
