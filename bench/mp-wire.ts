import { join } from 'node:path'
import { EngineHome } from '../test/support/engine-process.ts'
import { Child, cpuMsOf } from './support/child.ts'
import { type AnswerBytes, MpCycles } from './support/mp-cycles.ts'
import { serverTimes } from './support/mp-dispatch.ts'
import { capacityOf, openLoop } from './support/mp-loops.ts'
import { withinTime } from './support/mp-peer.ts'
import { median } from './support/pairs.ts'
import { SampleSet } from './support/samples.ts'

/**
 * The MP wire of an engine process: round trips, server time and waiting, beside a bare ROUTER that echoes.
 *
 * The prompts have 32k tokens: 128 chunks. The echo gets the same frames and gives answers of the same sizes, in a
 * process of its own, in turn with the engine. First one client in a closed loop; then 8 and 64 clients in an open loop
 * at half of the capacity that 8 had; then the same while other clients store prompts that go to L2 and have long
 * prompts hashed. Server time is measured in this process, around the dispatcher, without sockets.
 *
 * `--json`; `--full` takes hours and has 100,000 samples behind each p99. The few of a short run only place the p50.
 */
const isFull = process.argv.includes('--full')
const SAMPLES = 100_000
const ROUNDS = isFull ? SAMPLES : 60
const PINGS = isFull ? 1 : 50 // a round
const OPEN_MS = 3_000
const CAPACITY_MS = isFull ? 5_000 : 500
const CLIENTS = [8, 64]

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
        await cycles.hit(form, into, `, ${form}`)
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

async function openLoops(name: string, engine: string, floor: string, bytes: AnswerBytes) {
  const rows: Row[] = []
  let rate = 0
  for (const clients of CLIENTS) {
    const make = (address: string, isFloor: boolean) =>
      Array.from({ length: clients }, () => new MpCycles(address, isFloor, bytes))
    const [ours, bare] = [make(engine, false), make(floor, true)]
    for (const one of [...ours, ...bare]) await withinTime(one.hit('token_bytes', null), 'a first request')
    if (rate === 0) rate = (await medianCapacity(ours)) / 2
    const openMs = isFull ? (SAMPLES * 1e3) / rate : OPEN_MS
    const phase = `${clients} clients${name}`
    rows.push(...rowsOf(phase, await openLoop(ours, rate, openMs), await openLoop(bare, rate, openMs)))
    for (const { peer } of [...ours, ...bare]) peer.close()
  }
  return { rows, cyclesPerSecond: Math.round(rate) }
}

async function quietEngine(floor: string, floorPid: number, bytes: AnswerBytes) {
  const home = new EngineHome()
  try {
    const { addresses } = await home.start({ l1Size: '256MiB', flags: ['--l2', 'none'] })
    const [ours, bare] = [new MpCycles(addresses.mp!, false, bytes), new MpCycles(floor, true, bytes)]
    await withinTime(ours.prepare(), 'the first store')
    const closed = await closedLoop(ours, bare, [addresses.pid, floorPid])
    const open = await openLoops('', addresses.mp!, floor, bytes)
    for (const { peer } of [ours, bare]) peer.close()
    return { closed, open }
  } finally {
    await home.remove()
  }
}

async function busyEngine(floor: string, bytes: AnswerBytes) {
  const home = new EngineHome()
  try {
    const disk = `name=disk,type=filesystem,path=${join(home.folder, 'l2')},capacity=2GiB`
    const { addresses } = await home.start({ l1Size: '256MiB', flags: ['--l2', disk] })
    const ours = new MpCycles(addresses.mp!, false, bytes)
    await withinTime(ours.prepare(), 'the first store')
    const background = new Child('mp-background.ts', [addresses.mp!])
    const open = await openLoops(', others store and hash', addresses.mp!, floor, bytes)
    ours.peer.close()
    return { ...open, background: JSON.parse(await background.stop()) as object }
  } finally {
    await home.remove()
  }
}

const bytes: AnswerBytes = new Map()
const server = await serverTimes(isFull ? SAMPLES : 300)
const echo = new Child('mp-echo.ts')
const floor = `127.0.0.1:${await echo.line()}`
const quiet = await quietEngine(floor, echo.pid, bytes)
const busy = await busyEngine(floor, bytes)
await echo.stop()
const rows = [...quiet.closed.rows, ...quiet.open.rows, ...busy.rows]
const [pingCpuUs, floorPingCpuUs] = quiet.closed.pingCpuUs
const rates = { quiet: quiet.open.cyclesPerSecond, busy: busy.cyclesPerSecond }
if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ server, rows, pingCpuUs, floorPingCpuUs, rates, background: busy.background }))
} else {
  console.log('Server time, in microseconds:')
  console.table(server)
  console.log('Round trips:')
  console.table(rows)
  console.log(`CPU time of the server a ping: ${pingCpuUs} us, echo ${floorPingCpuUs} us`)
  console.log(`open loop, cycles a second: ${rates.quiet}, with others ${rates.busy}`)
  console.log(`others meanwhile: ${JSON.stringify(busy.background)}`)
}
