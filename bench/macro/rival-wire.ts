import { readFileSync } from 'node:fs'
import { EngineHome } from '../../test/support/engine-process.ts'
import { cpuMsOf } from '../support/child.ts'
import { type Figure, printReport, ratioFigure } from '../support/figures.ts'
import { OriginalServer } from '../support/original-server.ts'
import { median } from '../support/pairs.ts'
import { checkBytes } from '../support/rival-bytes.ts'
import { framesOf, type OnStep, type PromptFrames, RivalClient } from '../support/rival-client.ts'
import { SampleSet } from '../support/samples.ts'

/**
 * The MP wire against the original server: the same frames of the same clients to both, in turn.
 *
 *     1, 8, 64 clients, each with one request at a time
 *     ping | lookup of 1k, 32k, 128k tokens that L1 has, or has not | store and retrieve cycles of 32k tokens
 *
 * A lookup lasts from its frame to its answer, polled for without a pause; its CPU time includes what belongs to it:
 * free_lookup_locks after a hit, end_session. CPU time is of the server, all its threads. Prompts that hit take turns
 * over more of them than our engine remembers. Slots have 4 KiB, so that bytes play no part. Before anything is timed,
 * bytes that went through each server are compared. Words: --json, --full (longer), --pairs N, --only TEXT.
 */
const CHUNKS: Readonly<Record<string, number>> = { '1k': 4, '32k': 128, '128k': 512 }
const RESIDENT: Readonly<Record<string, number>> = { '1k': 320, '32k': 640, '128k': 160 }
const CLIENTS = [1, 8, 64]
const isFull = process.argv.includes('--full')
const PAIRS = Number(wordAfter('--pairs') ?? (isFull ? 9 : 3))
const SLICE_MS = isFull ? 2_000 : 250
const L1_GIB = 2
/** Of lookups, beside the original. */
const LATENCY_MAX = 0.2
const PER_CPU_MIN = 10

interface Rival {
  readonly name: 'kvtier' | 'original'
  readonly pid: number
  readonly clients: readonly RivalClient[]
}

/** One kind of work. `run` does it once for a client. */
interface Work {
  readonly name: string
  /** The sample that stands for it. */
  readonly headline: string
  readonly run: (client: RivalClient, at: number, onStep: OnStep) => Promise<void>
}

interface Slice {
  readonly operations: number
  readonly ms: number
  readonly cpuMs: number
}

const frames = new Map<string, PromptFrames[]>()
let turns = 0
let fresh = 1_000_000

function wordAfter(flag: string): string | undefined {
  const at = process.argv.indexOf(flag)
  return at < 0 ? undefined : process.argv[at + 1]
}

/** Frames of client number `at`. */
function framesFor(size: string, at: number): PromptFrames {
  const known = frames.get(size) ?? []
  frames.set(size, known)
  known[at] ??= framesOf(CHUNKS[size]!)
  return known[at]
}

function residentOf(size: string): number {
  turns += 1
  return (turns % RESIDENT[size]!) + CHUNKS[size]! * 1000
}

function works(): Work[] {
  const ping: Work = {
    name: 'ping',
    headline: 'ping',
    run: async (client, _at, onStep) => {
      const start = performance.now()
      await client.ping()
      onStep('ping', performance.now() - start)
    },
  }
  const lookups = Object.keys(CHUNKS).flatMap((size): Work[] => [
    {
      name: `lookup hit ${size}`,
      headline: 'answered',
      run: (client, at, onStep) => client.lookup(framesFor(size, at), residentOf(size), true, onStep),
    },
    {
      name: `lookup miss ${size}`,
      headline: 'answered',
      run: (client, at, onStep) => client.lookup(framesFor(size, at), nextFresh(), false, onStep),
    },
  ])
  // Stores come last: a fast server stores so much meanwhile that what was resident is evicted.
  const cycles: Work[] = [
    {
      name: 'retrieve 32k',
      headline: 'retrieved',
      run: (client, at, onStep) => client.retrieve(framesFor('32k', at), residentOf('32k'), onStep),
    },
    {
      name: 'store 32k',
      headline: 'stored',
      run: (client, at, onStep) => client.store(framesFor('32k', at), nextFresh(), onStep),
    },
  ]
  const only = wordAfter('--only')
  return [ping, ...lookups, ...cycles].filter(({ name }) => only === undefined || name.includes(only))
}

function nextFresh(): number {
  fresh += 1
  return fresh
}

/** Lets the first `count` clients work until the time is over; each does it once at least. */
async function slice({ pid, clients }: Rival, work: Work, count: number, into: SampleSet | null): Promise<Slice> {
  const onStep: OnStep = (what, ms) => into?.push(what, ms)
  let operations = 0
  const cpuBefore = cpuMsOf(pid)
  const start = performance.now()
  const loops = clients.slice(0, count).map(async (client, at) => {
    do {
      await work.run(client, at, onStep)
      operations += 1
    } while (performance.now() - start < SLICE_MS)
  })
  await Promise.all(loops)
  return { operations, ms: performance.now() - start, cpuMs: cpuMsOf(pid) - cpuBefore }
}

function sumOf(slices: readonly Slice[]): Slice {
  const sum = (pick: (one: Slice) => number) => slices.reduce((total, one) => total + pick(one), 0)
  return { operations: sum((one) => one.operations), ms: sum((one) => one.ms), cpuMs: sum((one) => one.cpuMs) }
}

async function compare(ours: Rival, original: Rival, work: Work, count: number) {
  const samples = { kvtier: new SampleSet(), original: new SampleSet() }
  const slices: Record<Rival['name'], Slice[]> = { kvtier: [], original: [] }
  for (let pair = -1; pair < PAIRS; pair += 1) {
    for (const rival of pair % 2 === 0 ? [ours, original] : [original, ours]) {
      const one = await slice(rival, work, count, pair < 0 ? null : samples[rival.name])
      if (pair >= 0) slices[rival.name].push(one)
    }
  }
  const sideOf = ({ name }: Rival) => {
    const total = sumOf(slices[name])
    const headline = samples[name].of(work.headline)
    return {
      p50Us: Math.round(headline.at(0.5) * 1e3),
      p99Us: Math.round(headline.at(0.99) * 1e3),
      perSecond: Math.round((total.operations * 1e3) / total.ms),
      cpuUs: Math.round((total.cpuMs * 1e3) / total.operations),
    }
  }
  const steps = samples.kvtier.names.map((what) => ({
    what,
    kvtierP50Us: Math.round(samples.kvtier.of(what).at(0.5) * 1e3),
    originalP50Us: Math.round(samples.original.of(what).at(0.5) * 1e3),
  }))
  const ratios = slices.kvtier.map(
    (one, at) => one.cpuMs / one.operations / (slices.original[at]!.cpuMs / slices.original[at]!.operations),
  )
  return { ours: sideOf(ours), original: sideOf(original), cpuRatio: median(ratios), steps }
}

/** Memory of a process without what it shares, in MiB. */
function ownMib(pid: number): number {
  return Math.round(Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024)
}

async function fill(client: RivalClient): Promise<void> {
  for (const [size, prompts] of Object.entries(RESIDENT)) {
    for (let prompt = 0; prompt < prompts; prompt += 1) {
      await client.store(framesFor(size, 0), prompt + CHUNKS[size]! * 1000)
    }
  }
}

async function prepare(name: Rival['name'], address: string, pid: number): Promise<Rival> {
  const clients = Array.from({ length: CLIENTS.at(-1)! }, () => new RivalClient(address))
  for (const client of clients) {
    const segment = await client.greet()
    if (client === clients[0]) await checkBytes(client, segment, framesFor('1k', 0), nextFresh())
  }
  await fill(clients[0]!)
  return { name, pid, clients }
}

const home = new EngineHome()
const server = await OriginalServer.start(L1_GIB)
try {
  const flags = ['--l1-index-chunks', '524288', '--l2', 'none']
  const { addresses } = await home.start({ l1Size: `${L1_GIB}GiB`, flags })
  const ours = await prepare('kvtier', addresses.mp!, addresses.pid)
  const original = await prepare('original', server.address, server.pid)
  const rows: object[] = []
  const figures: Figure[] = []
  for (const work of works()) {
    for (const count of CLIENTS) {
      const { ours: a, original: b, cpuRatio, steps } = await compare(ours, original, work, count)
      const row = {
        work: work.name,
        clients: count,
        p50Us: a.p50Us,
        p99Us: a.p99Us,
        perSecond: a.perSecond,
        cpuUs: a.cpuUs,
        originalP50Us: b.p50Us,
        originalP99Us: b.p99Us,
        originalPerSecond: b.perSecond,
        originalCpuUs: b.cpuUs,
      }
      rows.push({ ...row, ...(process.argv.includes('--json') ? { steps } : {}) })
      const isLookup = work.name.startsWith('lookup')
      const name = `${work.name}, ${count} clients`
      figures.push(ratioFigure(`${name}: p50 to original`, a.p50Us / b.p50Us, 'lower', isLookup ? LATENCY_MAX : 1))
      figures.push(ratioFigure(`${name}: work per CPU second`, 1 / cpuRatio, 'higher', isLookup ? PER_CPU_MIN : 1))
      console.error(
        `rival-wire: ${name}: p50 ${a.p50Us} / ${b.p50Us} us, p99 ${a.p99Us} / ${b.p99Us}, ` +
          `${a.perSecond} / ${b.perSecond} a second, CPU ${a.cpuUs} / ${b.cpuUs} us`,
      )
    }
  }
  rows.push({ work: 'memory of its own, MiB', kvtier: ownMib(ours.pid), original: ownMib(original.pid) })
  printReport({ figures, rows })
  for (const client of [...ours.clients, ...original.clients]) client.close()
} finally {
  await server.stop()
  await home.remove()
}
