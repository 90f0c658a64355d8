import { createRequire } from 'node:module'
import { Worker, workerData } from 'node:worker_threads'
import type { Addon } from '../../../src/native/addon.ts'
import { random } from '../random.ts'

// Calls every function of a binary of the addon with memory of exact sizes, right and wrong, on two threads. Run under a
// sanitizer, which ends the process at the first byte that is read or written beside it.
//
//     node addon-workout.ts BINARY SEED STEPS
const isWorker = workerData !== null
const [binary, seed, steps] = isWorker ? (workerData as string[]) : process.argv.slice(2)
const addon = createRequire(import.meta.url)(binary!) as Addon
const next = random(Number(seed) + (isWorker ? 1_000 : 0))

/** Bytes of which some make numbers of MessagePack. */
function bytes(length: number): Uint8Array {
  return new Uint8Array(length).map(() => (next(3) === 0 ? 0xcc + next(8) : next(256)))
}

function offsets(count: number, limit: number): Float64Array {
  return new Float64Array(count).map(() => next(limit))
}

const work: readonly (() => unknown)[] = [
  () => addon.crc32(bytes(next(2_000)), next(2 ** 32)),
  () => {
    const chunkTokens = 1 + next(next(10) === 0 ? 2_000 : 100)
    const chunks = next(4)
    const tokens = new Uint32Array(chunks * chunkTokens + next(chunkTokens))
    addon.hashChunks(bytes(32 + (next(20) === 0 ? 1 : 0)), tokens, chunkTokens, new Uint8Array(32 * next(5)))
  },
  () => {
    const message = bytes(next(400))
    const words = new Uint32Array(next(100))
    addon.readWords(message, next(message.length + 2), words, next(words.length + 2))
  },
  () => {
    const length = next(100) === 0 ? 9_000_000 : next(2_000)
    const count = next(6)
    const [target, source] = [new Uint8Array(length), new Uint8Array(length)]
    addon.copyRanges(target, source, offsets(count, 900), offsets(count, 900), offsets(count, length), count, next(5))
  },
]

if (!isWorker) {
  const worker = new Worker(new URL(import.meta.url), { workerData: [binary, seed, steps] })
  worker.on('exit', (code) => {
    if (code === 0) console.log('done')
    else process.exitCode = 1
  })
  worker.on('error', (error) => console.error(error))
}
for (let step = 0; step < Number(steps); step += 1) {
  try {
    work[next(work.length)]!()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
}
