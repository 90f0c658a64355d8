import type { Logger } from 'pino'
import type { ServeConfig } from '../config/load-config.ts'
import type { Clock } from '../core/clock.ts'
import type { L2Adapter } from '../l2/adapter.ts'
import type { AdapterSet } from '../l2/adapter-set.ts'
import { JobTable } from '../l2/jobs/job-table.ts'
import type { AdapterOptions } from '../l2/options.ts'
import type { RemoteAdapter } from '../l2/remote-adapter.ts'
import { StorageService } from '../server/rpc/storage-service.ts'
import { AdapterFileBook } from './adapter-book.ts'
import type { EngineActs } from './engine-acts.ts'
import type { IoPool } from './io-pool.ts'

export interface StorageParts {
  readonly config: ServeConfig
  /** Of the data directory. */
  readonly directory: string
  readonly pool: IoPool
  readonly adapters: AdapterSet
  readonly clock: Clock
  readonly logger: Logger
  readonly acts: EngineActs
}

/** External storage of a running engine. */
export interface OpenStorage {
  readonly service: StorageService
  /** Ends the jobs. Adapters are closed by their set. */
  close(): Promise<void>
}

/**
 * Attaches the adapters of the configuration, then those that were added while earlier engines ran. One whose server is
 * away is attached all the same, with its circuit open, and opened once it can be, unless its option `start` says
 * otherwise. What no further try mends ends the start; of an adapter that was added, it is attached as failed.
 *
 * @throws CacheError L2_*, DATA_DIR_*
 */
export async function openStorage(parts: StorageParts): Promise<OpenStorage> {
  const { config, directory, pool, adapters, clock, logger, acts } = parts
  const make = (options: AdapterOptions): RemoteAdapter => {
    const adapter = pool.adapter(options.backend)
    void adapter.lost.then((error) => {
      if (adapters.find(options.name)?.adapter === adapter) adapters.fail(options.name, error)
    })
    return adapter
  }
  const book = new AdapterFileBook({ config, directory, env: (variable) => process.env[variable], make })
  for (const options of config.l2.adapters) await attach(parts, make(options), options)
  for (const entry of await book.load()) await attachKept(parts, book, entry)
  const jobs = new JobTable({
    clock,
    adapters,
    onEnd: (job) => {
      const { id, kind, adapter, target, state, counts, error } = job
      logger.info({ job: id, kind, adapter, target, state, ...counts, error }, 'job ended')
      acts.jobEnded(job)
    },
  })
  const service = new StorageService({
    adapters,
    jobs,
    book,
    nowMs: () => clock.nowMs(),
    onDrained: (adapter, { state, isDrained, left }) => {
      logger.info({ adapter, state, isDrained, left }, isDrained ? 'drained' : 'drain ended with work left')
      acts.drainEnded(adapter, isDrained, left)
    },
  })
  return { service, close: () => jobs.close() }
}

async function attach(
  { adapters, logger }: StorageParts,
  adapter: L2Adapter,
  { name, limits }: AdapterOptions,
): Promise<void> {
  if (limits.startPolicy === 'fail') {
    await adapters.add(name, adapter, limits)
    return
  }
  const { isReached, lastError } = await adapters.roster.addEvenAway(name, adapter, limits)
  if (!isReached) {
    logger.warn(
      { adapter: name, reason: lastError },
      'an adapter is away: the engine starts without it and goes on trying',
    )
  }
}

async function attachKept(
  parts: StorageParts,
  book: AdapterFileBook,
  entry: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { adapters, logger } = parts
  const name = String(entry.name)
  if (book.isConfigured(name)) {
    logger.warn({ adapter: name }, 'the configuration has an adapter of this name: the one that was added is left out')
    return
  }
  let options: AdapterOptions
  try {
    options = book.read(entry)
  } catch (error) {
    logger.error({ adapter: name, err: error }, 'an adapter that was added earlier cannot be understood: left out')
    return
  }
  const adapter = book.make(options)
  try {
    await attach(parts, adapter, options)
  } catch (error) {
    logger.error({ adapter: name, err: error }, 'an adapter that was added earlier cannot be opened: it has failed')
    adapters.roster.addFailed(name, adapter, options.limits, error)
  }
  book.adopt(options)
}
