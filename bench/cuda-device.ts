import { CudaDevice } from '../src/l0/cuda-device.ts'
import type { BlockLists, CopyBatch, PagedBatch, RunBatch } from '../src/l0/device.ts'
import { probeCuda } from '../src/native/cuda.ts'
import { openStandIn, standInDriver } from '../test/support/stand-in-driver.ts'
import { bareWake } from './support/bare-wake.ts'
import { threadCpuNs } from './support/cpu-clock.ts'

/**
 * A CUDA device: what a transfer costs the data thread, by its number of pieces. On the tests' driver: no speed of a GPU.
 *
 * CPU time of this thread alone. Must hold: 10 us a transfer, whatever its number of blocks, of all that this code does:
 * handing over, and the fence. A thread that sleeps pays for being woken besides, whatever wakes it; each transfer has a
 * bare wake beside it, of a thread that works as long. The engine hands over rows of lists of blocks (its own pool) or block ids (pools of other
 * processes), of 64 planes here; lists of pieces are for tests and simulations.
 */
const MIB = 1024 ** 2
const POOL_BYTES = 256 * MIB
const PIECE_BYTES = 4096
const BLOCKS = POOL_BYTES / PIECE_BYTES
const BLOCKS_PER_ROW = 128
const PLANES = 64
const ROUNDS = 15

const found = await standInDriver()
if (typeof found === 'string') throw new Error(found)
const standIn = openStandIn(found)
const wake = await bareWake()
const driver = probeCuda(found.library)
if (!driver.available) throw new Error(driver.reason)
const device = new CudaDevice({ library: found.library, ordinal: 0, methods: ['batch'] }, driver)
device.open(POOL_BYTES, new Uint8Array(POOL_BYTES))
// On a GPU no copy takes this processor's time or caches.
standIn.control('move 0')
const stream = device.createStream()
const layout = device.addLayout(new Array<number>(PLANES).fill(0), {
  planes: Array.from({ length: PLANES }, (_, plane) => (plane * POOL_BYTES) / PLANES),
  blockStride: PIECE_BYTES,
  blockBytes: PIECE_BYTES,
})
/** Every block is followed by one that lies elsewhere, so that none of their copies merge. */
const lists: BlockLists = {
  next: Int32Array.from({ length: BLOCKS }, (_, block) => (block + 257) % BLOCKS),
  blockBytes: PIECE_BYTES,
}

function batchOf(pieces: number): CopyBatch {
  const at = (i: number) => (i % BLOCKS) * PIECE_BYTES
  return {
    direction: 'load',
    count: pieces,
    deviceOffsets: Float64Array.from({ length: pieces }, (_, i) => at(pieces - 1 - i)),
    hostOffsets: Float64Array.from({ length: pieces }, (_, i) => at(i)),
    lengths: new Float64Array(pieces).fill(PIECE_BYTES),
  }
}

function pagedOf(pieces: number): PagedBatch {
  const blocks = Int32Array.from({ length: pieces / PLANES }, (_, i) => (i * 7) % 997)
  const hostOffsets = Float64Array.of(0)
  return { direction: 'load', layout, blocks, blockCount: blocks.length, hostOffsets, shards: 1 }
}

function runsOf(pieces: number): RunBatch {
  const count = Math.ceil(pieces / BLOCKS_PER_ROW)
  const rowBytes = (pieces / count) * PIECE_BYTES
  return {
    direction: 'load',
    count,
    lists,
    firstBlocks: Int32Array.from({ length: count }, (_, row) => row),
    skipBytes: new Float64Array(count),
    hostOffsets: Float64Array.from({ length: count }, (_, row) => row * rowBytes),
    rowBytes,
  }
}

function middle(figures: number[]): string {
  figures.sort((a, b) => a - b)
  return figures[figures.length >> 1]!.toFixed(2)
}

/** Microseconds of this thread for each of `transfers`: from the first submit to the last fence, and of the submits. */
async function spend(submit: (done: () => void) => void, transfers: number): Promise<[all: number, submits: number]> {
  const all = Promise.withResolvers<void>()
  let left = transfers
  const done = () => {
    left -= 1
    if (left === 0) all.resolve()
  }
  const startNs = threadCpuNs()
  for (let i = 0; i < transfers; i += 1) submit(done)
  const submittedNs = threadCpuNs()
  await all.promise
  return [(threadCpuNs() - startNs) / transfers / 1000, (submittedNs - startNs) / transfers / 1000]
}

/** One line: a transfer that ends alone, beside a bare wake, and one of many. */
async function row(name: string, submit: (done: () => void) => void, many: number): Promise<void> {
  const [alone, submits, beyond, together]: [number[], number[], number[], number[]] = [[], [], [], []]
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let i = 0; i < 8; i += 1) {
      const startMs = performance.now()
      const [all, handed] = await spend(submit, 1)
      const busyUs = (performance.now() - startMs) * 1000
      alone.push(all)
      submits.push(handed)
      beyond.push(all - (await spend((bare) => wake(busyUs, bare), 1))[0])
    }
    together.push((await spend(submit, many))[0])
  }
  const whole = `alone ${middle(alone)} us, of which submit ${middle(submits)}, beyond a bare wake ${middle(beyond)}`
  console.log(`${name}: ${whole}; one of ${many} ${middle(together)}`)
}

for (const pieces of [1, 16, 256, 4096, 16_384]) {
  const many = pieces > 1000 ? 20 : 200
  const runs = runsOf(pieces)
  await row(`rows, ${pieces} blocks`, (done) => device.submitRuns(stream, runs, done), many)
  if (pieces >= PLANES) {
    const paged = pagedOf(pieces)
    await row(`paged, ${pieces} pieces`, (done) => device.submitPaged(stream, paged, done), many)
  }
  const batch = batchOf(pieces)
  await row(`listed, ${pieces} pieces`, (done) => device.submit(stream, batch, done), many)
}
const { wakes } = device.figures()!
console.log(`wakes ${wakes}; violations ${standIn.count('violations')}`)
device.close()
process.exit()
