import { join } from 'node:path'
import { EngineHome, type EngineProcess, runCommand } from '../../test/support/engine-process.ts'
import { Child, cpuMsOf } from '../support/child.ts'
import { type AnswerBytes, MpCycles } from '../support/mp-cycles.ts'
import { serverTimes } from '../support/mp-dispatch.ts'
import { capacityOf, openLoop } from '../support/mp-loops.ts'
import { withinTime } from '../support/mp-peer.ts'
import { NetPings } from '../support/net-pings.ts'
import { median } from '../support/pairs.ts'
import { SampleSet } from '../support/samples.ts'

/**
 * The MP wire of an engine process: round trips, server time and waiting, beside echoes in processes of their own.
 *
 * The prompts have 32k tokens: 128 chunks. The floor is our transport with nothing behind it; it gets the same frames and
 * gives answers of the same sizes, in turn with the engine. With one client a bare ROUTER of libzmq does the same, and
 * pings go over a bare socket, too. Before anything is timed, `kvtier selftest` compares bytes.
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
const ENGINE = 0
const NET = 3
/** For the prompts that hit, on a machine with other work. */
const STORES_MS = 60_000
const L1 = { size: '1GiB', chunks: '262144' }

/** What a round trip of one client may take, p50. */
const TARGETS_US: Readonly<Record<string, number>> = {
  ping: 100,
  'lookup acknowledged': 300,
  'lookup answer ready': 3_000,
}
/** As `mp-echo` names them: the floor first. */
const ECHOES = ['transport', 'libzmq', 'net']

interface Echo {
  readonly name: string
  readonly pid: number
  readonly address: string
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

/** One of those that take turns with one client. */
interface Side {
  readonly name: string
  readonly pid: number
  readonly cycles: MpCycles | NetPings
}

/** One client, one request at a time: each side a round, and then the other way round. */
async function closedLoop(sides: readonly Side[]) {
  const samples = sides.map(() => new SampleSet())
  const pingCpuMs = sides.map(() => 0)
  const order = sides.map((_, side) => side)
  for (let round = -3; round < ROUNDS; round += 1) {
    for (const side of round % 2 === 0 ? order : order.toReversed()) {
      const { cycles, pid } = sides[side]!
      const into = round < 0 ? null : samples[side]!
      const cpuBefore = cpuMsOf(pid)
      for (let ping = 0; ping < PINGS; ping += 1) await cycles.ping(into)
      if (round >= 0) pingCpuMs[side]! += cpuMsOf(pid) - cpuBefore
      if (cycles instanceof NetPings) continue
      for (const form of ['token_ids', 'token_bytes'] as const) {
        await cycles.hit(form, into, { suffix: `, ${form}` })
        await cycles.hit(form, into, { suffix: `, ${form}, again`, isKnown: true })
        await cycles.store(form, into, `, ${form}`)
      }
    }
  }
  const [engine, floor, libzmq] = samples
  const p50Us = (of: SampleSet, what: string) => Math.round(of.of(what).at(0.5) * 1e3)
  const rows = rowsOf('1 client', engine!, floor!).map((row) => ({ ...row, libzmqP50Us: p50Us(libzmq!, row.what) }))
  const pings = sides.map(({ name }, side) => ({
    server: name,
    p50Us: p50Us(samples[side]!, 'ping'),
    cpuUs: Math.round((pingCpuMs[side]! * 1e3) / (ROUNDS * PINGS)),
  }))
  return { rows, pings }
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

function quietEngine(echoes: readonly Echo[], bytes: AnswerBytes) {
  const noStorage = () => 'none'
  return withEngine(noStorage, bytes, async ({ mp, pid }, ours) => {
    say('1 client')
    const sides: Side[] = [{ name: 'engine', pid, cycles: ours }]
    for (const { name, pid: echoPid, address } of echoes) {
      const port = Number(address.split(':')[1])
      sides.push({
        name,
        pid: echoPid,
        cycles: sides.length === NET ? new NetPings(port) : new MpCycles(address, true, bytes),
      })
    }
    const closed = await closedLoop(sides)
    for (const { cycles } of sides.slice(ENGINE + 1)) (cycles instanceof NetPings ? cycles : cycles.peer).close()
    return { closed, open: await openLoops('', mp!, ours, echoes[0]!.address, bytes) }
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
const children = ECHOES.map((name) => ({ name, child: new Child('mp-echo.ts', [name]) }))
const echoes: Echo[] = []
for (const { name, child } of children)
  echoes.push({ name, pid: child.pid, address: `127.0.0.1:${await child.line()}` })
const quiet = await quietEngine(echoes, bytes)
const busy = await busyEngine(echoes[0]!.address, bytes)
for (const { child } of children) await child.stop()
const rows = [...quiet.closed.rows, ...quiet.open.rows, ...busy.rows]
const verdicts = verdictsOf(server, rows)
const { pings } = quiet.closed
const rates = { quiet: quiet.open.requestsPerSecond, busy: busy.requestsPerSecond }
if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ server, rows, verdicts, pings, rates, background: busy.background }))
} else {
  console.log('Server time, in microseconds:')
  console.table(server)
  console.log('Round trips:')
  console.table(rows)
  console.log('Targets, p50:')
  console.table(verdicts)
  console.log('Pings, and CPU time of the server for each:')
  console.table(pings)
  console.log(`open loop, requests a second: ${rates.quiet}, with others ${rates.busy}`)
  console.log(`others meanwhile: ${JSON.stringify(busy.background)}`)
}
