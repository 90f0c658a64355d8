import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Activity, ActivityDraft, ActivityFilter } from '../../../src/activities/activity.ts'
import { OCCURRED_MS_MAX, SYSTEM_ACTOR } from '../../../src/activities/activity.ts'
import { ActivityStore } from '../../../src/activities/activity-store.ts'
import { ManualClock } from '../../../src/core/clock.ts'
import { random } from '../../support/random.ts'

let directory: string
let clock: ManualClock
let store: ActivityStore

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-activities-'))
  clock = new ManualClock()
  store = open()
})

afterEach(() => {
  store.close()
  rmSync(directory, { recursive: true, force: true })
})

function open(): ActivityStore {
  let id = 0
  const newId = () => `${process.pid}-${clock.nowMs()}-${id++}`
  return new ActivityStore({ path: join(directory, 'activities.db'), clock, newId })
}

function draft(over: Partial<ActivityDraft> = {}): ActivityDraft {
  return {
    actor: SYSTEM_ACTOR,
    action: 'ACTIVITY_ACTION_CACHE_CLEAR',
    resourceType: 'cache',
    resourceId: '',
    description: 'Cleared.',
    ...over,
  }
}

describe('one record', () => {
  it('comes back with all twelve fields as they were written', () => {
    const actor = { type: 'ACTOR_TYPE_TOKEN', id: 'tok_1', userId: 'ops', display: 'ops token' } as const
    const metadata = { tiers: ['l1'], nested: { n: 1.5, yes: true, none: null } }
    const occurredAtMs = clock.wallMs() - 5000
    const written = store.write(draft({ actor, resourceId: 'm', metadata, occurredAtMs }))
    expect(written).toEqual({
      activityId: written.activityId,
      actorType: 'ACTOR_TYPE_TOKEN',
      userId: 'ops',
      action: 'ACTIVITY_ACTION_CACHE_CLEAR',
      resourceType: 'cache',
      resourceId: 'm',
      description: 'Cleared.',
      metadata,
      occurredAt: new Date(occurredAtMs).toISOString(),
      recordedAt: new Date(clock.wallMs()).toISOString(),
      actorId: 'tok_1',
      actorDisplay: 'ops token',
    })
    expect(store.read({}, 1n, 20)).toEqual({ activities: [written], total: 1 })
  })

  it.each([
    "'; DROP TABLE activities; --",
    '%_\\"`',
    'zero\0width',
    '\ud800 lone',
    '\u202e right to left, \u{1f600}',
    '\n\t\r',
    'x'.repeat(100_000),
    '',
  ])('survives hostile text %#', (text) => {
    const written = store.write(draft({ resourceId: text, description: text, metadata: { [text]: text } }))
    const page = store.read({ resourceId: written.resourceId }, 1n, 20)
    expect(page).toEqual({ activities: [written], total: 1 })
    expect(store.read({ resourceId: 'other' }, 1n, 20).total).toBe(0)
  })

  it('is never changed', async () => {
    store.write(draft())
    const { DatabaseSync } = await import('node:sqlite')
    const other = new DatabaseSync(join(directory, 'activities.db'))
    expect(() => other.exec("UPDATE activities SET actor_id = 'me'")).toThrow('append-only')
    other.close()
  })
})

describe('pages', () => {
  it('order equal times by writing, newest first, and do not overlap', () => {
    const ids = Array.from({ length: 25 }, () => store.write(draft()).activityId)
    const pages = [1n, 2n, 3n, 4n].map((page) => store.read({}, page, 10))
    expect(pages.flatMap((page) => page.activities.map((activity) => activity.activityId))).toEqual(ids.toReversed())
    expect(pages.map((page) => page.total)).toEqual([25, 25, 25, 25])
  })

  it('past the end, however far, are empty with the true total', () => {
    store.write(draft())
    for (const page of [2n, 2n ** 53n, 2n ** 63n - 1n]) {
      expect(store.read({}, page, 100)).toEqual({ activities: [], total: 1 })
    }
  })

  // Oracle: a plain array, filtered and sorted.
  it.each([1, 2, 3])('agree with an array under random filters (seed %i)', (seed) => {
    const next = random(seed)
    const actions = ['ACTIVITY_ACTION_CACHE_CLEAR', 'ACTIVITY_ACTION_PIN_CREATE'] as const
    const written: Activity[] = []
    const pick = <T>(make: () => T): T | undefined => (next(2) === 0 ? make() : undefined)
    for (let step = 0; step < 300; step += 1) {
      const actor = { ...SYSTEM_ACTOR, userId: `user${next(3)}` }
      const occurredAtMs = clock.wallMs() + next(10)
      const act = { actor, action: actions[next(2)]!, resourceId: `r${next(3)}`, occurredAtMs }
      written.push(store.write(draft(act)))
      const filter: ActivityFilter = Object.fromEntries(
        Object.entries({
          userId: pick(() => `user${next(3)}`),
          action: pick(() => actions[next(2)]!),
          resourceId: pick(() => `r${next(3)}`),
          startMs: pick(() => clock.wallMs() + next(10)),
          endMs: pick(() => clock.wallMs() + next(10)),
        }).filter(([, value]) => value !== undefined),
      )
      const matching = written
        .filter((activity) => meets(activity, filter))
        .map((activity, order) => ({ activity, order }))
        .toSorted((a, b) => Date.parse(b.activity.occurredAt) - Date.parse(a.activity.occurredAt) || b.order - a.order)
        .map(({ activity }) => activity)
      const page = next(4) + 1
      const size = next(7) + 1
      expect(store.read(filter, BigInt(page), size)).toEqual({
        activities: matching.slice((page - 1) * size, page * size),
        total: matching.length,
      })
    }
  })
})

function meets(activity: Activity, filter: ActivityFilter): boolean {
  const at = Date.parse(activity.occurredAt)
  return (
    (filter.userId ?? activity.userId) === activity.userId &&
    (filter.action ?? activity.action) === activity.action &&
    (filter.resourceId ?? activity.resourceId) === activity.resourceId &&
    at >= (filter.startMs ?? at) &&
    (filter.endMs === undefined || at < filter.endMs)
  )
}

describe('the file', () => {
  it('shows what another process wrote at once', () => {
    expect(store.read({}, 1n, 20).total).toBe(0)
    clock.advance(1)
    const other = open()
    const written = other.write(draft())
    other.close()
    expect(store.read({}, 1n, 20)).toEqual({ activities: [written], total: 1 })
  })

  it('keeps its records over a close and open', () => {
    const written = store.write(draft())
    store.close()
    clock.advance(1)
    store = open()
    expect(store.read({}, 1n, 20).activities).toEqual([written])
    store.write(draft())
    expect(store.read({}, 1n, 20).total).toBe(2)
  })

  it('that is no database is refused in one line', () => {
    const path = join(directory, 'other.db')
    writeFileSync(path, 'not a database, but long enough to have a header'.repeat(100))
    const make = () => new ActivityStore({ path, clock, newId: () => '1' })
    expect(make).toThrow(/^the activity log .* cannot be opened: .*move it away$/)
  })

  it('in a directory that is not there is refused in one line', () => {
    const path = join(directory, 'absent', 'activities.db')
    const make = () => new ActivityStore({ path, clock, newId: () => '1' })
    expect(make).toThrow(/^the activity log .* cannot be opened/)
  })

  it('holds every acknowledged record after kill -9', async () => {
    store.close()
    const program = fileURLToPath(new URL('../../support/programs/append-activities.ts', import.meta.url))
    const child = spawn(process.execPath, [program, join(directory, 'activities.db')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const closed = once(child, 'close')
    let acknowledged = ''
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (piece: string) => {
      acknowledged += piece
      if (acknowledged.split('\n').length > 50) child.kill('SIGKILL')
    })
    await closed
    expect(child.signalCode).toBe('SIGKILL')
    const ids = acknowledged.slice(0, acknowledged.lastIndexOf('\n')).split('\n')
    store = open()
    const { total } = store.read({}, 1n, 1)
    const found = new Set(store.read({}, 1n, total).activities.map((activity) => activity.activityId))
    expect(ids.length).toBeGreaterThanOrEqual(50)
    expect(ids.filter((id) => !found.has(id))).toEqual([])
  })
})

it('finds the last millisecond that a record can have, without an end and with one beyond it', () => {
  store.write(draft({ occurredAtMs: OCCURRED_MS_MAX }))
  expect(store.read({}, 1n, 1).total).toBe(1)
  expect(store.read({ endMs: OCCURRED_MS_MAX + 5 }, 1n, 1).total).toBe(1)
  expect(store.read({ endMs: OCCURRED_MS_MAX }, 1n, 1).total).toBe(0)
})

describe('retention', () => {
  const seconds = (total: number) => {
    for (let second = 0; second < total; second += 1) {
      store.write(draft())
      clock.advance(1000)
    }
  }

  it('removes what is older than its age, and no more', () => {
    seconds(10)
    expect(store.trim({ retentionMs: 4000, sizeMaxBytes: 0 })).toBe(6)
    expect(store.read({}, 1n, 20).total).toBe(4)
    expect(store.trim({ retentionMs: 4000, sizeMaxBytes: 0 })).toBe(0)
  })

  it('keeps everything without limits', () => {
    seconds(3)
    clock.advance(10 ** 12)
    expect(store.trim({ retentionMs: 0, sizeMaxBytes: 0 })).toBe(0)
    expect(store.read({}, 1n, 20).total).toBe(3)
  })

  it('removes the oldest until the log fits, and totals follow', () => {
    const text = 'x'.repeat(1000)
    for (let step = 0; step < 3000; step += 1) {
      store.write(draft({ resourceId: `r${step}`, description: text }))
      clock.advance(1)
    }
    expect(store.read({}, 1n, 1).total).toBe(3000)
    const removed = store.trim({ retentionMs: 0, sizeMaxBytes: 2 ** 21 })
    expect(removed).toBeGreaterThan(1000)
    const { total, activities } = store.read({}, 1n, 1)
    expect([total, activities[0]!.resourceId]).toEqual([3000 - removed, 'r2999'])
    expect(store.read({ resourceId: 'r0' }, 1n, 1).total).toBe(0)
    expect(store.read({ resourceId: 'r2999' }, 1n, 1).total).toBe(1)
  })

  it('is the only way out of the log', async () => {
    store.write(draft())
    const { DatabaseSync } = await import('node:sqlite')
    const other = new DatabaseSync(join(directory, 'activities.db'))
    expect(() => other.exec('DELETE FROM activities')).toThrow('append-only')
    other.close()
  })
})

describe('a page', () => {
  it('counts what is written late, below what was counted before', () => {
    store.write(draft())
    expect(store.read({}, 1n, 20).total).toBe(1)
    store.write(draft({ occurredAtMs: clock.wallMs() - 10_000 }))
    expect(store.read({}, 1n, 20).total).toBe(2)
  })

  it('by a type or an action takes every pair of the two', () => {
    store.write(draft({ resourceType: 'cache' }))
    store.write(draft({ resourceType: 'adapter' }))
    clock.advance(1)
    store.write(draft({ action: 'ACTIVITY_ACTION_PIN_CREATE', resourceType: 'cache' }))
    expect(store.read({ resourceType: 'cache' }, 1n, 20).total).toBe(2)
    expect(store.read({ action: 'ACTIVITY_ACTION_CACHE_CLEAR' }, 1n, 20).total).toBe(2)
    expect(store.read({ action: 'ACTIVITY_ACTION_PIN_CREATE', resourceType: 'adapter' }, 1n, 20).total).toBe(0)
    const [newest] = store.read({ resourceType: 'cache' }, 1n, 1).activities
    expect(newest!.action).toBe('ACTIVITY_ACTION_PIN_CREATE')
  })

  it('of times that no record can have is empty or whole', () => {
    store.write(draft())
    expect(store.read({ startMs: 8.64e15 }, 1n, 20).total).toBe(0)
    expect(store.read({ startMs: -8.64e15, endMs: 8.64e15 }, 1n, 20).total).toBe(1)
  })
})

it('reads on what version 1 wrote', async () => {
  store.close()
  rmSync(directory, { recursive: true })
  directory = mkdtempSync(join(tmpdir(), 'kvtier-activities-'))
  const { DatabaseSync } = await import('node:sqlite')
  const old = new DatabaseSync(join(directory, 'activities.db'))
  old.exec(`CREATE TABLE activities (sequence INTEGER PRIMARY KEY AUTOINCREMENT, activity_id TEXT NOT NULL UNIQUE,
    actor_type TEXT, user_id TEXT, action TEXT, resource_type TEXT, resource_id TEXT, description TEXT, metadata TEXT,
    occurred_ms INTEGER, recorded_ms INTEGER, actor_id TEXT, actor_display TEXT) STRICT;
    CREATE INDEX by_user ON activities (user_id, occurred_ms, sequence);
    CREATE TRIGGER no_update BEFORE UPDATE ON activities BEGIN SELECT RAISE(ABORT, 'activities are append-only'); END;
    INSERT INTO activities VALUES (1, 'a', 't', 'u', 'A', 'R', 'r', 'd', '{"n":1}', 1700000000000, 1700000000001, 'i', 'p');
    INSERT INTO activities VALUES (2, 'b', 't', 'u', 'A', 'R', '', 'd', '{}', 1700000000000, 1700000000001, 'i', 'p');
    PRAGMA user_version = 1`)
  old.close()
  store = open()
  const { activities, total } = store.read({ userId: 'u' }, 1n, 20)
  expect([total, activities.map(({ activityId }) => activityId)]).toEqual([2, ['b', 'a']])
  expect(activities[1]).toMatchObject({ resourceId: 'r', metadata: { n: 1 }, occurredAt: '2023-11-14T22:13:20.000Z' })
  store.write(draft())
  expect(store.read({}, 1n, 20).total).toBe(3)
})
