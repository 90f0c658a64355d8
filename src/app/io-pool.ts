import { MessageChannel, Worker } from 'node:worker_threads'
import { CallPort, remoteOf } from '../core/rpc.ts'
import { workerUrl } from '../core/worker-url.ts'
import type { BackendOptions } from '../l2/options.ts'
import { AdapterLink, type RemoteAdapter } from '../l2/remote-adapter.ts'
import type { SharedSegment } from '../native/shared-memory.ts'
import type { ChecksumPort } from '../transfer/checksums.ts'
import type { IoWorkerData } from './io-worker.ts'
import { WorkerEnd } from './worker-end.ts'

interface IoWorker {
  readonly worker: Worker
  readonly adapters: AdapterLink
  readonly calls: CallPort
  readonly sums: ChecksumPort
}

/** The io workers of an engine. Adapters are spread over them in turn, and so are checksums. */
export class IoPool implements ChecksumPort {
  readonly #workers: IoWorker[] = []
  #nextSums = 0
  #nextAdapter = 0
  #isClosing = false

  /** @param onLost told when a worker ends by itself: its adapters fail from then on. */
  static async start(count: number, arena: SharedSegment, onLost: (reason: string) => void): Promise<IoPool> {
    const pool = new IoPool()
    try {
      await Promise.all(Array.from({ length: count }, () => pool.#open(arena, onLost)))
    } catch (error) {
      await pool.close()
      throw error
    }
    return pool
  }

  /** An adapter that works on one of the workers, not yet open. */
  adapter(backend: BackendOptions): RemoteAdapter {
    const { adapters } = this.#workers[this.#nextAdapter % this.#workers.length]!
    this.#nextAdapter += 1
    return adapters.adapter(backend)
  }

  sums(offsets: Float64Array, lengths: Float64Array): Promise<Uint32Array> {
    const { sums } = this.#workers[this.#nextSums % this.#workers.length]!
    this.#nextSums += 1
    return sums.sums(offsets, lengths)
  }

  /** Ends the workers. Close the adapters first. */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all(
      this.#workers.map(({ worker, calls }) => {
        calls.close()
        return worker.terminate()
      }),
    )
  }

  async #open(arena: SharedSegment, onLost: (reason: string) => void): Promise<void> {
    const forAdapters = new MessageChannel()
    const forSums = new MessageChannel()
    const workerData: IoWorkerData = { arena: arena.handle, adapters: forAdapters.port2, sums: forSums.port2 }
    const transferList = [forAdapters.port2, forSums.port2]
    const worker = new Worker(workerUrl(import.meta.url, './io-worker'), { workerData, transferList })
    const adapters = new AdapterLink(forAdapters.port1, arena.memory)
    const calls = new CallPort(forSums.port1)
    const end = new WorkerEnd(worker, 'an io worker')
    void end.reason.then(({ message }) => {
      adapters.lose(message)
      calls.close()
      forAdapters.port1.close()
      if (!this.#isClosing) onLost(message)
    })
    this.#workers.push({ worker, adapters, calls, sums: remoteOf<ChecksumPort>(calls, ['sums']) })
    await end.message()
  }
}
