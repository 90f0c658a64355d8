import { Worker } from 'node:worker_threads'
import type { ManualClock } from '../core/clock.ts'
import { CacheError, type ErrorCode } from '../core/errors.ts'
import { workerUrl } from '../core/worker-url.ts'
import type { MetricCells, MetricHandles } from '../metrics/cells.ts'
import { WorkerEnd } from './worker-end.ts'

/** What the metrics thread of a replay is started with. */
export interface ReplayMetricsData {
  readonly handles: MetricHandles
  /** Milliseconds of the replay's virtual clock; null = it runs by the machine's. */
  readonly virtualNow: SharedArrayBuffer | null
  readonly port: number
}

/** What the metrics thread says: first that it listens, or why it cannot; later what failed. */
export type ReplayMetricsMessage =
  | { readonly kind: 'listening'; readonly address: string }
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: 'failed'; readonly where: string; readonly message: string }

/** `/metrics` of a replay, on a thread of its own, as in service. */
export class ReplayMetrics {
  readonly #cells: MetricCells
  readonly #onError: (where: string, error: unknown) => void
  readonly #virtualClock: ManualClock | null
  /** The virtual time, for the other thread. */
  readonly #now = new SharedArrayBuffer(8)
  readonly #nowMs = new Float64Array(this.#now)
  #worker: Worker | null = null

  /** @param virtualClock null = the replay runs by the machine's clock. */
  constructor(cells: MetricCells, virtualClock: ManualClock | null, onError: (where: string, error: unknown) => void) {
    this.#cells = cells
    this.#virtualClock = virtualClock
    this.#onError = onError
  }

  /** @returns host:port in use. @throws CacheError PORT_TAKEN, CONFIG_INVALID */
  async serve(port: number): Promise<string> {
    this.tick()
    const virtualNow = this.#virtualClock === null ? null : this.#now
    const workerData: ReplayMetricsData = { handles: this.#cells.handles, virtualNow, port }
    const worker = new Worker(workerUrl(import.meta.url, './replay-metrics-worker'), { workerData })
    this.#worker = worker
    const answer = (await new WorkerEnd(worker, 'the metrics thread').message()) as ReplayMetricsMessage
    if (answer.kind === 'refused') throw new CacheError(answer.code, answer.message, { field: '--prometheus-port' })
    worker.on('message', (later: ReplayMetricsMessage) => {
      if (later.kind === 'failed') this.#onError(later.where, later.message)
    })
    return answer.kind === 'listening' ? answer.address : ''
  }

  /** Tells the other thread the virtual time. */
  tick(): void {
    if (this.#virtualClock !== null) this.#nowMs[0] = this.#virtualClock.nowMs()
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
    this.#worker = null
  }
}
