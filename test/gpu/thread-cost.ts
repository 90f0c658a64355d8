// What a transfer costs the thread that asks for it, on the driver of this machine: CPU time of this thread alone. A thread
// that sleeps pays for being woken, whoever wakes it: each transfer has a bare wake beside it, of a thread that works as long.
// Usage: thread-cost.ts [LIBRARY]. Prints a line of JSON for each form of a transfer and number of blocks, and the worst.
import { bareWake } from '../../bench/support/bare-wake.ts'
import { threadCpuNs } from '../../bench/support/cpu-clock.ts'
import { CudaDevice } from '../../src/l0/cuda-device.ts'
import type { BlockLists } from '../../src/l0/device.ts'
import { probeCuda } from '../../src/native/cuda.ts'

const MIB = 1024 ** 2
const POOL_BYTES = 64 * MIB
const BLOCK_BYTES = 4096
const BLOCKS = POOL_BYTES / BLOCK_BYTES
const PLANES = 64
const BLOCKS_PER_ROW = 128
const ROUNDS = 25
const MOST_US = 10

const [library = ''] = process.argv.slice(2)
const driver = probeCuda(library)
if (!driver.available) throw new Error(driver.reason)
const device = new CudaDevice({ library, ordinal: 0, measureSeconds: 0.6 }, driver)
device.open(POOL_BYTES, new Uint8Array(POOL_BYTES))
const stream = device.createStream()
const layout = device.addLayout(new Array<number>(PLANES).fill(0), {
  planes: Array.from({ length: PLANES }, (_, plane) => (plane * POOL_BYTES) / PLANES),
  blockStride: BLOCK_BYTES,
  blockBytes: BLOCK_BYTES,
})
/** Every block is followed by one that lies elsewhere, so that none of their copies merge. */
const lists: BlockLists = {
  next: Int32Array.from({ length: BLOCKS }, (_, block) => (block + 257) % BLOCKS),
  blockBytes: BLOCK_BYTES,
}

type Submit = (done: (seconds: number, error: Error | null) => void) => void

function rows(blocks: number): Submit {
  const count = Math.ceil(blocks / BLOCKS_PER_ROW)
  const rowBytes = (blocks / count) * BLOCK_BYTES
  const batch = {
    direction: 'load',
    count,
    lists,
    firstBlocks: Int32Array.from({ length: count }, (_, row) => row),
    skipBytes: new Float64Array(count),
    hostOffsets: Float64Array.from({ length: count }, (_, row) => row * rowBytes),
    rowBytes,
  } as const
  return (done) => device.submitRuns(stream, batch, done)
}

function paged(pieces: number): Submit {
  const blocks = Int32Array.from({ length: pieces / PLANES }, (_, i) => (i * 7) % 251)
  const hostOffsets = Float64Array.of(0)
  const batch = { direction: 'load', layout, blocks, blockCount: blocks.length, hostOffsets, shards: 1 } as const
  return (done) => device.submitPaged(stream, batch, done)
}

/** Microseconds of this thread for each of so many: from the first submit to the last fence, and of the submits. */
async function spend(submit: Submit, transfers: number): Promise<[all: number, submits: number]> {
  const all = Promise.withResolvers<void>()
  let left = transfers
  const startNs = threadCpuNs()
  for (let i = 0; i < transfers; i += 1) {
    submit((_, error) => {
      left -= 1
      if (error !== null) all.reject(error)
      else if (left === 0) all.resolve()
    })
  }
  const submittedNs = threadCpuNs()
  await all.promise
  return [(threadCpuNs() - startNs) / transfers / 1000, (submittedNs - startNs) / transfers / 1000]
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!
}

const wake = await bareWake()
const bare = (done: (seconds: number, error: Error | null) => void, busyUs: number) => wake(busyUs, () => done(0, null))
let worst = 0
for (const pieces of [64, 256, 4096, 16_384]) {
  const many = pieces > 1000 ? 20 : 200
  for (const [form, submit] of Object.entries({ rows: rows(pieces), paged: paged(pieces) })) {
    const [alone, submits, beyond, together]: [number[], number[], number[], number[]] = [[], [], [], []]
    for (let round = 0; round < ROUNDS; round += 1) {
      for (let i = 0; i < 4; i += 1) {
        const startMs = performance.now()
        const [all, handed] = await spend(submit, 1)
        const busyUs = (performance.now() - startMs) * 1000
        alone.push(all)
        submits.push(handed)
        beyond.push(all - (await spend((done) => bare(done, busyUs), 1))[0])
      }
      together.push((await spend(submit, many))[0])
    }
    // Noise of wakes can hide what a fence costs, but not what was measured of the submit.
    worst = Math.max(worst, median(beyond), median(submits))
    const figures = { usBeyondBareWake: beyond, usOfSubmit: submits, usAlone: alone, usOneOfMany: together }
    const medians = Object.fromEntries(Object.entries(figures).map(([name, all]) => [name, round2(median(all))]))
    console.log(JSON.stringify({ check: 'threadCost', form, pieces, many, ...medians }))
  }
}
const must =
  'microseconds of the JavaScript thread a transfer, beyond a bare wake, whatever its number of blocks; at most'
console.log(JSON.stringify({ must, measured: round2(worst), floor: MOST_US, holds: worst < MOST_US, rounds: ROUNDS }))
device.close()
process.exit()

function round2(value: number): number {
  return Math.round(value * 100) / 100
}
