import type { Logger } from 'pino'
import type { ServeConfig } from '../config/load-config.ts'
import { SystemClock } from '../core/clock.ts'
import { ModelRegistry } from '../engine/model-registry.ts'
import { PromptHasher } from '../engine/prompt-hasher.ts'
import type { StatusFacts } from '../engine/status.ts'
import { partShape } from '../l1/model-parts.ts'
import type { AdapterOptions } from '../l2/options.ts'
import { MetricCells } from '../metrics/cells.ts'
import type { SharedSegment } from '../native/shared-memory.ts'
import { isLoopback } from '../server/http/host-check.ts'
import { MpServer } from '../server/mp/mp-server.ts'
import { EngineService } from '../server/rpc/engine-service.ts'
import { checkSurfaces } from './check-surfaces.ts'
import type { EngineRuntime } from './compose.ts'
import { type Addresses, DataDirectory, segmentName } from './data-dir.ts'
import { EngineActs } from './engine-acts.ts'
import { HashThread } from './hash-thread.ts'
import { letHeapsGrow } from './heap-growth.ts'
import { IoPool } from './io-pool.ts'
import { type L1Memory, type L1MemoryParts, openL1Memory } from './l1-memory.ts'
import type { PushTarget } from './metrics-service.ts'
import { findGpu, openDevice } from './open-device.ts'
import { openHasher } from './open-hasher.ts'
import { openStorage } from './open-storage.ts'
import { readPushFiles } from './push-files.ts'
import { QuotaFile } from './quota-file.ts'
import { ServiceLink } from './service-link.ts'
import { startRuntime } from './start-runtime.ts'
import { keepNames, type TakenOver } from './take-over.ts'
import { sizeThreadPool } from './thread-pool.ts'
import { goBeforeOtherThreads } from './thread-priority.ts'
import { openTracing } from './tracing.ts'

/** Time for stores under way to reach L2 at a stop, and for HTTP answers under way. */
const STOP_STORES_MS = 5_000
const STOP_HTTP_MS = 5_000

export interface StartParts {
  readonly config: ServeConfig
  readonly version: string
  readonly logger: Logger
  /** See `L1MemoryParts`. */
  readonly layTables?: L1MemoryParts['layTables']
  /** Told while L1 is being backed by memory. */
  readonly onProgress?: (bytesDone: number, bytes: number) => void
  /** Told when the engine cannot go on. */
  readonly onFatal: (error: unknown) => void
}

/** An engine that listens. */
export interface RunningEngine {
  readonly addresses: Addresses
  /** What is not real, in words for people. */
  readonly simulated: readonly string[]
  /** Null = L1 started empty. */
  readonly takenOver: TakenOver | null
  /** Stops in order: no new requests, stores under way end, everything is closed. Idempotent. */
  stop(): Promise<void>
}

/** Ends what was opened, newest first, whatever fails on the way. */
class Cleanup {
  readonly #tasks: (() => unknown)[] = []
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  add(task: () => unknown): void {
    this.#tasks.push(task)
  }

  async run(): Promise<void> {
    for (let task = this.#tasks.pop(); task !== undefined; task = this.#tasks.pop()) {
      try {
        await task()
      } catch (error) {
        this.#onError(error)
      }
    }
  }
}

/**
 * Starts an engine: data directory, memory, io workers, tiers, service thread, surfaces. What was opened is closed
 * again when a step fails.
 *
 * @throws CacheError DATA_DIR_*, SHARED_MEMORY_*, DEVICE_*, L2_*, PORT_TAKEN, CONFIG_INVALID
 */
export async function startEngine(parts: StartParts): Promise<RunningEngine> {
  const cleanup = new Cleanup((error) => parts.logger.error({ err: error }, 'while stopping'))
  letHeapsGrow()
  const refusal = goBeforeOtherThreads()
  if (refusal !== undefined) {
    parts.logger.debug(
      { reason: refusal },
      'the data thread takes turns like the others: they may delay it by milliseconds',
    )
  }
  try {
    return await start(parts, cleanup)
  } catch (error) {
    await cleanup.run()
    throw error
  }
}

async function start(parts: StartParts, cleanup: Cleanup): Promise<RunningEngine> {
  const { config, logger, version, onFatal } = parts
  sizeThreadPool(config.l2.adapters)
  const clock = new SystemClock()
  const dataDir = DataDirectory.take(config.general.dataDir)
  cleanup.add(() => dataDir.release())
  await checkSurfaces(config, clock)
  const gpu = findGpu(config.l0)
  const push = pushTarget(config, version)
  const memory = await openMemory(parts, dataDir, clock)
  cleanup.add(() => memory.close())
  const { segment } = memory
  const pool = await openIoPool(config, segment, logger)
  cleanup.add(() => pool.close())
  const hashing = await HashThread.start()
  cleanup.add(() => hashing.close())
  const cells = cellsOf(config)
  const { device, missing, simulated: l0Simulated } = openDevice(config.l0, gpu, { segment, clock, logger })
  cleanup.add(() => device?.close())
  const { tracer, ring } = openTracing(config.push, clock, cells)
  const acts = new EngineActs(clock)
  const inner = { config, logger, clock, cells, device, memory, pool, tracer, acts }
  const { runtime, takenOver } = await startRuntime(inner)
  cleanup.add(() => runtime.stop())
  runtime.quotas.keepIn(new QuotaFile(dataDir.path))
  const { adapters } = runtime.engine
  cleanup.add(() => adapters.close())
  const storage = await openStorage({ config, directory: dataDir.path, pool, adapters, clock, logger, acts })
  cleanup.add(() => storage.close())
  const simulated = simulatedParts(l0Simulated, segment, config.l2.adapters)
  const facts = { ...factsOf(segment, missing), version, simulated }
  const { service, mp } = await serversOf(parts, { runtime, hashing, clock, memory, facts, acts })
  const link = new ServiceLink(
    {
      arena: segment.handle,
      cells: cells.handles,
      facts: device === null ? {} : { device: device.info },
      ...serviceOptions(config),
      version,
      isRecovery: dataDir.wasLeftOpen,
      takenOver,
      push,
      spans: ring,
    },
    { engine: service, storage: storage.service },
    (error) => logger.error({ err: error }, 'a bug while answering a request'),
    onFatal,
  )
  acts.postTo((draft) => link.record(draft))
  cleanup.add(() => runtime.engine.drain(STOP_STORES_MS))
  cleanup.add(() => link.close(STOP_HTTP_MS))
  cleanup.add(() => service.endWaits())
  cleanup.add(() => mp.close())
  runtime.start(takenOver !== null)
  const addresses = { ...(await link.listen()), mp: await mp.listen(), pid: process.pid }
  warnOfOpenDoors(config, logger)
  dataDir.publishAddresses(addresses)
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= cleanup.run()
    return stopped
  }
  return { addresses, simulated, takenOver, stop }
}

function openIoPool({ general }: ServeConfig, segment: SharedSegment, logger: Logger): Promise<IoPool> {
  return IoPool.start(general.ioWorkers, segment, (reason) =>
    logger.error({ reason }, 'an io worker ended; its adapters fail'),
  )
}

function warnOfOpenDoors({ http, mp }: ServeConfig, logger: Logger): void {
  if (http.withoutTokens && !isLoopback(http.host)) {
    logger.warn('--http-without-tokens: whoever reaches the HTTP API may read and infer without a token')
  }
  if (!isLoopback(mp.host)) logger.warn('the MP wire has no passwords: whoever reaches it can use the cache')
}

/** Where metrics and traces are pushed; null = nowhere. @throws CacheError CONFIG_INVALID */
function pushTarget({ push }: ServeConfig, version: string): PushTarget | null {
  return push.endpoint === '' ? null : { options: push, sender: readPushFiles(push), version }
}

/** The options of the service thread. */
function serviceOptions({ general, activities, http, auth, prometheus, tokenizer }: ServeConfig) {
  const { dataDir, logLevel } = general
  return { dataDir, logLevel, activities, http, auth, prometheus, tokenizer }
}

function openMemory(
  { config, logger, layTables, onProgress }: StartParts,
  { path }: DataDirectory,
  clock: SystemClock,
): Promise<L1Memory> {
  const hooks = {
    ...(layTables === undefined ? {} : { layTables }),
    ...(onProgress === undefined ? {} : { onProgress }),
  }
  return openL1Memory({ config, clock, logger, dataDir: path, name: segmentName(path), ...hooks })
}

/** What answers for the engine: the HTTP API's side of it, and the MP wire. */
async function serversOf(
  { config, version, logger }: StartParts,
  parts: {
    runtime: EngineRuntime
    hashing: HashThread
    clock: SystemClock
    memory: L1Memory
    acts: EngineActs
    facts: Pick<StatusFacts, 'segmentName' | 'simulated' | 'l0Missing'>
  },
): Promise<{ service: EngineService; mp: MpServer }> {
  const { runtime, hashing, clock, memory, facts, acts } = parts
  const { segments, journal, leftover } = memory
  const hasher = new PromptHasher(await openHasher(logger), [hashing.lane], {
    inlineChunks: config.engine.hashInlineChunks,
    onLost: (error) => logger.error({ err: error }, 'the thread that hashes ended; prompts are hashed in place'),
  })
  const startedAt = new Date(clock.wallMs()).toISOString()
  const models = new ModelRegistry(config.engine.models, partShape(config.l1).partBytes)
  for (const model of leftover?.contents.models ?? []) models.restore(model)
  const common = { engine: runtime.engine, models, hasher, clock }
  const onError = (error: unknown) => logger.error({ err: error }, 'a bug while answering a client of the MP wire')
  const mp = new MpServer(config.mp, {
    ...common,
    segments,
    log: logger,
    journal,
    onCleared: (cleared) => acts.wireCleared(cleared),
    onGone: (worker) => acts.workerGone(worker),
    onError,
  })
  mp.restore(leftover?.contents.workers ?? [])
  keepNames({ engine: runtime.engine, models, mp, journal, logger })
  const service = new EngineService({
    ...common,
    quotas: runtime.quotas,
    servers: () => ({ mp: mp.status() }),
    quarantine: mp.quarantine,
    facts: { ...facts, version, startedAt, pid: process.pid, nodeVersion: process.version },
  })
  runtime.onSweep(() => runtime.quotas.sweep())
  runtime.onSweep(() => service.sweep())
  runtime.onSweep(() => mp.sweep())
  acts.watch({ engine: runtime.engine, lateWorkers: () => mp.quarantine.list() })
  runtime.onSweep(() => acts.sweep())
  return { service, mp }
}

function cellsOf({ general }: ServeConfig): MetricCells {
  return MetricCells.create({ maxTenants: general.tenantsMax, busCapacityEvents: general.eventBusCapacity })
}

function factsOf({ name }: SharedSegment, missing: string | null): Pick<StatusFacts, 'segmentName' | 'l0Missing'> {
  return { segmentName: name === '' ? null : name, ...(missing === null ? {} : { l0Missing: missing }) }
}

function simulatedParts(l0: string | null, segment: SharedSegment, adapters: readonly AdapterOptions[]): string[] {
  const parts = l0 === null ? [] : [l0]
  if (segment.kind === 'private') parts.push('L1: private memory; no other process can map it')
  for (const { name, backend } of adapters) {
    if (backend.type === 'fault') parts.push(`L2 ${name}: a fault injector around ${backend.inner.type}`)
  }
  return parts
}
