import { MessageChannel, Worker } from 'node:worker_threads'
import { workerUrl } from '../core/worker-url.ts'
import { SharedHashLane, sliceMemory } from '../engine/hash-lane.ts'
import type { HashLane } from '../engine/hash-queue.ts'
import type { HashWorkerData } from './hash-worker.ts'
import { WorkerEnd } from './worker-end.ts'

/** A thread that does nothing but hash: a prompt never waits for storage there. */
export class HashThread {
  readonly lane: HashLane
  readonly #worker: Worker

  private constructor(worker: Worker, lane: HashLane) {
    this.#worker = worker
    this.lane = lane
  }

  static async start(): Promise<HashThread> {
    const { port1, port2 } = new MessageChannel()
    const memory = sliceMemory()
    const workerData: HashWorkerData = { port: port2, memory }
    const worker = new Worker(workerUrl(import.meta.url, './hash-worker'), { workerData, transferList: [port2] })
    const lane = new SharedHashLane(port1, memory)
    const end = new WorkerEnd(worker, 'the hashing thread')
    void end.reason.then(() => lane.close())
    await end.message()
    return new HashThread(worker, lane)
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}
