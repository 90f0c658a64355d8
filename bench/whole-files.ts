import { mkdtempSync, rmSync } from 'node:fs'
import * as fsPromises from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DiskFiles } from '../src/l2/adapters/disk-files.ts'
import { PAGE_BYTES, pageMemory } from '../src/native/page-memory.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { type FileWay, nativeFiles, type WholeFiles } from '../src/native/whole-files.ts'
import { processCpuNs, threadCpuNs } from './support/cpu-clock.ts'
import { type Figure, printReport, ratioFigure } from './support/figures.ts'
import { median } from './support/pairs.ts'

/**
 * Files of objects moved by the addon, against the calls of node:fs/promises: processor time and clock.
 *
 * Each pair makes the files, names them, writes over them and reads them, four at a time, from and to the shared-memory
 * arena; which side begins alternates. Words: --dir DIR (a real disk), --pairs N, --kib N,..., --json.
 */
const KIB = 1024
const ARENA_BYTES = 128 * KIB * KIB
const ROUND_BYTES = 64 * KIB * KIB
const FILES_MAX = 64
const LANES = 4
/** Larger files are mostly the kernel's work. */
const CLAIMED_KIB_MAX = 4 * KIB
const TASKS = ['create', 'overwrite', 'read'] as const

type Task = (typeof TASKS)[number]

/** Microseconds a file: of all threads, of the thread that asks, and by the clock. */
interface Sample {
  readonly cpu: number
  readonly asking: number
  readonly wall: number
}

interface Row {
  readonly work: string
  readonly cpu: string
  readonly asking: string
  readonly wall: string
  readonly cpuRatio: number
  readonly wallRatio: number
  readonly kib: number
}

function wordAfter(flag: string): string | undefined {
  const at = process.argv.indexOf(flag)
  return at < 0 ? undefined : process.argv[at + 1]
}

class Bench {
  readonly #directory: string
  readonly #memory: Uint8Array
  readonly #headers = Array.from({ length: LANES }, () => pageMemory(PAGE_BYTES))
  readonly #spares = Array.from({ length: LANES }, () => pageMemory(PAGE_BYTES))

  constructor(directory: string, memory: Uint8Array) {
    this.#directory = directory
    this.#memory = memory
  }

  /** Moves so many files of a length. */
  async run(files: WholeFiles, task: Task, bytes: number, count: number, way: FileWay): Promise<Sample> {
    let next = 0
    const lane = async (number: number) => {
      for (let file = next++; file < count; file = next++) await this.#move(files, task, file, number, bytes, way)
    }
    const [cpu, asking, wall] = [processCpuNs(), threadCpuNs(), performance.now()]
    await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)))
    const us = (ns: number) => ns / count / 1e3
    return {
      cpu: us(processCpuNs() - cpu),
      asking: us(threadCpuNs() - asking),
      wall: us((performance.now() - wall) * 1e6),
    }
  }

  remove(count: number): void {
    for (let file = 0; file < count; file += 1) rmSync(join(this.#directory, String(file)))
  }

  async #move(files: WholeFiles, task: Task, file: number, lane: number, bytes: number, way: FileWay): Promise<void> {
    const at = (file * bytes) % ARENA_BYTES
    const record = [this.#headers[lane]!, this.#memory.subarray(at, at + bytes)]
    const path = join(this.#directory, String(file))
    if (task === 'create') return files.create(`${path}-new`, record, path, way)
    if (task === 'overwrite') {
      if (!(await files.overwrite(path, record, path, way))) throw new Error('a file of another length')
    } else if ((await files.read(path, [...record, this.#spares[lane]!], way)) !== PAGE_BYTES + bytes) {
      throw new Error('a file that is cut short')
    }
  }
}

/** One size and way: a row for each task. */
async function rowsOf(bench: Bench, native: WholeFiles, kib: number, way: FileWay, pairs: number): Promise<Row[]> {
  const bytes = kib * KIB
  const count = Math.max(2 * LANES, Math.min(FILES_MAX, ROUND_BYTES / bytes))
  const sides = [new DiskFiles(fsPromises), native]
  const samples: Record<Task, [Sample, Sample][]> = { create: [], overwrite: [], read: [] }
  for (let pair = -1; pair < pairs; pair += 1) {
    const taken: Record<Task, Sample[]> = { create: [], overwrite: [], read: [] }
    for (const side of pair % 2 === 0 ? [0, 1] : [1, 0]) {
      for (const task of TASKS) taken[task][side] = await bench.run(sides[side]!, task, bytes, count, way)
      bench.remove(count)
    }
    if (pair >= 0) for (const task of TASKS) samples[task].push([taken[task][0]!, taken[task][1]!])
  }
  const size = kib < KIB ? `${kib} KiB` : `${kib / KIB} MiB`
  const how = `${way.isDirect ? 'past' : 'through'} the cache${way.isSynced ? ', synced' : ''}`
  const tasks = way.isSynced ? TASKS.filter((task) => task !== 'read') : TASKS
  return tasks.map((task) => rowOf(`${task} ${size} ${how}`, kib, samples[task]))
}

function rowOf(work: string, kib: number, pairs: readonly [Sample, Sample][]): Row {
  const both = (of: (sample: Sample) => number) =>
    `${median(pairs.map(([one]) => of(one))).toFixed(0)} -> ${median(pairs.map(([, other]) => of(other))).toFixed(0)}`
  const ratio = (of: (sample: Sample) => number) =>
    Number(median(pairs.map(([one, other]) => of(other) / of(one))).toFixed(2))
  return {
    work,
    cpu: both(({ cpu }) => cpu),
    asking: both(({ asking }) => asking),
    wall: both(({ wall }) => wall),
    cpuRatio: ratio(({ cpu }) => cpu),
    wallRatio: ratio(({ wall }) => wall),
    kib,
  }
}

/** Less processor time is claimed of files that are not mostly the kernel's work; by the clock the disk decides. */
function figureOf({ work, kib, cpuRatio }: Row): Figure {
  return ratioFigure(`CPU to ${work}, native to node:fs`, cpuRatio, 'lower', kib <= CLAIMED_KIB_MAX ? 1 : undefined)
}

async function main(): Promise<void> {
  const native = nativeFiles()
  if (native === null) throw new Error('the addon is not built')
  const sizes = (wordAfter('--kib') ?? '64,1024,4096,32768').split(',').map(Number)
  const pairs = Number(wordAfter('--pairs') ?? 7)
  const directory = mkdtempSync(join(wordAfter('--dir') ?? tmpdir(), 'kvtier-files-'))
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: ARENA_BYTES })
  segment.unlink()
  try {
    const bench = new Bench(directory, segment.memory.fill(0x5a))
    const rows: Row[] = []
    for (const kib of sizes) {
      for (const isDirect of kib < 256 ? [false] : [true, false]) {
        for (const isSynced of [true, false]) {
          rows.push(...(await rowsOf(bench, native, kib, { isDirect, isSynced }, pairs)))
        }
      }
    }
    printReport({ figures: rows.map(figureOf), rows })
  } finally {
    segment.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

await main()
