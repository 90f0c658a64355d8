import { join } from 'node:path'
import { EngineHome, type EngineProcess, runCommand } from '../../test/support/engine-process.ts'
import { Child, cpuMsOf } from '../support/child.ts'
import { type AnswerBytes, MpCycles } from '../support/mp-cycles.ts'
import { serverTimes } from '../support/mp-dispatch.ts'
import { capacityOf, openLoop } from '../support/mp-loops.ts'
import { withinTime } from '../support/mp-peer.ts'
import { median } from '../support/pairs.ts'
import { SampleSet } from '../support/samples.ts'

/**
 * The MP wire of an engine process: round trips, server time and waiting, beside a bare ROUTER that echoes.
 *
 * The prompts have 32k tokens: 128 chunks. The echo gets the same frames and gives answers of the same sizes, in a
 * process of its own, in turn with the engine. Before anything is timed, `kvtier selftest` compares bytes.
 *
 *     closed loop   1 client, one request at a time
 *     open loop     8 and 64 clients, at half of the capacity that 8 had; a quarter of the requests stores
 *     the same      while others store 20 MiB a second, which go to files of L2, and have 5 million tokens a second hashed
 *     server time   in this process, around the dispatcher, without sockets
 *
 * Hits take turns over more prompts than the engine remembers: each is read and hashed. Those named `again` ask for one
 * prompt again and again. `--json`; `--full` takes hours and has 100,000 samples behind each p99. The few of a short run
 * only place the p50.
 */
const isFull = process.argv.includes('--full')
const SAMPLES = 100_000
const ROUNDS = isFull ? SAMPLES : 60
const PINGS = isFull ? 1 : 50 // a round
const OPEN_MS = 3_000
const CAPACITY_MS = isFull ? 5_000 : 500
const CLIENTS = [8, 64]
/** For the prompts that hit, on a machine with other work. */
const STORES_MS = 60_000
const L1 = { size: '1GiB', chunks: '262144' }

/** What a round trip of one client may take, p50. */
const TARGETS_US: Readonly<Record<string, number>> = {
  ping: 100,
  'lookup acknowledged': 300,
  'lookup answer ready': 3_000,
}
/** Server time of 128 chunks. */
const PREPARE_TARGET_US = 500

interface Row {
  readonly phase: string
  readonly what: string
  readonly samples: number
  readonly p50Us: number
  readonly p99Us: number
  readonly floorP50Us: number
  readonly floorP99Us: number
  readonly toFloorP50: number
  readonly toFloorP99: number
}

function rowsOf(phase: string, engine: SampleSet, floor: SampleSet): Row[] {
  const us = (ms: number) => Math.round(ms * 1e3)
  const ratio = (a: number, b: number) => Number((a / b).toFixed(2))
  return engine.names.map((what) => {
    const [ours, bare] = [engine.of(what), floor.of(what)]
    return {
      phase,
      what,
      samples: ours.count,
      p50Us: us(ours.at(0.5)),
      p99Us: us(ours.at(0.99)),
      floorP50Us: us(bare.at(0.5)),
      floorP99Us: us(bare.at(0.99)),
      toFloorP50: ratio(ours.at(0.5), bare.at(0.5)),
      toFloorP99: ratio(ours.at(0.99), bare.at(0.99)),
    }
  })
}

/** One client, one request at a time: an engine round, a floor round, and the other way round. */
async function closedLoop(engine: MpCycles, floor: MpCycles, pids: readonly [number, number]) {
  const samples: [SampleSet, SampleSet] = [new SampleSet(), new SampleSet()]
  const pingCpuMs: [number, number] = [0, 0]
  for (let round = -3; round < ROUNDS; round += 1) {
    for (const side of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const cycles = side === 0 ? engine : floor
      const into = round < 0 ? null : samples[side]!
      const cpuBefore = cpuMsOf(pids[side]!)
      for (let ping = 0; ping < PINGS; ping += 1) await cycles.ping(into)
      if (round >= 0) pingCpuMs[side]! += cpuMsOf(pids[side]!) - cpuBefore
      for (const form of ['token_ids', 'token_bytes'] as const) {
        await cycles.hit(form, into, { suffix: `, ${form}` })
        await cycles.hit(form, into, { suffix: `, ${form}, again`, isKnown: true })
        await cycles.store(form, into, `, ${form}`)
      }
    }
  }
  const pings = ROUNDS * PINGS
  return { rows: rowsOf('1 client', ...samples), pingCpuUs: pingCpuMs.map((ms) => Math.round((ms * 1e3) / pings)) }
}

/** Of three measurements: one may meet a pause of the machine. */
async function medianCapacity(cycles: readonly MpCycles[]): Promise<number> {
  const capacities: number[] = []
  for (let turn = 0; turn < 3; turn += 1) capacities.push(await capacityOf(cycles, CAPACITY_MS))
  return median(capacities)
}

function say(what: string): void {
  console.error(`mp-wire: ${what}`)
}

async function openLoops(name: string, engine: string, first: MpCycles, floor: string, bytes: AnswerBytes) {
  const rows: Row[] = []
  let rate = 0
  for (const clients of CLIENTS) {
    const make = (address: string, isFloor: boolean) =>
      Array.from({ length: clients }, () => new MpCycles(address, isFloor, bytes))
    const [ours, bare] = [make(engine, false), make(floor, true)]
    await withinTime(first.makeResident(), 'stores', STORES_MS)
    for (const one of [...ours, ...bare]) await withinTime(one.hit('token_bytes', null), 'a first request')
    if (rate === 0) rate = (await medianCapacity(ours)) / 2
    const openMs = isFull ? (SAMPLES * 4e3) / rate : OPEN_MS
    const phase = `${clients} clients${name}`
    say(`${phase}, ${Math.round(rate)} requests a second`)
    rows.push(...rowsOf(phase, await openLoop(ours, rate, openMs), await openLoop(bare, rate, openMs)))
    for (const { peer } of [...ours, ...bare]) peer.close()
  }
  return { rows, requestsPerSecond: Math.round(rate) }
}

/** An engine whose bytes are right and whose L1 has the prompts that hit. @param l2 its adapter. */
async function withEngine<Value>(
  l2: (folder: string) => string,
  bytes: AnswerBytes,
  work: (engine: EngineProcess['addresses'], ours: MpCycles) => Promise<Value>,
): Promise<Value> {
  const home = new EngineHome()
  try {
    const { addresses } = await home.start({
      l1Size: L1.size,
      flags: ['--l1-index-chunks', L1.chunks, '--l2', l2(home.folder)],
    })
    const { code, stdout, stderr } = await runCommand(['selftest', '--data-dir', home.dataDir])
    if (code !== 0) throw new Error(`the engine gives back wrong bytes, or none:\n${stdout}${stderr}`)
    const ours = new MpCycles(addresses.mp!, false, bytes)
    await ours.register()
    await withinTime(ours.makeResident(), 'the first stores', STORES_MS)
    const value = await work(addresses, ours)
    ours.peer.close()
    return value
  } finally {
    await home.remove()
  }
}

function quietEngine(floor: string, floorPid: number, bytes: AnswerBytes) {
  const noStorage = () => 'none'
  return withEngine(noStorage, bytes, async ({ mp, pid }, ours) => {
    const bare = new MpCycles(floor, true, bytes)
    say('1 client')
    const closed = await closedLoop(ours, bare, [pid, floorPid])
    bare.peer.close()
    return { closed, open: await openLoops('', mp!, ours, floor, bytes) }
  })
}

function busyEngine(floor: string, bytes: AnswerBytes) {
  const disk = (folder: string) => `name=disk,type=filesystem,path=${join(folder, 'l2')},capacity=2GiB`
  return withEngine(disk, bytes, async ({ mp }, ours) => {
    const background = new Child('mp-background.ts', [mp!])
    const open = await openLoops(', others store and hash', mp!, ours, floor, bytes)
    return { ...open, background: JSON.parse(await background.stop()) as object }
  })
}

/** What the figures had to be, and whether they are. */
function verdictsOf(server: Awaited<ReturnType<typeof serverTimes>>, rows: readonly Row[]) {
  const trips = rows.filter(({ phase }) => phase === '1 client')
  const ofTrips = Object.entries(TARGETS_US).flatMap(([name, targetUs]) =>
    trips
      .filter(({ what }) => what.startsWith(name))
      .map(({ what, p50Us, floorP50Us }) => ({ what, p50Us, floorP50Us, targetUs, isMet: p50Us < targetUs })),
  )
  const ofServer = server
    .filter(({ op }) => op.startsWith('prepare_'))
    .map(({ op, p50Us }) => {
      const what = `server time of ${op}`
      return { what, p50Us, floorP50Us: 0, targetUs: PREPARE_TARGET_US, isMet: p50Us < PREPARE_TARGET_US }
    })
  return [...ofTrips, ...ofServer]
}

const bytes: AnswerBytes = new Map()
const server = await serverTimes(isFull ? SAMPLES : 300)
const echo = new Child('mp-echo.ts')
const floor = `127.0.0.1:${await echo.line()}`
const quiet = await quietEngine(floor, echo.pid, bytes)
const busy = await busyEngine(floor, bytes)
await echo.stop()
const rows = [...quiet.closed.rows, ...quiet.open.rows, ...busy.rows]
const verdicts = verdictsOf(server, rows)
const [pingCpuUs, floorPingCpuUs] = quiet.closed.pingCpuUs
const rates = { quiet: quiet.open.requestsPerSecond, busy: busy.requestsPerSecond }
if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ server, rows, verdicts, pingCpuUs, floorPingCpuUs, rates, background: busy.background }))
} else {
  console.log('Server time, in microseconds:')
  console.table(server)
  console.log('Round trips:')
  console.table(rows)
  console.log('Targets, p50:')
  console.table(verdicts)
  console.log(`CPU time of the server a ping: ${pingCpuUs} us, echo ${floorPingCpuUs} us`)
  console.log(`open loop, requests a second: ${rates.quiet}, with others ${rates.busy}`)
  console.log(`others meanwhile: ${JSON.stringify(busy.background)}`)
}
