import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type MessagePort, workerData } from 'node:worker_threads'
import type { Action } from '../activities/actions.ts'
import { type ActivityDraft, SYSTEM_ACTOR } from '../activities/activity.ts'
import { ACTIVITY_FILE, type ActivityOptions } from '../activities/options.ts'
import { SystemClock } from '../core/clock.ts'
import { CallPort, serveCalls } from '../core/rpc.ts'
import { MetricCells, type MetricHandles } from '../metrics/cells.ts'
import type { MetricFacts } from '../metrics/readings.ts'
import { attachSegment, type SegmentHandle } from '../native/shared-memory.ts'
import { HttpService } from '../server/http/http-service.ts'
import { createLogger } from '../server/http/logger.ts'
import { OverviewSource } from '../server/http/overview-source.ts'
import { TokenStore } from '../server/http/token-store.ts'
import type { AuthOptions, HttpOptions, PrometheusOptions } from '../server/options.ts'
import { TraceStates } from '../server/push/trace-states.ts'
import { engineClient } from '../server/rpc/engine-client.ts'
import { storageClient } from '../server/rpc/storage-client.ts'
import type { TokenizerOptions } from '../tokenizer/options.ts'
import { TokenizerService } from '../tokenizer/tokenizer-service.ts'
import { ActivityThreads } from './activity-threads.ts'
import { MetricsService, type PushTarget } from './metrics-service.ts'
import type { TakenOver } from './take-over.ts'
import { yieldToOtherThreads } from './thread-priority.ts'

/** What the service thread is started with. */
export interface ServiceData {
  readonly arena: SegmentHandle
  readonly cells: MetricHandles
  readonly facts: MetricFacts
  readonly dataDir: string
  readonly logLevel: string
  readonly version: string
  /** The last engine of this directory did not stop in order. */
  readonly isRecovery: boolean
  /** Of L1, from the engine before; null = nothing. */
  readonly takenOver: TakenOver | null
  readonly activities: ActivityOptions
  readonly http: HttpOptions
  readonly auth: AuthOptions
  readonly prometheus: PrometheusOptions
  readonly tokenizer: TokenizerOptions
  /** Where metrics are pushed; null = nowhere. */
  readonly push: PushTarget | null
  /** The ring of ended spans; null = nothing is traced. */
  readonly spans: SharedArrayBuffer | null
  /** To the engine, and from whoever starts and stops this thread. */
  readonly engine: MessagePort
  readonly storage: MessagePort
  readonly control: MessagePort
}

/** What the data thread asks of the service thread. */
export interface ServiceControl {
  /** @returns host:port of each surface that is on. @throws CacheError PORT_TAKEN, CONFIG_INVALID, DATA_DIR_UNWRITABLE */
  listen(): Promise<{ http: string; metrics?: string }>
  /** Writes an act of the engine itself to the activity log. Resolves when the disk has it. */
  record(draft: ActivityDraft): Promise<void>
  /** Takes no more requests, answers those under way, records the stop. */
  close(): Promise<void>
}

// Entry of the service thread: HTTP, the audit trail, tokens and metrics. The engine is asked over a port; counters,
// events and the arena are shared memory.
class Service implements ServiceControl {
  readonly #data: ServiceData
  readonly #cells: MetricCells
  readonly #metrics: MetricsService
  readonly #clock = new SystemClock()
  readonly #logger
  readonly #traceStates = new TraceStates()
  readonly #activities = Promise.withResolvers<ActivityThreads>()
  #isOpen = false
  #http: HttpService | null = null
  #tokenizer: TokenizerService | null = null

  constructor(data: ServiceData) {
    this.#data = data
    this.#logger = createLogger(data.logLevel)
    this.#cells = MetricCells.attach(data.cells)
    this.#metrics = new MetricsService({
      cells: this.#cells,
      clock: this.#clock,
      facts: data.facts,
      ...(data.spans === null ? {} : { spans: { ring: data.spans, states: this.#traceStates } }),
      onError: (where, error) => this.#logger.error({ err: error, where }, 'failed'),
    })
    this.#metrics.start()
  }

  async listen(): Promise<{ http: string; metrics?: string }> {
    const { dataDir, http: options, prometheus, version } = this.#data
    const clock = this.#clock
    const logger = this.#logger
    const path = join(dataDir, ACTIVITY_FILE)
    const activities = await ActivityThreads.open({ path, options: this.#data.activities, clock, newId: randomUUID })
    this.#activities.resolve(activities)
    this.#isOpen = true
    const tokenizer = await TokenizerService.open({
      options: this.#data.tokenizer,
      clock,
      onBroken: (model, error) => logger.warn({ err: error, model }, 'the tokenizer of a model cannot be read'),
    })
    this.#tokenizer = tokenizer
    this.#http = await HttpService.create({
      engine: engineClient(new CallPort(this.#data.engine)),
      storage: storageClient(new CallPort(this.#data.storage)),
      arena: attachSegment(this.#data.arena),
      activities,
      overview: this.#overview(),
      tokenizer,
      textOptions: this.#data.tokenizer,
      clock,
      options,
      tokens: new TokenStore({
        dataDir,
        clock,
        given: this.#data.auth,
        onError: (error) => logger.error({ err: error }, 'tokens cannot be read'),
        onReload: (change) => this.#recordReload('--auth-token-file', change),
      }),
      logger,
      version,
      newId: randomUUID,
      ...(this.#data.spans === null ? {} : { traceStates: this.#traceStates }),
    })
    const metrics = prometheus.enabled
      ? await this.#metrics.listen(prometheus, (flag) => this.#recordReload(flag))
      : undefined
    this.#startPush()
    const http = await this.#http.listen()
    await yieldToOtherThreads() // to lookups; not before, because a start should be quick
    const kept = metadataOf(this.#data.takenOver)
    if (this.#data.isRecovery) {
      await this.#recordOwn('ACTIVITY_ACTION_ENGINE_RECOVER', 'The last engine did not stop in order.', kept)
    }
    await this.#recordOwn('ACTIVITY_ACTION_ENGINE_START', `The engine listens on ${http}.`, kept)
    return metrics === undefined ? { http } : { http, metrics }
  }

  #overview(): OverviewSource {
    const { version, facts } = this.#data
    const startedAt = new Date(this.#clock.wallMs()).toISOString()
    const { wouldHit } = this.#metrics
    return new OverviewSource({
      cells: this.#cells,
      wouldHit,
      clock: this.#clock,
      version,
      startedAt,
      device: facts.device ?? null,
    })
  }

  #startPush(): void {
    const { push, prometheus, spans } = this.#data
    if (push === null) return
    this.#metrics.push(push, this.#logger)
    this.#logger.info(
      { endpoint: push.options.endpoint, intervalMs: push.options.intervalMs },
      `${spans === null ? 'metrics are' : 'metrics and traces are'} pushed; nothing listens on port ${prometheus.port}, so a scrape of it is refused`,
    )
  }

  async record(draft: ActivityDraft): Promise<void> {
    await (await this.#activities.promise).append(draft)
  }

  async close(): Promise<void> {
    await this.#http?.close()
    this.#tokenizer?.close()
    await this.#metrics.close()
    if (!this.#isOpen) return
    if (this.#http !== null) await this.#recordOwn('ACTIVITY_ACTION_ENGINE_STOP', 'The engine stopped in order.')
    await (await this.#activities.promise).close()
  }

  /** @param change ids of tokens that came and went; nothing else of what a file holds is told. */
  #recordReload(option: string, change: { added?: readonly string[]; removed?: readonly string[] } = {}): void {
    this.#logger.info(change, `the file of ${option} was read again`)
    const description = `The file of ${option} has changed and was read again.`
    void this.#recordOwn('ACTIVITY_ACTION_CONFIG_RELOAD', description, { option, ...change }).catch((error: unknown) =>
      this.#logger.error({ err: error }, 'the activity log cannot be written'),
    )
  }

  #recordOwn(action: Action, description: string, more: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const { version } = this.#data
    const metadata = { version, pid: process.pid, ...more }
    return this.record({
      actor: SYSTEM_ACTOR,
      action,
      resourceType: 'engine',
      resourceId: '',
      description,
      metadata,
    })
  }
}

/** How L1 started, for the log of activities. */
function metadataOf(takenOver: TakenOver | null): Record<string, unknown> {
  if (takenOver === null) return { l1: 'cold' }
  const { chunks, bytes, droppedShards, corruptShards, workers } = takenOver
  return { l1: 'warm', l1Chunks: chunks, l1Bytes: bytes, droppedShards, corruptShards, workers }
}

const data = workerData as ServiceData
const service = new Service(data)
serveCalls(data.control, service, (error) => {
  throw error
})
