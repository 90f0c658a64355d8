import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import { ACTIONS, RESOURCE_TYPES } from '../src/activities/actions.ts'
import { type ActivityDraft, type ActivityFilter, SYSTEM_ACTOR } from '../src/activities/activity.ts'
import { INDEX_STATEMENTS, ORDER_BITS, openActivities } from '../src/activities/activity-schema.ts'
import { ActivityThreads } from '../src/app/activity-threads.ts'
import { SystemClock } from '../src/core/clock.ts'
import { random } from '../test/support/random.ts'
import { LoopDelay } from './support/loop-delay.ts'
import { Samples } from './support/samples.ts'

/**
 * Activity log: a page of 100 for narrow filters, a broad count, a deep page, and what writing costs the caller.
 *
 * A log of 1,000,000 records (10,000,000 with --full) is made in the temporary directory. Every narrow filter is new, so
 * that none is answered from a remembered total; each matches 10,000 records at most.
 */
const RECORDS = process.argv.includes('--full') ? 10_000_000 : 1_000_000
const STEP_MS = 1000
const START_MS = Date.UTC(2020, 0, 1)
const USERS = 200
const RESOURCES = 2000
const MATCHES_MAX = 10_000
const QUERIES = 300
const APPENDS = 5000

const ACTION_NAMES = Object.keys(ACTIONS)
const TYPE_NAMES = Object.keys(RESOURCE_TYPES)
const next = random(7)

/** Fills a log by SQL alone: users, kinds and resources spread evenly and independently of each other. */
function fill(path: string): void {
  const database = openActivities(path, { hasIndexes: false })
  database.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; PRAGMA temp_store = MEMORY; BEGIN')
  const term = database.prepare('INSERT INTO terms VALUES (?, ?)')
  for (let user = 0; user < USERS; user += 1) term.run(user + 1, `user-${user}`)
  for (let resource = 0; resource < RESOURCES; resource += 1) term.run(USERS + resource + 1, `resource-${resource}`)
  const kind = database.prepare('INSERT INTO kinds VALUES (?, ?, ?)')
  for (const [at, action] of ACTION_NAMES.entries()) kind.run(at + 1, action, TYPE_NAMES[at % TYPE_NAMES.length]!)
  database.exec(`
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${RECORDS})
    INSERT INTO activities SELECT
      (${START_MS} + i * ${STEP_MS}) << ${ORDER_BITS},
      1 + (i * 7919) % ${USERS}, 1 + (i / 13) % ${ACTION_NAMES.length}, ${USERS + 1} + (i / 7 * 31) % ${RESOURCES},
      ${START_MS} + i * ${STEP_MS}, printf('%08x-0000-4000-8000-%012x', i, i * 7919), 'ACTOR_TYPE_TOKEN',
      printf('tok_%016x', (i * 7919) % ${USERS}), printf('user %d', (i * 7919) % ${USERS}),
      printf('Cleared l0, l1, l2 of model %d.', i % 97), printf('{"l1Chunks":%d,"requestId":"%08x"}', i % 1000, i)
    FROM n;
    COMMIT`)
  for (const statement of INDEX_STATEMENTS) database.exec(statement)
  database.close()
}

/** Filters that match at most `MATCHES_MAX` records, by what they name. */
const NARROW: Readonly<Record<string, () => ActivityFilter>> = {
  resource: () => ({ resourceId: `resource-${next(RESOURCES)}` }),
  'user and action': () => ({ userId: `user-${next(USERS)}`, action: ACTION_NAMES[next(ACTION_NAMES.length)]! }),
  'user, type and time': () => ({
    userId: `user-${next(USERS)}`,
    resourceType: TYPE_NAMES[next(TYPE_NAMES.length)]!,
    ...window(RECORDS / 2),
  }),
  'action, resource and time': () => ({
    action: ACTION_NAMES[next(ACTION_NAMES.length)]!,
    resourceId: `resource-${next(RESOURCES)}`,
    ...window(RECORDS / 2),
  }),
  'type and time': () => ({ resourceType: TYPE_NAMES[next(TYPE_NAMES.length)]!, ...window(MATCHES_MAX * 3) }),
  time: () => window(MATCHES_MAX - 1),
  contradiction: () => ({ action: ACTION_NAMES[0]!, resourceType: TYPE_NAMES[1]!, userId: `user-${next(USERS)}` }),
}

function window(records: number): ActivityFilter {
  const span = Math.floor(Math.min(records, RECORDS))
  const first = next(RECORDS - span + 1)
  return { startMs: START_MS + first * STEP_MS, endMs: START_MS + (first + span) * STEP_MS }
}

async function timed(log: ActivityThreads, filter: ActivityFilter, page = 1n): Promise<{ ms: number; total: number }> {
  const start = performance.now()
  const { total } = await log.list(filter, page, 100)
  return { ms: performance.now() - start, total }
}

async function pages(log: ActivityThreads) {
  const rows: Record<string, object> = {}
  for (const [name, make] of Object.entries(NARROW)) {
    const samples = new Samples()
    let most = 0
    for (let query = 0; query < QUERIES; query += 1) {
      const { ms, total } = await timed(log, make())
      if (total > MATCHES_MAX) throw new Error(`${name} matches ${total} records`)
      most = Math.max(most, total)
      samples.push(ms)
    }
    rows[name] = { most_matches: most, p50_ms: rounded(samples.at(0.5)), p99_ms: rounded(samples.at(0.99)) }
  }
  return rows
}

/** What takes longer than a narrow page, and how late timers of the asking thread are meanwhile. */
async function broad(log: ActivityThreads) {
  const delay = new LoopDelay()
  delay.start()
  const first = await timed(log, {})
  const again = await timed(log, {})
  const type = await timed(log, { resourceType: 'cache' })
  const deep = await timed(log, {}, BigInt(Math.floor(RECORDS / 200)))
  const deepMerged = await timed(log, { resourceType: 'cache' }, BigInt(Math.floor(type.total / 200)))
  delay.stop()
  return {
    count_of_all_ms: rounded(first.ms),
    again_ms: rounded(again.ms),
    count_of_a_type_ms: rounded(type.ms),
    page_in_the_middle_ms: rounded(deep.ms),
    page_in_the_middle_of_a_type_ms: rounded(deepMerged.ms),
    asking_thread_delayed_ms: delay.at(1),
  }
}

/** What a record costs who writes it: to post it, and until it is on the disk. */
async function writing(log: ActivityThreads) {
  const draft: ActivityDraft = {
    actor: SYSTEM_ACTOR,
    action: 'ACTIVITY_ACTION_QUARANTINE',
    resourceType: 'worker',
    resourceId: '1234567890',
    description: 'Slots of a worker of model vendor/model are quarantined: its leases expired.',
    metadata: { model: 'vendor/model', isSilent: true, writeBytes: 1e9, readBytes: 0 },
  }
  const posted = new Samples()
  const acknowledged = new Samples()
  const { port1, port2 } = new MessageChannel()
  port2.on('message', () => {})
  const dataThread = new Samples()
  for (let at = 0; at < APPENDS; at += 1) {
    let start = performance.now()
    port1.postMessage({ id: at, method: 'record', args: [draft] })
    dataThread.push(performance.now() - start)
    start = performance.now()
    const written = log.append(draft)
    posted.push(performance.now() - start)
    if (at % 10 === 0) {
      await written
      acknowledged.push(performance.now() - start)
    }
  }
  port1.close()
  const row = (samples: Samples) => ({
    p50_us: rounded(samples.at(0.5) * 1000),
    p99_us: rounded(samples.at(0.99) * 1000),
  })
  return {
    'posted by the data thread': row(dataThread),
    'posted by a route': row(posted),
    'on the disk': row(acknowledged),
  }
}

function rounded(value: number): number {
  return Number(value.toPrecision(3))
}

const directory = mkdtempSync(join(tmpdir(), 'kvtier-bench-activities-'))
try {
  const path = join(directory, 'activities.sqlite')
  const start = performance.now()
  fill(path)
  const made = {
    records: RECORDS,
    seconds: rounded((performance.now() - start) / 1000),
    bytes_a_record: rounded(statSync(path).size / RECORDS),
  }
  const options = { retentionMs: 0, sizeMaxBytes: 0 }
  const log = await ActivityThreads.open({ path, options, clock: new SystemClock(), newId: randomUUID })
  await log.list({ userId: 'nobody' }, 1n, 1) // starts the reading thread
  const results = { made, broad: await broad(log), pages: await pages(log), writing: await writing(log) }
  await log.close()
  if (process.argv.includes('--json')) console.log(JSON.stringify(results))
  else {
    console.table([results.made])
    console.table([results.broad])
    console.table(results.pages)
    console.table(results.writing)
  }
} finally {
  rmSync(directory, { recursive: true, force: true })
}
