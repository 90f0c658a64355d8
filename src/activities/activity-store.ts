import type { DatabaseSync } from 'node:sqlite'
import type { Clock } from '../core/clock.ts'
import type { Activity, ActivityDraft, ActivityFilter, ActivityLog, ActivityPage } from './activity.ts'
import { ActivityReader } from './activity-reader.ts'
import { openActivities } from './activity-schema.ts'
import { ActivityWriter } from './activity-writer.ts'
import { newActivity } from './new-activity.ts'
import type { ActivityOptions } from './options.ts'

export interface ActivityStoreParts {
  /** Path of the database; `:memory:` for none that lasts. */
  readonly path: string
  readonly clock: Clock
  /** A new unique id, such as a UUID. */
  readonly newId: () => string
}

/**
 * A log on the calling thread, which waits for the disk: for commands and tests. An engine has `ActivityThreads`.
 * Several processes may have one file open.
 */
export class ActivityStore implements ActivityLog {
  readonly #database: DatabaseSync
  readonly #clock: Clock
  readonly #newId: () => string
  readonly #writer: ActivityWriter
  readonly #reader: ActivityReader

  /** Opens or creates the log. @throws CacheError DATA_DIR_UNWRITABLE */
  constructor(parts: ActivityStoreParts) {
    this.#clock = parts.clock
    this.#newId = parts.newId
    this.#database = openActivities(parts.path)
    this.#writer = new ActivityWriter(this.#database)
    this.#reader = new ActivityReader(this.#database)
  }

  async append(draft: ActivityDraft): Promise<Activity> {
    return this.write(draft)
  }

  async list(filter: ActivityFilter, page: bigint, size: number): Promise<ActivityPage> {
    return this.read(filter, page, size)
  }

  /** `append`, at once. */
  write(draft: ActivityDraft): Activity {
    const activity = newActivity(draft, this.#newId(), this.#clock.wallMs())
    this.#writer.append([activity])
    return activity
  }

  /** `list`, at once. */
  read(filter: ActivityFilter, page: bigint, size: number): ActivityPage {
    return this.#reader.list(filter, page, size)
  }

  /** Removes what `options` do not keep. @returns how many records. */
  trim(options: ActivityOptions): number {
    let count = 0
    for (let removed = -1; removed !== 0; count += removed) removed = this.#writer.trim(options, this.#clock.wallMs())
    return count
  }

  close(): void {
    this.#database.close()
  }
}
