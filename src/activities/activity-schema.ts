import { DatabaseSync } from 'node:sqlite'
import { CacheError } from '../core/errors.ts'

// A record's place in the log is one integer, which every index ends in without saying so:
//
//   position, 63 bits:  | occurred, ms since 1970: 43 bits | order of writing within that millisecond: 20 bits |
//
// So each index below gives one set of equal fields, any range of time and the order newest first, and the cost of a
// filter is that of its matches. Action and type of resource are one number, their pair (`kinds`): few pairs occur, and
// a filter by one of the two is a handful of pairs. Users and resources are numbers of `terms`.
//
//   log_state   epoch    grows when a record goes, or is written below others: what was counted counts no more
//               horizon  records up to it may be removed: their time is over
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS terms (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
  CREATE TABLE IF NOT EXISTS kinds (
    id INTEGER PRIMARY KEY,
    action TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    UNIQUE (action, resource_type)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS activities (
    position INTEGER PRIMARY KEY,
    user INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    resource INTEGER NOT NULL,
    recorded_ms INTEGER NOT NULL,
    activity_id TEXT NOT NULL,
    actor_type TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    actor_display TEXT NOT NULL,
    description TEXT NOT NULL,
    metadata TEXT NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS log_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,
    horizon INTEGER NOT NULL
  ) STRICT;
  INSERT OR IGNORE INTO log_state VALUES (1, 0, -1);
  CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON activities
    BEGIN SELECT RAISE(ABORT, 'activities are append-only'); END;
  CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON activities
    WHEN OLD.position > (SELECT horizon FROM log_state)
    BEGIN SELECT RAISE(ABORT, 'activities are append-only'); END;
`

/** Columns that a filter may hold equal, as they stand in the names of the indexes. */
export type EqualColumn = 'user' | 'kind' | 'resource'
const INDEXED: readonly (readonly EqualColumn[])[] = [
  ['user'],
  ['kind'],
  ['resource'],
  ['user', 'kind'],
  ['user', 'resource'],
  ['kind', 'resource'],
  ['user', 'kind', 'resource'],
]

/** The index over exactly these columns, given in the order of `EqualColumn`. */
export function indexName(columns: readonly EqualColumn[]): string {
  return `by_${columns.join('_')}`
}

/** Statements that make every index. Apart, because a bulk load makes them last. */
export const INDEX_STATEMENTS: readonly string[] = INDEXED.map(
  (columns) => `CREATE INDEX IF NOT EXISTS ${indexName(columns)} ON activities (${columns.join(', ')})`,
)

const SCHEMA_VERSION = 2
/** Bits of a position below the millisecond. */
export const ORDER_BITS = 20n

// Version 1 had one row of texts a record.
const UPGRADE_FROM_1 = `
  DROP TRIGGER no_update;
  ALTER TABLE activities RENAME TO old_activities;
  ${SCHEMA}
  INSERT OR IGNORE INTO terms (text) SELECT user_id FROM old_activities UNION SELECT resource_id FROM old_activities;
  INSERT OR IGNORE INTO kinds (action, resource_type) SELECT DISTINCT action, resource_type FROM old_activities;
  INSERT INTO activities
    SELECT (occurred_ms << ${ORDER_BITS}) + row_number() OVER (PARTITION BY occurred_ms ORDER BY sequence) - 1,
      users.id, kinds.id, resources.id, recorded_ms, activity_id, actor_type, actor_id, actor_display, description,
      metadata
    FROM old_activities AS old
    JOIN terms AS users ON users.text = old.user_id
    JOIN terms AS resources ON resources.text = old.resource_id
    JOIN kinds ON kinds.action = old.action AND kinds.resource_type = old.resource_type;
  DROP TABLE old_activities;
`

export interface OpenOptions {
  /** Nothing is written, and the log must exist. */
  readonly isReadOnly?: boolean
  /** A bulk load makes them itself, at its end. */
  readonly hasIndexes?: boolean
}

/** Opens or creates a log. @throws CacheError DATA_DIR_UNWRITABLE */
export function openActivities(path: string, options: OpenOptions = {}): DatabaseSync {
  const { isReadOnly = false, hasIndexes = true } = options
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path, { readOnly: isReadOnly })
    database.exec('PRAGMA busy_timeout = 5000; PRAGMA cache_size = -16384')
    if (isReadOnly) return database
    // FULL: a commit is on the disk before it is acknowledged.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864')
    database.exec('BEGIN IMMEDIATE')
    const version = database.prepare('PRAGMA user_version').get()!.user_version as number
    if (version > SCHEMA_VERSION) throw new Error(`it was written by a newer version (schema ${version})`)
    database.exec(version === 1 ? UPGRADE_FROM_1 : SCHEMA)
    if (hasIndexes) for (const statement of INDEX_STATEMENTS) database.exec(statement)
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}; COMMIT`)
    return database
  } catch (error) {
    database?.close()
    const reason = error instanceof Error ? error.message : String(error)
    const message = `the activity log ${path} cannot be opened: ${reason}; check its permissions or move it away`
    throw new CacheError('DATA_DIR_UNWRITABLE', message, { field: '--data-dir' }, error)
  }
}
