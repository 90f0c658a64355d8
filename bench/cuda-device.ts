import { CudaDevice } from '../src/l0/cuda-device.ts'
import type { CopyBatch } from '../src/l0/device.ts'
import { probeCuda } from '../src/native/cuda.ts'
import { openStandIn, standInDriver } from '../test/support/stand-in-driver.ts'
import { threadCpuNs } from './support/cpu-clock.ts'

/**
 * A CUDA device: what a transfer costs the data thread, by its number of pieces. On the tests' driver: no speed of a GPU.
 *
 * CPU time of this thread alone: submit, the wake, and the fence. Must hold: 10 us a transfer. Paged
 * transfers hand over block ids of one layout of 64 planes; batches hand over an offset pair and a length for each piece.
 */
const MIB = 1024 ** 2
const POOL_BYTES = 256 * MIB
const PIECE_BYTES = 4096
const PLANES = 64
const ROUNDS = 15
const TRANSFERS = 200

const found = await standInDriver()
if (typeof found === 'string') throw new Error(found)
const standIn = openStandIn(found)
const driver = probeCuda(found.library)
if (!driver.available) throw new Error(driver.reason)
const device = new CudaDevice({ library: found.library, ordinal: 0, methods: ['batch'] }, driver)
device.open(POOL_BYTES, new Uint8Array(POOL_BYTES))
// On a GPU no copy takes this processor's time or caches.
standIn.control('move 0')
const stream = device.createStream()
const layout = device.addLayout(0, {
  planes: Array.from({ length: PLANES }, (_, plane) => (plane * POOL_BYTES) / PLANES),
  blockStride: PIECE_BYTES,
  blockBytes: PIECE_BYTES,
})

function batchOf(pieces: number): CopyBatch {
  const at = (i: number) => (i % (POOL_BYTES / PIECE_BYTES)) * PIECE_BYTES
  return {
    direction: 'load',
    count: pieces,
    deviceOffsets: Float64Array.from({ length: pieces }, (_, i) => at(pieces - 1 - i)),
    hostOffsets: Float64Array.from({ length: pieces }, (_, i) => at(i)),
    lengths: new Float64Array(pieces).fill(PIECE_BYTES),
  }
}

function spread(figures: number[]): string {
  figures.sort((a, b) => a - b)
  return `${figures[ROUNDS >> 1]!.toFixed(2)} us (${figures[0]!.toFixed(2)} to ${figures.at(-1)!.toFixed(2)})`
}

/** Microseconds of this thread a transfer: median, least and most of the rounds. */
async function measure(submit: (done: () => void) => void, transfers: number): Promise<string> {
  const figures: number[] = []
  const submits: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
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
    submits.push((submittedNs - startNs) / transfers / 1000)
    figures.push((threadCpuNs() - startNs) / transfers / 1000)
  }
  return `${spread(figures)}, of which submit ${spread(submits)}`
}

for (const pieces of [1, 16, 256, 4096, 16_384]) {
  const transfers = pieces > 1000 ? TRANSFERS / 10 : TRANSFERS
  const batch = batchOf(pieces)
  console.log(`batch of ${pieces} pieces: ${await measure((done) => device.submit(stream, batch, done), transfers)}`)
  if (pieces < PLANES) continue
  const blocks = Int32Array.from({ length: pieces / PLANES }, (_, i) => (i * 7) % 997)
  const paged = {
    direction: 'load',
    layout,
    blocks,
    blockCount: blocks.length,
    hostOffsets: Float64Array.of(0),
    shards: 1,
  } as const
  const figure = await measure((done) => device.submitPaged(stream, paged, done), transfers)
  console.log(`paged, ${blocks.length} blocks in ${PLANES} planes = ${pieces} pieces: ${figure}`)
}
// What is left is mostly the wake, where each transfer has one of its own: beside it, a timer's.
const wake = (done: () => void): void => void setTimeout(done, 1)
console.log(`a bare wake of the event loop: ${await measure(wake, 1)}`)
const { wakes } = device.figures()!
console.log(`wakes ${wakes}; violations ${standIn.count('violations')}`)
device.close()
