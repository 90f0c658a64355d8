import { spawnSync } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { IoPool } from '../src/app/io-pool.ts'
import { HASH_BYTES } from '../src/core/hash-chain.ts'
import { type KeyBatch, type KeySpace, type L2Adapter, OUTCOME_OK } from '../src/l2/adapter.ts'
import { REDIS_DEFAULT } from '../src/l2/adapters/redis/options.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { median } from './support/pairs.ts'
import { RawResp } from './support/raw-resp.ts'

/**
 * The redis adapter against a bare socket that speaks RESP, on the same server: values of 1 MiB, in turn.
 *
 * Ours is the whole way: an io worker, names, checksums, the arena, SET NX. The floor writes the same values and
 * reads them into the same arena, unparsed; once more with checksums, to tell their price. Both keep 8 MiB in flight on a connection; ours has the two of its defaults.
 * Deletions in between are not timed. Delay is how late timers of this thread are while ours runs, and before, when
 * nothing does. Words: --pairs N, --json.
 */
const MIB = 1024 * 1024
const OBJECTS = 64
const BATCH = 16
const BATCHES_IN_FLIGHT = 4
const FLOOR_DEPTH = 8
const IDLE_MS = 500
const SPACE: KeySpace = { model: 'bench', salt: '', ranks: 1, rank: 0, shardBytes: MIB, layout: 'bench' }
const NEVER = new AbortController().signal
const NAMES = Array.from({ length: OBJECTS }, (_, at) => `raw:${at}`)

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

/** Moves every object, a few batches at a time. */
async function moveAll(move: (batch: KeyBatch, from: number, outcomes: Uint8Array) => Promise<number>): Promise<void> {
  let next = 0
  const run = async () => {
    while (next < OBJECTS) {
      const from = next
      next += BATCH
      const outcomes = new Uint8Array(BATCH)
      await move(batchAt(from), from, outcomes)
      if (outcomes.some((outcome) => outcome !== OUTCOME_OK)) throw new Error(`outcomes ${outcomes}`)
    }
  }
  await Promise.all(Array.from({ length: BATCHES_IN_FLIGHT }, run))
}

/** GB/s of an operation that moves every object. */
async function rateOf(operation: () => Promise<void>): Promise<number> {
  const startMs = performance.now()
  await operation()
  return (OBJECTS * MIB) / 1e6 / (performance.now() - startMs)
}

interface Round {
  readonly store: number
  readonly load: number
  readonly set: number
  readonly get: number
  /** The floor again, with checksums. */
  readonly summedGet: number
}

async function round(pair: number, ours: L2Adapter, floor: RawResp, memory: Uint8Array, delay: LoopDelay) {
  const slot = (at: number) => memory.subarray(at * MIB, (at + 1) * MIB)
  const slots = (from: number) => Array.from({ length: BATCH }, (_, key) => slot(from + key))
  const values = NAMES.map((_, at) => slot(at))
  const watched = async (operation: () => Promise<void>) => {
    delay.start()
    const rate = await rateOf(operation)
    delay.stop()
    return rate
  }
  const inTurn = async (first: () => Promise<number>, second: () => Promise<number>): Promise<[number, number]> => {
    if (pair % 2 === 0) return [await first(), await second()]
    const b = await second()
    return [await first(), b]
  }
  const [store, set] = await inTurn(
    () => watched(() => moveAll((batch, from, outcomes) => ours.store(batch, slots(from), outcomes, NEVER))),
    () => rateOf(() => floor.set(NAMES, values)),
  )
  const [load, get] = await inTurn(
    () => watched(() => moveAll((batch, from, outcomes) => ours.load(batch, slots(from), outcomes, NEVER))),
    () => rateOf(() => floor.get(NAMES, MIB)),
  )
  floor.isSumming = true
  const summedGet = await rateOf(() => floor.get(NAMES, MIB))
  floor.isSumming = false
  await ours.clear({}, NEVER)
  await floor.delete(NAMES)
  return { store, load, set, get, summedGet } satisfies Round
}

function row(name: string, ours: readonly number[], floor: readonly number[]) {
  const ratios = ours.map((rate, at) => rate / floor[at]!)
  const round2 = (value: number) => Number(value.toFixed(2))
  return {
    direction: name,
    ours_gb_per_s: round2(median(ours)),
    raw_gb_per_s: round2(median(floor)),
    ours_to_raw: round2(median(ratios)),
    least: round2(Math.min(...ratios)),
    greatest: round2(Math.max(...ratios)),
    pairs: ratios.length,
  }
}

async function main(): Promise<void> {
  const at = process.argv.indexOf('--pairs')
  const pairs = at < 0 ? 20 : Number(process.argv[at + 1])
  if (spawnSync('redis-server', ['--version']).status !== 0) throw new Error('redis-server is missing')
  const server = await RedisServer.start()
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: OBJECTS * MIB })
  segment.unlink()
  for (let offset = 0; offset < segment.bytes; offset += 4)
    segment.memory[offset] = Math.imul(offset, 0x9e3779b1) >>> 24
  const pool = await IoPool.start(1, segment, (reason) => console.error(reason))
  const ours = pool.adapter({ ...REDIS_DEFAULT, url: server.url })
  await ours.open()
  const floor = await RawResp.open(server.port, FLOOR_DEPTH, segment.memory)
  const idle = new LoopDelay()
  idle.start()
  await pause(IDLE_MS)
  idle.stop()
  const delay = new LoopDelay()
  const rounds: Round[] = []
  for (let pair = -2; pair < pairs; pair += 1) {
    const done = await round(pair, ours, floor, segment.memory, delay)
    if (pair >= 0) rounds.push(done)
  }
  const of = (side: keyof Round) => rounds.map((one) => one[side])
  const rows = [
    row('SET', of('store'), of('set')),
    row('GET', of('load'), of('get')),
    row('GET, floor sums too', of('load'), of('summedGet')),
  ]
  const delays = {
    delay_p50_ms: delay.at(0.5),
    delay_p99_ms: delay.at(0.99),
    idle_p99_ms: idle.at(0.99),
    samples: delay.count,
  }
  floor.close()
  await ours.close()
  await pool.close()
  segment.close()
  await server.dispose()
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ rows, ...delays }))
    return
  }
  console.table(rows)
  console.log(delays)
}

await main()
