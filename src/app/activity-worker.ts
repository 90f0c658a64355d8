import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Activity, ActivityFilter, ActivityPage } from '../activities/activity.ts'
import { ActivityReader } from '../activities/activity-reader.ts'
import { openActivities } from '../activities/activity-schema.ts'
import { ActivityWriter } from '../activities/activity-writer.ts'
import type { ActivityOptions } from '../activities/options.ts'
import { SystemClock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { serveCalls } from '../core/rpc.ts'

/** What a thread of the activity log is started with. */
export interface ActivityWorkerData {
  readonly role: 'write' | 'read'
  readonly path: string
  readonly options: ActivityOptions
  readonly port: MessagePort
}

/** What the writing thread is asked. */
export interface WriteCalls {
  /** Resolves when the records are on the disk. */
  append(activities: readonly Activity[]): Promise<void>
  /** Writes what waits, and closes the file. */
  close(): Promise<void>
}

/** What the reading thread is asked. */
export interface ReadCalls {
  list(filter: ActivityFilter, page: bigint, size: number): Promise<ActivityPage>
}

/** How often the log is looked over for records whose time is over. */
const TRIM_INTERVAL_MS = 60_000
/** Between two batches of a trim: records that wait are written then. */
const TRIM_PAUSE_MS = 20

/**
 * Group commit: what came in while the last batch went to the disk is the next batch. A batch costs one wait for the
 * disk, whatever its length.
 */
class WriteService implements WriteCalls {
  readonly #database
  readonly #writer: ActivityWriter
  readonly #options: ActivityOptions
  readonly #clock = new SystemClock()
  #waiting: { activities: readonly Activity[]; resolve: () => void; reject: (error: unknown) => void }[] = []

  constructor({ path, options }: ActivityWorkerData) {
    this.#database = openActivities(path)
    this.#writer = new ActivityWriter(this.#database)
    this.#options = options
    this.#clock.schedule(TRIM_PAUSE_MS, () => this.#trim())
  }

  append(activities: readonly Activity[]): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.#flush())
      this.#waiting.push({ activities, resolve, reject })
    })
  }

  async close(): Promise<void> {
    this.#flush()
    this.#database.close()
  }

  #flush(): void {
    const batch = this.#waiting
    if (batch.length === 0) return
    this.#waiting = []
    try {
      this.#writer.append(batch.flatMap(({ activities }) => activities))
      for (const { resolve } of batch) resolve()
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  #trim(): void {
    if (!this.#database.isOpen) return
    let isDone = true
    try {
      isDone = this.#writer.trim(this.#options, this.#clock.wallMs()) === 0
    } catch (error) {
      if (!(error instanceof CacheError)) throw error // a disk that fails is told to whoever appends
    }
    this.#clock.schedule(isDone ? TRIM_INTERVAL_MS : TRIM_PAUSE_MS, () => this.#trim())
  }
}

class ReadService implements ReadCalls {
  readonly #reader: ActivityReader

  constructor({ path }: ActivityWorkerData) {
    this.#reader = new ActivityReader(openActivities(path, { isReadOnly: true }))
  }

  async list(filter: ActivityFilter, page: bigint, size: number): Promise<ActivityPage> {
    try {
      return this.#reader.list(filter, page, size)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new CacheError('ACTIVITY_LOG_FAILED', `the activity log cannot be read: ${reason}`, {}, error)
    }
  }
}

// Entry of the threads of the activity log.
const data = workerData as ActivityWorkerData
try {
  const service = data.role === 'write' ? new WriteService(data) : new ReadService(data)
  serveCalls(data.port, service, (error) => {
    throw error
  })
  parentPort!.postMessage(null)
} catch (error) {
  if (!(error instanceof CacheError)) throw error
  parentPort!.postMessage({ code: error.code, message: error.message, detail: error.detail })
}
