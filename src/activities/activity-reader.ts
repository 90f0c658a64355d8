import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { LRUCache } from 'lru-cache'
import { assert } from '../core/assert.ts'
import { type Activity, type ActivityFilter, type ActivityPage, OCCURRED_MS_MAX } from './activity.ts'
import { type EqualColumn, indexName, ORDER_BITS } from './activity-schema.ts'

const COLUMNS = `
  a.activity_id AS activityId, a.actor_type AS actorType, u.text AS userId, k.action AS action,
  k.resource_type AS resourceType, r.text AS resourceId, a.description AS description, a.metadata AS metadata,
  a.position >> ${ORDER_BITS} AS occurredMs, a.recorded_ms AS recordedMs, a.actor_id AS actorId,
  a.actor_display AS actorDisplay`

/** Filters whose totals are remembered, and statements. */
const REMEMBERED_MAX = 256

/** What a filter comes to: rows of some kinds (null = any), with equal columns, between two positions. */
interface Selection {
  readonly equal: readonly (readonly [column: EqualColumn, value: SQLInputValue])[]
  readonly kinds: readonly SQLInputValue[] | null
  /** Included. */
  readonly from: bigint
  /** Excluded. */
  readonly to: bigint
}

/**
 * The reading side of a log. A page costs as much as its filter has matches, once: its total is remembered, and only what
 * was written since is counted. A deep page walks over the rows before it, or after it, whichever are fewer.
 */
export class ActivityReader {
  readonly #database: DatabaseSync
  readonly #totals = new LRUCache<string, { epoch: number; newest: bigint; total: number }>({ max: REMEMBERED_MAX })
  readonly #statements = new LRUCache<string, StatementSync>({ max: REMEMBERED_MAX })

  constructor(database: DatabaseSync) {
    this.#database = database
  }

  /** See `ActivityLog`. */
  list(filter: ActivityFilter, page: bigint, size: number): ActivityPage {
    assert(page >= 1n && size >= 1, 'page and size count from 1')
    // One transaction, so that total and page are of the same moment.
    this.#database.exec('BEGIN')
    try {
      const selection = this.#select(filter)
      if (selection === null) return { activities: [], total: 0 }
      const total = this.#total(selection)
      const offset = (page - 1n) * BigInt(size)
      if (offset >= BigInt(total)) return { activities: [], total }
      return { activities: this.#rows(selection, total, Number(offset), size), total }
    } finally {
      this.#database.exec('COMMIT')
    }
  }

  /** Null when no record can meet the filter. */
  #select({ userId, action, resourceType, resourceId, startMs, endMs }: ActivityFilter): Selection | null {
    const equal: [EqualColumn, SQLInputValue][] = []
    for (const [column, text] of [['user', userId] as const, ['resource', resourceId] as const]) {
      if (text === undefined) continue
      const term = this.#statement('SELECT id FROM terms WHERE text = ?').get(text.toWellFormed())
      if (term === undefined) return null
      equal.push([column, term.id as number])
    }
    let kinds: SQLInputValue[] | null = null
    if (action !== undefined || resourceType !== undefined) {
      const find = this.#statement(
        'SELECT id FROM kinds WHERE action = coalesce(?, action) AND resource_type = coalesce(?, resource_type)',
      )
      const rows = find.all(action?.toWellFormed() ?? null, resourceType?.toWellFormed() ?? null)
      kinds = rows.map(({ id }) => id as number)
      if (kinds.length === 0) return null
    }
    const [from, to] = [positionOf(startMs ?? 0), positionOf(endMs ?? OCCURRED_MS_MAX + 1)]
    return from < to ? { equal, kinds, from, to } : null
  }

  #total(selection: Selection): number {
    const { equal, kinds, from, to } = selection
    const newest = this.#bigint('SELECT coalesce(max(position), -1) AS value FROM activities')
    const { epoch } = this.#statement('SELECT epoch FROM log_state').get() as { epoch: number }
    const key = `${equal.join(' ')}|${kinds}|${from}|${to}`
    const known = this.#totals.get(key)
    const isKnown = known !== undefined && known.epoch === epoch
    if (isKnown && known.newest === newest) return known.total
    const start = isKnown && known.newest >= from ? known.newest + 1n : from
    const counted = this.#count({ ...selection, from: start })
    const total = (isKnown ? known.total : 0) + counted
    this.#totals.set(key, { epoch, newest, total })
    return total
  }

  #count(selection: Selection): number {
    const parts = partsOf(selection, 'count(*) AS n')
    const sql = `SELECT sum(n) AS total FROM (${parts.map(({ sql }) => sql).join(' UNION ALL ')})`
    return this.#statement(sql).get(...parts.flatMap(({ values }) => values))!.total as number
  }

  #rows(selection: Selection, total: number, offset: number, size: number): Activity[] {
    const count = Math.min(size, total - offset)
    const isNearEnd = offset + count > total / 2
    const [order, skip] = isNearEnd ? ['ASC', total - offset - count] : ['DESC', offset]
    const parts = partsOf(selection, 'position')
    const sql = `
      WITH chosen(position) AS MATERIALIZED (
        ${parts.map(({ sql }) => sql).join(' UNION ALL ')} ORDER BY position ${order} LIMIT ? OFFSET ?
      )
      SELECT ${COLUMNS} FROM chosen
      CROSS JOIN activities AS a ON a.position = chosen.position
      CROSS JOIN terms AS u ON u.id = a.user
      CROSS JOIN terms AS r ON r.id = a.resource
      CROSS JOIN kinds AS k ON k.id = a.kind
      ORDER BY chosen.position DESC`
    return this.#statement(sql)
      .all(...parts.flatMap(({ values }) => values), count, skip)
      .map(activityOf)
  }

  #bigint(sql: string): bigint {
    const statement = this.#statement(sql)
    statement.setReadBigInts(true)
    return statement.get()!.value as bigint
  }

  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#database.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }
}

/** One query a kind: each runs along one index, in order, and SQLite merges them. */
function partsOf({ equal, kinds, from, to }: Selection, what: string): { sql: string; values: SQLInputValue[] }[] {
  const choices = kinds === null ? [equal] : kinds.map((kind) => [...equal, ['kind', kind] as const])
  return choices.map((pairs) => {
    const columns = pairs.map(([column]) => column)
    const ordered = (['user', 'kind', 'resource'] as const).filter((column) => columns.includes(column))
    const index = ordered.length === 0 ? 'NOT INDEXED' : `INDEXED BY ${indexName(ordered)}`
    const conditions = [...columns.map((column) => `${column} = ?`), 'position >= ?', 'position < ?'].join(' AND ')
    const sql = `SELECT ${what} FROM activities ${index} WHERE ${conditions}`
    return { sql, values: [...pairs.map(([, value]) => value), from, to] }
  })
}

/** The first position of a millisecond; of times that no record can have, the nearest. */
function positionOf(ms: number): bigint {
  const position = BigInt(Math.min(Math.max(0, ms), OCCURRED_MS_MAX + 1)) << ORDER_BITS
  return position < 2n ** 63n ? position : 2n ** 63n - 1n
}

function activityOf(row: Record<string, unknown>): Activity {
  const { occurredMs, recordedMs, metadata, ...texts } = row as {
    [K in keyof Activity]: string
  } & { occurredMs: number; recordedMs: number }
  return {
    ...texts,
    metadata: JSON.parse(metadata) as Activity['metadata'],
    occurredAt: new Date(occurredMs).toISOString(),
    recordedAt: new Date(recordedMs).toISOString(),
  }
}
