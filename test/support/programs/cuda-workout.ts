import { createRequire } from 'node:module'
import { Worker, workerData } from 'node:worker_threads'
import type { Addon } from '../../../src/native/addon.ts'
import { type CudaFunctions, FENCE_WORDS } from '../../../src/native/cuda.ts'
import { random } from '../random.ts'
import { openStandIn } from '../stand-in-driver.ts'

// Opens, uses and closes devices of the stand-in driver through the functions of a binary of the addon, with right and
// wrong arguments and failing calls; then in threads that end, or are ended, with transfers under way. Run under a
// sanitizer, which ends the process at the first byte that is read or written beside what was given.
//
//     node cuda-workout.ts BINARY LIBRARY SEED CYCLES
const POOL_BYTES = 64 * 1024
const BLOCK_BYTES = 1024
const BLOCKS = POOL_BYTES / BLOCK_BYTES
const CALLS = ['cuMemAlloc', 'cuMemHostRegister', 'cuStreamCreate', 'cuEventCreate', 'cuEventRecord', 'cuLaunchKernel']
const LATER_CALLS = [
  'cuEventSynchronize',
  'cuMemcpyHtoDAsync',
  'cuMemcpyDtoHAsync',
  'cuMemcpyBatchAsync',
  'cuIpcGetMemHandle',
]
const RESULTS = [1, 2, 46, 700, 719, 801, 999]
const COUNTERS = ['allocated', 'registered', 'streams', 'events', 'modules', 'imported', 'contexts', 'violations']

const isWorker = workerData !== null
const [binary, library, seed, cycles] = isWorker ? (workerData as string[]) : process.argv.slice(2)
const addon = createRequire(import.meta.url)(binary!) as Addon
const next = random(Number(seed))
const standIn = isWorker ? null : openStandIn({ library: library! })
let pending = 0
let onRest: (() => void) | null = null

/** A device on memory of exact sizes, or null. Two fences fit its mail. */
function open(): CudaFunctions | null {
  const host = new Uint8Array(2 * POOL_BYTES)
  const mail = new Float64Array(2 * FENCE_WORDS)
  const ordinal = next(20) === 0 ? 7 : 0
  const device = addon.cudaOpen(library!, ordinal, POOL_BYTES, host, 1 + 2 * next(4), mail, (count) => {
    pending -= count
    if (pending === 0) onRest?.()
  })
  return typeof device === 'string' ? null : device
}

/** Whole numbers below `limit`, now and then one that is not. */
function numbers(count: number, limit: number): Float64Array {
  return Float64Array.from({ length: count }, () => (next(60) === 0 ? limit * 2 + 0.5 : next(limit)))
}

function blocksOf(count: number): Int32Array {
  return Int32Array.from({ length: count }, () => (next(60) === 0 ? -2 + next(2 * BLOCKS) : next(BLOCKS)))
}

const work: readonly ((device: CudaFunctions) => unknown)[] = [
  (device) => {
    const count = next(9)
    const lengths = new Float64Array(count).fill(1 + next(BLOCK_BYTES))
    const said = count + (next(20) === 0 ? 1 : 0)
    const [at, to] = [numbers(count, POOL_BYTES / 2), numbers(count, POOL_BYTES / 2)]
    device.submit(1, next(3), next(2), next(10) === 0 ? 1 : 0, said, at, to, lengths)
    pending += 1
  },
  (device) => {
    const [shards, each] = [next(3), 1 + next(5)]
    device.submitPaged(
      2,
      next(3),
      next(2),
      next(3),
      blocksOf(shards * each),
      shards * each,
      numbers(shards, 1024),
      shards,
    )
    pending += 1
  },
  (device) => {
    const rows = next(5)
    const said = rows + (next(20) === 0 ? 1 : 0)
    const [skips, hosts] = [numbers(rows, 2 * BLOCK_BYTES), numbers(rows, POOL_BYTES)]
    device.submitRuns(3, next(3), next(2), said, blocksOf(rows), skips, hosts, next(6 * BLOCK_BYTES))
    pending += 1
  },
  (device) => device.useBlocks(blocksOf(BLOCKS).fill(-1, BLOCKS - 1), next(9) === 0 ? 0 : BLOCK_BYTES),
  (device) => {
    const planes = numbers(next(4), POOL_BYTES / 2)
    const pools = Int32Array.from(
      { length: planes.length + (next(9) === 0 ? 1 : 0) },
      () => next(3) - (next(9) === 0 ? 1 : 0),
    )
    return device.addLayout(pools, planes, BLOCK_BYTES * (1 + next(2)), BLOCK_BYTES)
  },
  (device) => {
    const handle = device.exportPool()
    if (typeof handle === 'string') return
    const pool = device.importPool(next(9) === 0 ? handle.subarray(1) : handle, next(2 * BLOCK_BYTES), POOL_BYTES / 2)
    if (typeof pool !== 'number' || next(2) !== 0) return
    device.closePool(4, pool)
    pending += 1
  },
  (device) => {
    device.closePool(5, next(4))
    pending += 1
  },
  (device) => device.wait(next(3), next(3)),
  (device) => device.semaphore(1, next(3), 0, next(POOL_BYTES), next(9)),
  (device) => device.semaphore(0, next(3), 0, 8 * next(BLOCKS), 0),
  (device) => device.measure(next(9) === 0 ? 0.001 : 0),
  (device) => JSON.parse(device.figures()),
  (device) => device.nameOf(next(1000)),
  (device) => device.lostWith(),
  (device) => device.createStream(),
]

function step(device: CudaFunctions): void {
  try {
    work[next(work.length)]!(device)
  } catch (error) {
    const isRefused = error instanceof RangeError || (error as { code?: string }).code === 'ERR_CLOSED'
    if (!isRefused) throw error
  }
}

async function cycle(): Promise<void> {
  standIn!.control('revive')
  standIn!.control('own 1')
  const calls = next(2) === 0 ? CALLS : LATER_CALLS
  if (next(3) !== 0) {
    standIn!.control(`fail ${calls[next(calls.length)]} ${1 + next(4)} ${RESULTS[next(RESULTS.length)]}`)
  }
  pending = 0
  const device = open()
  if (device === null) return
  const isLate = next(4) === 0
  for (const stream of [0, 1]) if (device.createStream() !== stream) break
  for (let i = next(30); i > 0; i -= 1) step(device)
  const isAtRest = new Promise<void>((resolve) => {
    onRest = resolve
  })
  if (!isLate && pending > 0) await isAtRest
  if (!device.close(30_000)) throw new Error('the device did not come to rest')
  for (let i = 0; i < 3; i += 1) step(device)
}

/** A thread that leaves its device open, with transfers under way; it ends by itself or is ended. */
async function leave(isEnded: boolean): Promise<void> {
  const worker = new Worker(new URL(import.meta.url), { workerData: [binary, library, String(next(1000)), '0'] })
  const exited = new Promise((resolve) => worker.once('exit', resolve))
  worker.once('error', (error) => {
    throw error
  })
  await new Promise((resolve) => worker.once('message', resolve))
  if (isEnded) await worker.terminate()
  else worker.postMessage('end')
  await exited
}

if (isWorker) {
  const { parentPort } = await import('node:worker_threads')
  const device = open()
  device?.createStream()
  for (let i = 0; device !== null && i < 50; i += 1) step(device)
  parentPort!.once('message', () => process.exit(0))
  parentPort!.postMessage('under way')
} else {
  for (let i = 0; i < Number(cycles); i += 1) await cycle()
  standIn!.control('revive')
  for (let i = 0; i < 6; i += 1) await leave(i % 2 === 0)
  const left = COUNTERS.filter((name) => standIn!.count(name) !== 0)
  console.log(
    left.length === 0 ? 'done' : `left: ${left.map((name) => `${standIn!.count(name)} of ${name}`).join(', ')}`,
  )
}
