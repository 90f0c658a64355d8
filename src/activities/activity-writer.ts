import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { assert } from '../core/assert.ts'
import { CacheError } from '../core/errors.ts'
import type { Activity } from './activity.ts'
import { ORDER_BITS } from './activity-schema.ts'
import type { ActivityOptions } from './options.ts'

/** Records removed in one transaction at most: what is written meanwhile waits for it. */
const TRIM_ROWS = 1000
/** A log over its size is trimmed to this share of it, so that the next records need no trim. */
const TRIM_TO = 0.99
/** Numbers of terms that are remembered. */
const TERMS_MAX = 4096

/** The writing side of a log. One transaction a batch; nothing of a batch that fails is written. */
export class ActivityWriter {
  readonly #database: DatabaseSync
  readonly #insert: StatementSync
  readonly #newest: StatementSync
  readonly #newestBefore: StatementSync
  readonly #terms = new Map<string, number>()
  readonly #kinds = new Map<string, number>()
  /** Whether the last trim found too much: then it goes on down to TRIM_TO. */
  #isShrinking = false

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#insert = database.prepare('INSERT INTO activities VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
    this.#newest = database.prepare('SELECT coalesce(max(position), -1) AS position FROM activities')
    this.#newestBefore = database.prepare(
      'SELECT coalesce(max(position), -1) AS position FROM activities WHERE position < ?',
    )
    this.#newest.setReadBigInts(true)
    this.#newestBefore.setReadBigInts(true)
  }

  /** Writes records. They outlive a crash of the machine once this returns. @throws CacheError ACTIVITY_LOG_FAILED */
  append(activities: readonly Activity[]): void {
    this.#transact(() => {
      let newest = this.#newest.get()!.position as bigint
      let isDisordered = false
      for (const activity of activities) {
        const position = this.#positionOf(activity, newest)
        if (position > newest) newest = position
        else isDisordered = true
        this.#write(position, activity)
      }
      if (isDisordered) this.#database.exec('UPDATE log_state SET epoch = epoch + 1')
    })
  }

  /**
   * Removes a bounded number of records whose time is over, or that do not fit, oldest first.
   *
   * @returns how many; call again until it is 0.
   * @throws CacheError ACTIVITY_LOG_FAILED
   */
  trim({ retentionMs, sizeMaxBytes }: ActivityOptions, nowMs: number): number {
    let count = 0
    if (retentionMs > 0) {
      const end = BigInt(Math.max(0, Math.floor(nowMs - retentionMs))) << ORDER_BITS
      count += this.#remove(end)
    }
    const isOver = sizeMaxBytes > 0 && this.usedBytes > (this.#isShrinking ? TRIM_TO : 1) * sizeMaxBytes
    this.#isShrinking = isOver
    if (isOver && count === 0) count += this.#remove(2n ** 63n - 1n)
    return count
  }

  /** Bytes of records and indexes. Pages that are free again count no more. */
  get usedBytes(): number {
    const value = (name: string): number => this.#database.prepare(`PRAGMA ${name}`).get()![name] as number
    return (value('page_count') - value('freelist_count')) * value('page_size')
  }

  #positionOf({ occurredAt }: Activity, newest: bigint): bigint {
    const first = BigInt(Date.parse(occurredAt)) << ORDER_BITS
    if (newest < first) return first
    const end = first + (1n << ORDER_BITS)
    const last = newest < end ? newest : (this.#newestBefore.get(end)!.position as bigint)
    const position = last < first ? first : last + 1n
    assert(position < end, 'a millisecond holds no more records')
    return position
  }

  #write(position: bigint, activity: Activity): void {
    this.#insert.run(
      position,
      this.#termOf(activity.userId),
      this.#kindOf(activity.action, activity.resourceType),
      this.#termOf(activity.resourceId),
      Date.parse(activity.recordedAt),
      activity.activityId,
      activity.actorType,
      activity.actorId,
      activity.actorDisplay,
      activity.description,
      JSON.stringify(activity.metadata),
    )
  }

  #termOf(text: string): number {
    let id = this.#terms.get(text)
    if (id !== undefined) return id
    this.#database.prepare('INSERT OR IGNORE INTO terms (text) VALUES (?)').run(text)
    id = this.#database.prepare('SELECT id FROM terms WHERE text = ?').get(text)!.id as number
    if (this.#terms.size === TERMS_MAX) this.#terms.clear()
    this.#terms.set(text, id)
    return id
  }

  #kindOf(action: string, resourceType: string): number {
    const key = `${action} ${resourceType}`
    let id = this.#kinds.get(key)
    if (id !== undefined) return id
    this.#database
      .prepare('INSERT OR IGNORE INTO kinds (action, resource_type) VALUES (?, ?)')
      .run(action, resourceType)
    const find = this.#database.prepare('SELECT id FROM kinds WHERE action = ? AND resource_type = ?')
    id = find.get(action, resourceType)!.id as number
    this.#kinds.set(key, id)
    return id
  }

  /** Removes the oldest records below a position. */
  #remove(end: bigint): number {
    const rows = this.#database.prepare(
      'SELECT position, user, resource FROM activities WHERE position < ? ORDER BY position LIMIT ?',
    )
    rows.setReadBigInts(true)
    const oldest = rows.all(end, TRIM_ROWS)
    if (oldest.length === 0) return 0
    const last = oldest.at(-1)!.position as bigint
    this.#transact(() => {
      this.#database.prepare('UPDATE log_state SET epoch = epoch + 1, horizon = max(horizon, ?)').run(last)
      this.#database.prepare('DELETE FROM activities WHERE position <= ?').run(last)
      const forget = this.#database.prepare(
        'DELETE FROM terms WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM activities WHERE user = ?1) ' +
          'AND NOT EXISTS (SELECT 1 FROM activities WHERE resource = ?1)',
      )
      const terms = new Set(oldest.flatMap(({ user, resource }) => [user as bigint, resource as bigint]))
      for (const term of terms) forget.run(term)
    })
    this.#terms.clear()
    return oldest.length
  }

  // Numbers that were given out in a transaction that failed do not exist.
  #transact(task: () => void): void {
    try {
      this.#database.exec('BEGIN IMMEDIATE')
      task()
      this.#database.exec('COMMIT')
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      this.#terms.clear()
      this.#kinds.clear()
      const reason = error instanceof Error ? error.message : String(error)
      throw new CacheError('ACTIVITY_LOG_FAILED', `the activity log cannot be written: ${reason}`, {}, error)
    }
  }
}
