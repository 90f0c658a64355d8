import { MessageChannel, Worker } from 'node:worker_threads'
import type { Activity, ActivityDraft, ActivityFilter, ActivityLog, ActivityPage } from '../activities/activity.ts'
import { newActivity } from '../activities/new-activity.ts'
import type { ActivityOptions } from '../activities/options.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { CallPort, remoteOf } from '../core/rpc.ts'
import { workerUrl } from '../core/worker-url.ts'
import type { ActivityWorkerData, ReadCalls, WriteCalls } from './activity-worker.ts'
import { WorkerEnd } from './worker-end.ts'

export interface ActivityThreadsParts {
  readonly path: string
  readonly options: ActivityOptions
  readonly clock: Clock
  /** A new unique id, such as a UUID. */
  readonly newId: () => string
}

interface Thread {
  readonly worker: Worker
  readonly calls: CallPort
}

/**
 * The activity log of a running engine. One thread writes: whoever appends posts a message and goes on, and is told when
 * the disk has it. Another one reads, from the first question on: a broad count or a deep page holds up no writer and no
 * other request of the engine.
 */
export class ActivityThreads implements ActivityLog {
  readonly #parts: ActivityThreadsParts
  readonly #writing: Thread
  readonly #write: WriteCalls
  #reading: Promise<Thread> | undefined
  #unposted: { activity: Activity; resolve: () => void; reject: (error: unknown) => void }[] = []

  private constructor(parts: ActivityThreadsParts, writing: Thread) {
    this.#parts = parts
    this.#writing = writing
    this.#write = remoteOf<WriteCalls>(writing.calls, ['append', 'close'])
  }

  /** Opens or creates the log. @throws CacheError DATA_DIR_UNWRITABLE */
  static async open(parts: ActivityThreadsParts): Promise<ActivityThreads> {
    return new ActivityThreads(parts, await startThread('write', parts))
  }

  async append(draft: ActivityDraft): Promise<Activity> {
    const { newId, clock } = this.#parts
    const activity = newActivity(draft, newId(), clock.wallMs())
    await this.#posted(activity)
    return activity
  }

  // Waking the writing thread takes ten times as long as the rest, so it is not the caller's: those of one turn of the
  // loop are posted together when it ends.
  #posted(activity: Activity): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#unposted.length === 0) setImmediate(() => this.#post())
      this.#unposted.push({ activity, resolve, reject })
    })
  }

  #post(): void {
    const batch = this.#unposted
    if (batch.length === 0) return
    this.#unposted = []
    this.#write.append(batch.map(({ activity }) => activity)).then(
      () => batch.forEach(({ resolve }) => void resolve()),
      (error) => batch.forEach(({ reject }) => void reject(error)),
    )
  }

  async list(filter: ActivityFilter, page: bigint, size: number): Promise<ActivityPage> {
    this.#reading ??= startThread('read', this.#parts)
    const { calls } = await this.#reading
    return remoteOf<ReadCalls>(calls, ['list']).list(filter, page, size)
  }

  /** Waits until everything appended is on the disk, and ends the threads. */
  async close(): Promise<void> {
    this.#post()
    await this.#write.close()
    const reading = await this.#reading?.catch(() => undefined)
    for (const { calls, worker } of [this.#writing, ...(reading === undefined ? [] : [reading])]) {
      calls.close()
      await worker.terminate()
    }
  }
}

async function startThread(role: ActivityWorkerData['role'], parts: ActivityThreadsParts): Promise<Thread> {
  const { path, options } = parts
  const { port1, port2 } = new MessageChannel()
  const workerData: ActivityWorkerData = { role, path, options, port: port2 }
  const worker = new Worker(workerUrl(import.meta.url, './activity-worker'), { workerData, transferList: [port2] })
  const end = new WorkerEnd(worker, 'a thread of the activity log')
  const failure = (await end.message()) as Pick<CacheError, 'code' | 'message' | 'detail'> | null
  if (failure !== null) {
    await worker.terminate()
    throw new CacheError(failure.code, failure.message, failure.detail)
  }
  const calls = new CallPort(port1)
  void end.reason.then(() => calls.close())
  return { worker, calls }
}
