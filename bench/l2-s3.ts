import { once } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import { IoPool } from '../src/app/io-pool.ts'
import { goBeforeOtherThreads } from '../src/app/thread-priority.ts'
import { CallPort, remoteOf } from '../src/core/rpc.ts'
import type { L2Adapter } from '../src/l2/adapter.ts'
import { HEADER_BYTES } from '../src/l2/object-format.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { needsS3Server, S3Server } from '../test/support/s3-server.ts'
import type { BareS3Calls } from './support/bare-s3.ts'
import type { BareS3Data } from './support/bare-s3-thread.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { fillWithNoise, inTurn, NEVER, ObjectBench, ratioRow } from './support/object-bench.ts'

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
const OBJECT_BYTES = HEADER_BYTES + SHARD_BYTES

interface Round {
  readonly store: number
  readonly load: number
  readonly put: number
  readonly get: number
}

interface Sides {
  readonly ours: L2Adapter
  readonly floor: BareS3Calls
  readonly delay: LoopDelay
  readonly floorDelay: LoopDelay
}

/** One pair: both store, then both load. Deletions in between are not timed. */
async function round(pair: number, bench: ObjectBench, { ours, floor, delay, floorDelay }: Sides): Promise<Round> {
  const watched = async (watch: LoopDelay, operation: () => Promise<void>) => {
    watch.start()
    const rate = await bench.rateOf(operation)
    watch.stop()
    return rate
  }
  const [store, put] = await inTurn(
    pair,
    () => watched(delay, () => bench.moveAll((batch, from, out) => ours.store(batch, bench.slots(from), out, NEVER))),
    () => watched(floorDelay, () => floor.put(OBJECTS, SHARD_BYTES, OBJECT_BYTES)),
  )
  const [load, get] = await inTurn(
    pair,
    () => watched(delay, () => bench.moveAll((batch, from, out) => ours.load(batch, bench.slots(from), out, NEVER))),
    () => watched(floorDelay, () => floor.get(OBJECTS, SHARD_BYTES, OBJECT_BYTES)),
  )
  await ours.clear({}, NEVER)
  await floor.delete(OBJECTS)
  return { store, load, put, get }
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

async function main(): Promise<void> {
  goBeforeOtherThreads() // as the data thread of an engine does
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
  fillWithNoise(segment.memory)
  const load = { shardBytes: SHARD_BYTES, objects: OBJECTS, batch: BATCH, batchesInFlight: OBJECTS / BATCH }
  const bench = new ObjectBench(load, segment.memory)
  const pool = await IoPool.start(1, segment, (reason) => console.error(reason))
  const delay = new LoopDelay()
  const floorDelay = new LoopDelay()
  const rows = []
  for (const payload of ['unsigned', 'signed'] as const) {
    const options = server.options({ payload, parallelism: DEPTH, prefix: `${payload}/` })
    const { floor, end } = await startFloor({ arena: segment.handle, options, depth: DEPTH })
    const ours = pool.adapter(options)
    await ours.open()
    const rounds: Round[] = []
    for (let pair = -2; pair < pairs; pair += 1) {
      const done = await round(pair, bench, { ours, floor, delay, floorDelay })
      if (pair >= 0) rounds.push(done)
    }
    const of = (side: keyof Round) => rounds.map((round) => round[side])
    rows.push(ratioRow(`PUT, ${payload}`, 'bare', of('store'), of('put')))
    rows.push(ratioRow(`GET, ${payload}`, 'bare', of('load'), of('get')))
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
