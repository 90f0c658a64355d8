import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../core/clock.ts'
import { CacheError, type ErrorCode } from '../core/errors.ts'
import { workerUrl } from '../core/worker-url.ts'
import type { MetricCells } from '../metrics/cells.ts'
import type { Terminal } from './terminal.ts'

/** What the metrics thread says once it listens, or why it cannot. */
export type MetricsAnswer =
  | { readonly kind: 'listening'; readonly address: string }
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }

/** `/metrics` of a replay, on a thread of its own, as in service. */
export class ReplayMetrics {
  readonly #cells: MetricCells
  readonly #clock: Clock
  readonly #terminal: Terminal
  /** The replay's clock, for the other thread: it may be virtual. */
  readonly #now = new Float64Array(new SharedArrayBuffer(8))
  #worker: Worker | null = null

  constructor(cells: MetricCells, clock: Clock, terminal: Terminal) {
    this.#cells = cells
    this.#clock = clock
    this.#terminal = terminal
  }

  /** @throws CacheError PORT_TAKEN */
  async serve(port: number): Promise<void> {
    this.tick()
    const workerData = { handles: this.#cells.handles, now: this.#now.buffer, port }
    this.#worker = new Worker(workerUrl(import.meta.url, './replay-metrics-worker'), { workerData })
    const [answer] = (await once(this.#worker, 'message')) as [MetricsAnswer]
    if (answer.kind === 'refused') throw new CacheError(answer.code, answer.message, { field: '--prometheus-port' })
    this.#terminal.log(`metrics at http://${answer.address}/metrics`)
  }

  /** Tells the other thread the time. */
  tick(): void {
    this.#now[0] = this.#clock.nowMs()
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
    this.#worker = null
  }
}
