import { spawnSync } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { IoPool } from '../src/app/io-pool.ts'
import { goBeforeOtherThreads } from '../src/app/thread-priority.ts'
import type { L2Adapter } from '../src/l2/adapter.ts'
import { REDIS_DEFAULT } from '../src/l2/adapters/redis/options.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { fillWithNoise, inTurn, NEVER, ObjectBench, ratioRow } from './support/object-bench.ts'
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
const NAMES = Array.from({ length: OBJECTS }, (_, at) => `raw:${at}`)

interface Round {
  readonly store: number
  readonly load: number
  readonly set: number
  readonly get: number
  /** The floor again, with checksums. */
  readonly summedGet: number
}

async function round(pair: number, bench: ObjectBench, ours: L2Adapter, floor: RawResp, delay: LoopDelay) {
  const values = NAMES.map((_, at) => bench.slot(at))
  const watched = async (operation: () => Promise<void>) => {
    delay.start()
    const rate = await bench.rateOf(operation)
    delay.stop()
    return rate
  }
  const [store, set] = await inTurn(
    pair,
    () => watched(() => bench.moveAll((batch, from, out) => ours.store(batch, bench.slots(from), out, NEVER))),
    () => bench.rateOf(() => floor.set(NAMES, values)),
  )
  const [load, get] = await inTurn(
    pair,
    () => watched(() => bench.moveAll((batch, from, out) => ours.load(batch, bench.slots(from), out, NEVER))),
    () => bench.rateOf(() => floor.get(NAMES, MIB)),
  )
  floor.isSumming = true
  const summedGet = await bench.rateOf(() => floor.get(NAMES, MIB))
  floor.isSumming = false
  await ours.clear({}, NEVER)
  await floor.delete(NAMES)
  return { store, load, set, get, summedGet } satisfies Round
}

async function main(): Promise<void> {
  goBeforeOtherThreads() // as the data thread of an engine does
  const at = process.argv.indexOf('--pairs')
  const pairs = at < 0 ? 20 : Number(process.argv[at + 1])
  if (spawnSync('redis-server', ['--version']).status !== 0) throw new Error('redis-server is missing')
  const server = await RedisServer.start()
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: OBJECTS * MIB })
  segment.unlink()
  fillWithNoise(segment.memory)
  const load = { shardBytes: MIB, objects: OBJECTS, batch: BATCH, batchesInFlight: BATCHES_IN_FLIGHT }
  const bench = new ObjectBench(load, segment.memory)
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
    const done = await round(pair, bench, ours, floor, delay)
    if (pair >= 0) rounds.push(done)
  }
  const of = (side: keyof Round) => rounds.map((one) => one[side])
  const rows = [
    ratioRow('SET', 'raw', of('store'), of('set')),
    ratioRow('GET', 'raw', of('load'), of('get')),
    ratioRow('GET, floor sums too', 'raw', of('load'), of('summedGet')),
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
