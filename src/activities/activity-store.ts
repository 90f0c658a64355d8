import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { LRUCache } from 'lru-cache'
import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import {
  type Activity,
  type ActivityDraft,
  type ActivityFilter,
  type ActivityPage,
  METADATA_LENGTH_MAX,
  TEXT_LENGTH_MAX,
} from './activity.ts'

// Records are never changed; `sequence` grows by one a record and breaks ties of the same millisecond.
// Every index ends in it, so that one index gives both the filter and the order newest first.
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS activities (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    activity_id TEXT NOT NULL UNIQUE,
    actor_type TEXT NOT NULL,
    user_id TEXT NOT NULL,
    action TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    description TEXT NOT NULL,
    metadata TEXT NOT NULL,
    occurred_ms INTEGER NOT NULL,
    recorded_ms INTEGER NOT NULL,
    actor_id TEXT NOT NULL,
    actor_display TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS by_time ON activities (occurred_ms, sequence);
  CREATE INDEX IF NOT EXISTS by_user ON activities (user_id, occurred_ms, sequence);
  CREATE INDEX IF NOT EXISTS by_action ON activities (action, occurred_ms, sequence);
  CREATE INDEX IF NOT EXISTS by_resource_type ON activities (resource_type, occurred_ms, sequence);
  CREATE INDEX IF NOT EXISTS by_resource_id ON activities (resource_id, occurred_ms, sequence);
  CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON activities
    BEGIN SELECT RAISE(ABORT, 'activities are append-only'); END;
`
const SCHEMA_VERSION = 1

const COLUMNS =
  'activity_id, actor_type, user_id, action, resource_type, resource_id, description, metadata, ' +
  'occurred_ms, recorded_ms, actor_id, actor_display'

/** Filters whose totals and statements are remembered. */
const REMEMBERED_MAX = 256

export interface ActivityStoreParts {
  /** Path of the database; `:memory:` for none that lasts. */
  readonly path: string
  readonly clock: Clock
  /** A new unique id, such as a UUID. */
  readonly newId: () => string
}

/** The audit trail: append-only, in SQLite. An appended record is on the disk when `append` returns. */
export class ActivityStore {
  readonly #database: DatabaseSync
  readonly #clock: Clock
  readonly #newId: () => string
  readonly #insert: StatementSync
  // Records never change, so a total only grows by what came after `sequence`.
  readonly #totals = new LRUCache<string, { sequence: number; total: number }>({ max: REMEMBERED_MAX })
  readonly #last: StatementSync

  /** Opens or creates the log. @throws CacheError DATA_DIR_UNWRITABLE */
  constructor(parts: ActivityStoreParts) {
    this.#clock = parts.clock
    this.#newId = parts.newId
    this.#database = openDatabase(parts.path)
    this.#insert = this.#database.prepare(
      `INSERT INTO activities (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    this.#last = this.#database.prepare('SELECT coalesce(max(sequence), 0) AS last FROM activities')
  }

  /** Writes one record. It outlives a crash of the process and of the machine once this returns. */
  append(draft: ActivityDraft): Activity {
    const nowMs = Math.floor(this.#clock.wallMs())
    const occurredMs = Math.floor(draft.occurredAtMs ?? nowMs)
    const metadata = metadataText(draft.metadata ?? {})
    const activity: Activity = {
      activityId: this.#newId(),
      actorType: draft.actor.type,
      userId: cut(draft.actor.userId),
      action: draft.action,
      resourceType: draft.resourceType,
      resourceId: cut(draft.resourceId),
      description: cut(draft.description),
      metadata: JSON.parse(metadata) as Activity['metadata'],
      occurredAt: new Date(occurredMs).toISOString(),
      recordedAt: new Date(nowMs).toISOString(),
      actorId: cut(draft.actor.id),
      actorDisplay: cut(draft.actor.display),
    }
    this.#insert.run(
      activity.activityId,
      activity.actorType,
      activity.userId,
      activity.action,
      activity.resourceType,
      activity.resourceId,
      activity.description,
      metadata,
      occurredMs,
      nowMs,
      activity.actorId,
      activity.actorDisplay,
    )
    return activity
  }

  /**
   * One page of the records that meet every condition, newest first by `occurredAt`, then by order of writing.
   *
   * @param page 1 upwards, of any size: a page past the end is empty.
   * @param size records a page, 1 upwards.
   */
  list(filter: ActivityFilter, page: bigint, size: number): ActivityPage {
    assert(page >= 1n && size >= 1, 'page and size count from 1')
    const { where, values } = conditions(filter)
    // One transaction, so that total and page are of the same moment: the command line may write meanwhile.
    this.#database.exec('BEGIN')
    try {
      const total = this.#total(where, values)
      const offset = (page - 1n) * BigInt(size)
      if (offset >= BigInt(total)) return { activities: [], total }
      const rows = this.#database
        .prepare(
          `SELECT ${COLUMNS} FROM activities WHERE ${where} ORDER BY occurred_ms DESC, sequence DESC LIMIT ? OFFSET ?`,
        )
        .all(...values, size, offset)
      return { activities: rows.map(activityOf), total }
    } finally {
      this.#database.exec('COMMIT')
    }
  }

  close(): void {
    this.#database.close()
  }

  #total(where: string, values: readonly SQLInputValue[]): number {
    const key = JSON.stringify([where, ...values])
    const counted = this.#totals.get(key) ?? { sequence: 0, total: 0 }
    const lastSequence = this.#last.get()!.last as number
    if (counted.sequence < lastSequence) {
      const row = this.#database
        .prepare(`SELECT count(*) AS total FROM activities WHERE ${where} AND sequence > ?`)
        .get(...values, counted.sequence)
      counted.total += row!.total as number
      counted.sequence = lastSequence
      this.#totals.set(key, counted)
    }
    return counted.total
  }
}

function openDatabase(path: string): DatabaseSync {
  try {
    const database = new DatabaseSync(path)
    // FULL: a commit is on the disk before it is acknowledged.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 2000')
    const version = database.prepare('PRAGMA user_version').get()!.user_version as number
    if (version > SCHEMA_VERSION) {
      database.close()
      throw new Error(`it was written by a newer version (schema ${version})`)
    }
    database.exec(`BEGIN IMMEDIATE; ${SCHEMA} PRAGMA user_version = ${SCHEMA_VERSION}; COMMIT`)
    return database
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const message = `the activity log ${path} cannot be opened: ${reason}; check its permissions or move it away`
    throw new CacheError('DATA_DIR_UNWRITABLE', message, { field: '--data-dir' }, error)
  }
}

function conditions(filter: ActivityFilter): { where: string; values: SQLInputValue[] } {
  const parts: string[] = []
  const values: SQLInputValue[] = []
  const add = (part: string, value: string | number | undefined): void => {
    if (value === undefined) return
    parts.push(part)
    values.push(typeof value === 'string' ? value.toWellFormed() : value)
  }
  add('user_id = ?', filter.userId)
  add('action = ?', filter.action)
  add('resource_type = ?', filter.resourceType)
  add('resource_id = ?', filter.resourceId)
  add('occurred_ms >= ?', filter.startMs)
  add('occurred_ms < ?', filter.endMs)
  return { where: parts.length === 0 ? 'true' : parts.join(' AND '), values }
}

function activityOf(row: Record<string, unknown>): Activity {
  return {
    activityId: row.activity_id as string,
    actorType: row.actor_type as string,
    userId: row.user_id as string,
    action: row.action as string,
    resourceType: row.resource_type as string,
    resourceId: row.resource_id as string,
    description: row.description as string,
    metadata: JSON.parse(row.metadata as string) as Activity['metadata'],
    occurredAt: new Date(row.occurred_ms as number).toISOString(),
    recordedAt: new Date(row.recorded_ms as number).toISOString(),
    actorId: row.actor_id as string,
    actorDisplay: row.actor_display as string,
  }
}

// SQLite holds UTF-8: lone surrogates are replaced here, so that what is returned is what was written.
// A NUL would end the text in SQLite's own functions.
function cut(text: string): string {
  const short = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX - 3)}...` : text
  return short.toWellFormed().replaceAll('\0', '\ufffd')
}

function metadataText(metadata: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(metadata)
  return text.length > METADATA_LENGTH_MAX ? JSON.stringify({ droppedLength: text.length }) : text
}
