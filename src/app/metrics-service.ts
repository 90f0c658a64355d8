import { type Clock, SystemClock } from '../core/clock.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { LOOPS } from '../events/counters.ts'
import type { MetricCells } from '../metrics/cells.ts'
import { Exposition } from '../metrics/exposition.ts'
import { ProcessMetrics } from '../metrics/process-metrics.ts'
import type { MetricFacts } from '../metrics/readings.ts'
import { Recorder } from '../metrics/recorder.ts'
import { SnapshotReader } from '../metrics/snapshot.ts'
import { MetricsServer } from '../server/metrics/metrics-server.ts'
import type { PrometheusOptions } from '../server/options.ts'

/** How often the bus is drained, and the events of one slice: the thread is yielded between slices. */
const DRAIN_MS = 10
const SLICE_EVENTS = 8_192
const BUS_ROW = LOOPS.indexOf('event_bus')

export interface MetricsServiceParts {
  readonly cells: MetricCells
  /** The clock of the engine, by which ages are told. */
  readonly clock: Clock
  readonly facts: MetricFacts
  readonly onError: (where: string, error: unknown) => void
}

/** Metrics on the service thread: drains the event bus into histograms, and serves `GET /metrics` when asked to. */
export class MetricsService {
  readonly #cells: MetricCells
  readonly #recorder: Recorder
  readonly #exposition: Exposition
  readonly #loop: SupervisedLoop
  readonly #onError: MetricsServiceParts['onError']
  #server: MetricsServer | null = null

  constructor({ cells, clock, facts, onError }: MetricsServiceParts) {
    this.#cells = cells
    this.#onError = onError
    this.#recorder = new Recorder(cells)
    const reader = new SnapshotReader({ cells, recorder: this.#recorder, clock, facts })
    this.#exposition = new Exposition(reader, new ProcessMetrics())
    this.#loop = new SupervisedLoop({
      name: 'event_bus',
      intervalMs: DRAIN_MS,
      clock: new SystemClock(),
      cycle: () => this.#drain(),
      onError: (loop, error) => {
        cells.loops.add(BUS_ROW, 'errors', 1)
        onError(loop, error)
      },
      onBeat: () => cells.loops.set(BUS_ROW, 'lastBeatMs', clock.nowMs()),
    })
  }

  /** Starts to drain the bus. */
  start(): void {
    this.#loop.start()
  }

  /** @returns host:port in use. @throws CacheError PORT_TAKEN, CONFIG_INVALID */
  async listen({ host, port }: PrometheusOptions): Promise<string> {
    const render: Exposition['render'] = (format) => this.#exposition.render(format)
    const onError = (error: unknown) => this.#onError('metrics', error)
    this.#server = new MetricsServer({ host, port, render, onError })
    const used = await this.#server.listen()
    return used.host.includes(':') ? `[${used.host}]:${used.port}` : `${used.host}:${used.port}`
  }

  /** Records what is left on the bus and stops listening. */
  async close(): Promise<void> {
    this.#loop.stop()
    this.#recorder.drain(this.#cells.bus.capacityEvents)
    await this.#server?.close()
  }

  #drain(): void {
    const delivered = this.#recorder.drain(SLICE_EVENTS)
    if (delivered === SLICE_EVENTS) this.#loop.wake()
  }
}
