import { createRequire } from 'node:module'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import type { Addon } from '../../../src/native/addon.ts'
import { CudaLife } from '../cuda-life.ts'
import { random } from '../random.ts'
import { openStandIn } from '../stand-in-driver.ts'

// Lives of CUDA devices in several threads at once, with a binary of the addon and the stand-in driver, in rounds: one
// call of the driver fails in most of them, and an error that ends the context ends it for all. Threads end their
// device, or end with it under way, or are ended. After each round nothing of them may be left.
//
//     node cuda-life.ts BINARY LIBRARY SEED ROUNDS THREADS
const CALLS = [
  'cuDevicePrimaryCtxRetain',
  'cuMemAlloc',
  'cuMemHostRegister',
  'cuModuleLoadData',
  'cuStreamCreate',
  'cuEventCreate',
  'cuEventRecord',
  'cuEventSynchronize',
  'cuEventElapsedTime',
  'cuMemcpyHtoDAsync',
  'cuMemcpyDtoHAsync',
  'cuMemcpyBatchAsync',
  'cuLaunchKernel',
]
const RESULTS = [1, 2, 46, 700, 719, 801, 999]
const COUNTERS = ['allocated', 'registered', 'streams', 'events', 'modules', 'imported', 'contexts', 'violations']
const STEPS_MAX = 40

/** How a life ends: at rest, with transfers under way, with the thread, with the thread from outside. */
const ENDS = ['rest', 'close', 'exit', 'kill'] as const
type End = (typeof ENDS)[number]

async function live(next: (limit: number) => number, library: string, addon: Addon, end: End): Promise<number> {
  const life = new CudaLife(next, library, addon)
  if (life.open()) {
    for (let i = next(STEPS_MAX); i > 0; i -= 1) await life.step()
    if (end === 'exit') process.exit(0)
    if (end === 'kill') return life.fences
    if (end === 'rest') await life.rest()
  }
  life.close()
  return life.fences
}

function serve(): void {
  const [binary, library, seed] = workerData as [string, string, string]
  const addon = createRequire(import.meta.url)(binary) as Addon
  const next = random(Number(seed))
  parentPort!.on('message', async (end: End) => {
    try {
      parentPort!.postMessage(await live(next, library, addon, end))
    } catch (error) {
      parentPort!.postMessage(String(error))
    }
  })
}

/** One thread, and another in its place once it has ended. */
class Thread {
  readonly #start: () => Worker
  #worker: Worker

  constructor(start: () => Worker) {
    this.#start = start
    this.#worker = start()
  }

  /** One life; resolves when it has ended. @returns its fences as far as they are known. @throws what it found */
  async run(end: End): Promise<number> {
    const worker = this.#worker
    const exit = Promise.withResolvers<number>()
    const answer = Promise.withResolvers<number | string>()
    const left = () => {
      exit.resolve(0)
      answer.resolve(0)
    }
    worker.once('exit', left).once('message', answer.resolve).once('error', answer.reject)
    worker.postMessage(end)
    const said = await answer.promise
    worker
      .removeAllListeners('message')
      .removeAllListeners('error')
      .on('error', (error) => exit.reject(error))
    if (end === 'kill') await worker.terminate()
    if (end === 'exit' || end === 'kill') {
      // A life that could not be opened has closed, and its thread is there to be ended.
      await worker.terminate()
      await exit.promise
      this.#worker = this.#start()
    }
    worker.removeListener('exit', left)
    if (typeof said === 'string') throw new Error(said)
    return said
  }

  async end(): Promise<void> {
    await this.#worker.terminate()
  }
}

async function main([binary, library, seed, rounds, threads]: string[]): Promise<void> {
  const standIn = openStandIn({ library: library! })
  const next = random(Number(seed))
  const start = () => new Worker(new URL(import.meta.url), { workerData: [binary, library, String(next(1e9))] })
  const all = Array.from({ length: Number(threads) }, () => new Thread(start))
  let fences = 0
  for (let round = 0; round < Number(rounds); round += 1) {
    standIn.control('revive')
    const fault = `fail ${CALLS[next(CALLS.length)]} ${1 + next(30)} ${RESULTS[next(RESULTS.length)]}`
    if (next(4) !== 0) standIn.control(fault)
    const ended = await Promise.all(all.map((thread) => thread.run(ENDS[next(8) === 0 ? 2 + next(2) : next(2)]!)))
    fences += ended.reduce((sum, one) => sum + one, 0)
    const left = COUNTERS.filter((name) => standIn.count(name) !== 0)
    if (left.length === 0) continue
    const text = left.map((name) => `${standIn.count(name)} of ${name}`).join(', ')
    throw new Error(`round ${round} of seed ${seed}, ${fault}: left ${text}`)
  }
  await Promise.all(all.map((thread) => thread.end()))
  console.log(`${rounds} rounds, ${fences > 0 ? 'with' : 'without'} fences`)
}

if (workerData !== null) serve()
else await main(process.argv.slice(2))
