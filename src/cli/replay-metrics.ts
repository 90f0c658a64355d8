import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { ManualClock } from '../core/clock.ts'
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
  readonly #terminal: Terminal
  readonly #virtualClock: ManualClock | null
  /** The virtual time, for the other thread. */
  readonly #now = new Float64Array(new SharedArrayBuffer(8))
  #worker: Worker | null = null

  /** @param virtualClock null = the replay runs by the machine's clock. */
  constructor(cells: MetricCells, virtualClock: ManualClock | null, terminal: Terminal) {
    this.#cells = cells
    this.#virtualClock = virtualClock
    this.#terminal = terminal
  }

  /** @throws CacheError PORT_TAKEN */
  async serve(port: number): Promise<void> {
    this.tick()
    const virtualNow = this.#virtualClock === null ? null : this.#now.buffer
    const workerData = { handles: this.#cells.handles, virtualNow, port }
    this.#worker = new Worker(workerUrl(import.meta.url, './replay-metrics-worker'), { workerData })
    const [answer] = (await once(this.#worker, 'message')) as [MetricsAnswer]
    if (answer.kind === 'refused') throw new CacheError(answer.code, answer.message, { field: '--prometheus-port' })
    this.#terminal.log(`metrics at http://${answer.address}/metrics`)
  }

  /** Tells the other thread the virtual time. */
  tick(): void {
    if (this.#virtualClock !== null) this.#now[0] = this.#virtualClock.nowMs()
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
    this.#worker = null
  }
}
