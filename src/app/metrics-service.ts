import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import { type Clock, SystemClock } from '../core/clock.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { LOOPS } from '../events/counters.ts'
import type { MetricCells } from '../metrics/cells.ts'
import { Exposition } from '../metrics/exposition.ts'
import { hrTimeOf, otlpBatches } from '../metrics/otlp.ts'
import { ProcessMetrics } from '../metrics/process-metrics.ts'
import type { MetricFacts } from '../metrics/readings.ts'
import { Recorder } from '../metrics/recorder.ts'
import { SnapshotReader } from '../metrics/snapshot.ts'
import type { WouldHit } from '../metrics/would-hit.ts'
import { MetricsServer } from '../server/metrics/metrics-server.ts'
import { openScrapeFiles } from '../server/metrics/scrape-files.ts'
import type { PrometheusOptions, PushOptions } from '../server/options.ts'
import { MetricsPush, type PushLog } from '../server/push/metrics-push.ts'
import { OtlpSender, type SenderOptions } from '../server/push/otlp-sender.ts'
import { pushResource } from '../server/push/resource.ts'
import type { TraceStates } from '../server/push/trace-states.ts'
import { DrainPace } from './drain-pace.ts'
import { TraceService } from './trace-service.ts'

/** The events of one slice: the thread is yielded between slices. */
const SLICE_EVENTS = 8_192
const BUS_ROW = LOOPS.indexOf('event_bus')
/** Time for the last push of a stop. */
const LAST_PUSH_MS = 3_000

/** Where metrics are pushed, with the secrets that the options name. */
export interface PushTarget {
  readonly options: PushOptions
  readonly sender: SenderOptions
  readonly version: string
}

export interface MetricsServiceParts {
  readonly cells: MetricCells
  /** The clock of the engine, by which ages are told. */
  readonly clock: Clock
  readonly facts: MetricFacts
  /** Spans of the data thread, and what came with their traces; absent = nothing is traced. */
  readonly spans?: { readonly ring: SharedArrayBuffer; readonly states: TraceStates }
  /** Of this process; absent = made here. It watches the thread as long as that lives. */
  readonly process?: ProcessMetrics
  readonly onError: (where: string, error: unknown) => void
}

/**
 * Metrics on the service thread: drains the event bus into histograms, and either serves `GET /metrics` or pushes
 * the same series.
 */
export class MetricsService {
  readonly #cells: MetricCells
  readonly #recorder: Recorder
  readonly #clock: Clock
  readonly #reader: SnapshotReader
  readonly #process: ProcessMetrics
  readonly #exposition: Exposition
  readonly #loop: SupervisedLoop
  readonly #onError: MetricsServiceParts['onError']
  readonly #spans: NonNullable<MetricsServiceParts['spans']> | null
  readonly #startedMs: number
  readonly #pace = new DrainPace()
  #server: MetricsServer | null = null
  #push: { readonly metrics: MetricsPush; readonly sender: OtlpSender } | null = null
  #traces: TraceService | null = null

  constructor({ cells, clock, facts, spans, process = new ProcessMetrics(), onError }: MetricsServiceParts) {
    this.#cells = cells
    this.#spans = spans ?? null
    this.#process = process
    this.#onError = onError
    this.#recorder = new Recorder(cells)
    this.#clock = clock
    this.#startedMs = clock.wallMs()
    this.#reader = new SnapshotReader({ cells, recorder: this.#recorder, clock, facts })
    this.#exposition = new Exposition(this.#reader, this.#process)
    this.#loop = new SupervisedLoop({
      name: 'event_bus',
      intervalMs: () => this.#pace.delayMs,
      clock: new SystemClock(),
      cycle: () => this.#drain(),
      onError: (loop, error) => {
        cells.loops.add(BUS_ROW, 'errors', 1)
        onError(loop, error)
      },
      onBeat: () => cells.loops.set(BUS_ROW, 'lastBeatMs', clock.nowMs()),
    })
  }

  /** The live estimate of what another L1 size would have hit. */
  get wouldHit(): WouldHit {
    return this.#recorder.wouldHit
  }

  /** Starts to drain the bus. */
  start(): void {
    this.#loop.start()
  }

  /**
   * @param onReload told which option's file has changed and was read again.
   * @returns host:port in use.
   * @throws CacheError PORT_TAKEN, CONFIG_INVALID
   */
  async listen(options: PrometheusOptions, onReload?: (flag: string) => void): Promise<string> {
    const { host, port } = options
    const render: Exposition['render'] = (format) => this.#exposition.render(format)
    const onError = (error: unknown) => this.#onError('metrics', error)
    const files = openScrapeFiles(options, this.#clock, onError, onReload)
    this.#server = new MetricsServer({ host, port, clock: this.#clock, render, files, onError })
    const used = await this.#server.listen()
    return used.host.includes(':') ? `[${used.host}]:${used.port}` : `${used.host}:${used.port}`
  }

  /** Starts to push. Nothing is sent before the first interval is over. */
  push({ options, sender: senderOptions, version }: PushTarget, log: PushLog): void {
    const sender = new OtlpSender(senderOptions)
    const common = {
      sender,
      encoding: options.encoding,
      resource: pushResource(options, version),
      scope: { name: 'kvtier', version },
      intervalMs: options.intervalMs,
      clock: this.#clock,
      random: () => randomInt(2 ** 32) / 2 ** 32,
      log,
    }
    const metrics = new MetricsPush({ ...common, collect: () => this.#batches() })
    metrics.start()
    this.#push = { metrics, sender }
    if (this.#spans === null) return
    this.#traces = new TraceService({ ...common, ...this.#spans, cells: this.#cells, ratio: options.traceRatio })
  }

  /** Records what is left on the bus, pushes a last time, and stops listening. */
  async close(): Promise<void> {
    this.#loop.stop()
    this.#recorder.drain(this.#cells.bus.capacityEvents)
    await Promise.all([this.#push?.metrics.close(LAST_PUSH_MS), this.#traces?.close(LAST_PUSH_MS)])
    await this.#push?.sender.close()
    await this.#server?.close()
  }

  /** All series of now, cells first. The thread is yielded between batches. */
  async *#batches(): AsyncGenerator<MetricData[]> {
    const times = { start: hrTimeOf(this.#startedMs), end: hrTimeOf(this.#clock.wallMs()) }
    for (const batch of otlpBatches(this.#reader.take(), times)) {
      yield batch
      await nextTurn()
    }
    yield await this.#process.data(times)
  }

  #drain(): void {
    this.#traces?.drain()
    const delivered = this.#recorder.drain(SLICE_EVENTS)
    this.#pace.note(delivered)
    if (delivered === SLICE_EVENTS) this.#loop.wake()
  }
}
