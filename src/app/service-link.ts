import { once } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import type { ActivityDraft } from '../activities/activity.ts'
import { CallPort, remoteOf, serveCalls } from '../core/rpc.ts'
import { workerUrl } from '../core/worker-url.ts'
import type { EnginePort } from '../server/http/engine-port.ts'
import type { StoragePort } from '../server/http/storage-port.ts'
import type { ServiceControl, ServiceData } from './service-thread.ts'
import { WorkerEnd } from './worker-end.ts'

/** The service thread as the data thread sees it. */
export class ServiceLink {
  readonly #worker: Worker
  readonly #calls: CallPort
  readonly #control: ServiceControl
  readonly #end: WorkerEnd
  readonly #onBug: (error: unknown) => void
  #isClosing = false

  /**
   * Starts the thread; nothing listens yet.
   *
   * @param answering what answers the thread's questions.
   * @param onLost told when the thread ends by itself.
   */
  constructor(
    data: Omit<ServiceData, 'engine' | 'storage' | 'control'>,
    answering: { readonly engine: EnginePort; readonly storage: StoragePort },
    onBug: (error: unknown) => void,
    onLost: (error: unknown) => void,
  ) {
    this.#onBug = onBug
    const forEngine = new MessageChannel()
    const forStorage = new MessageChannel()
    const forControl = new MessageChannel()
    serveCalls(forEngine.port1, answering.engine, onBug)
    serveCalls(forStorage.port1, answering.storage, onBug)
    this.#calls = new CallPort(forControl.port1)
    this.#control = remoteOf<ServiceControl>(this.#calls, ['listen', 'record', 'close'])
    const workerData: ServiceData = {
      ...data,
      engine: forEngine.port2,
      storage: forStorage.port2,
      control: forControl.port2,
    }
    const transferList = [forEngine.port2, forStorage.port2, forControl.port2]
    this.#worker = new Worker(workerUrl(import.meta.url, './service-thread'), { workerData, transferList })
    this.#end = new WorkerEnd(this.#worker, 'the service thread')
    void this.#end.reason.then((reason) => {
      this.#calls.close()
      forEngine.port1.close()
      forStorage.port1.close()
      if (!this.#isClosing) onLost(reason)
    })
  }

  /** Opens the surfaces. @returns host:port of each that is on. @throws CacheError; THREAD_ENDED when the thread did */
  listen(): Promise<{ http: string; metrics?: string }> {
    return this.#end.explain(this.#control.listen())
  }

  /**
   * Posts an act of the engine itself to the activity log and goes on. @param draft `occurredAtMs` is now, when absent.
   */
  record(draft: ActivityDraft): void {
    this.#control.record(draft).catch((error: unknown) => {
      if (!this.#isClosing) this.#onBug(error)
    })
  }

  /** Closes the surfaces in order, then ends the thread; just ends it after `deadlineMs`. */
  async close(deadlineMs: number): Promise<void> {
    this.#isClosing = true
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), deadlineMs)
    const late = once(deadline.signal, 'abort')
    await Promise.race([this.#control.close().catch(() => undefined), late])
    clearTimeout(timer)
    this.#calls.close()
    await this.#worker.terminate()
  }
}
