import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Activity, ActivityDraft, ActivityFilter } from '../../../src/activities/activity.ts'
import { SYSTEM_ACTOR } from '../../../src/activities/activity.ts'
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
    const written = store.append(draft({ actor, resourceId: 'm', metadata, occurredAtMs }))
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
    expect(store.list({}, 1n, 20)).toEqual({ activities: [written], total: 1 })
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
    const written = store.append(draft({ resourceId: text, description: text, metadata: { [text]: text } }))
    const page = store.list({ resourceId: written.resourceId }, 1n, 20)
    expect(page).toEqual({ activities: [written], total: 1 })
    expect(store.list({ resourceId: 'other' }, 1n, 20).total).toBe(0)
  })

  it('is never changed', async () => {
    store.append(draft())
    const { DatabaseSync } = await import('node:sqlite')
    const other = new DatabaseSync(join(directory, 'activities.db'))
    expect(() => other.exec("UPDATE activities SET user_id = 'me'")).toThrow('append-only')
    other.close()
  })
})

describe('pages', () => {
  it('order equal times by writing, newest first, and do not overlap', () => {
    const ids = Array.from({ length: 25 }, () => store.append(draft()).activityId)
    const pages = [1n, 2n, 3n, 4n].map((page) => store.list({}, page, 10))
    expect(pages.flatMap((page) => page.activities.map((activity) => activity.activityId))).toEqual(ids.toReversed())
    expect(pages.map((page) => page.total)).toEqual([25, 25, 25, 25])
  })

  it('past the end, however far, are empty with the true total', () => {
    store.append(draft())
    for (const page of [2n, 2n ** 53n, 2n ** 63n - 1n]) {
      expect(store.list({}, page, 100)).toEqual({ activities: [], total: 1 })
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
      written.push(store.append(draft(act)))
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
      expect(store.list(filter, BigInt(page), size)).toEqual({
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
    expect(store.list({}, 1n, 20).total).toBe(0)
    clock.advance(1)
    const other = open()
    const written = other.append(draft())
    other.close()
    expect(store.list({}, 1n, 20)).toEqual({ activities: [written], total: 1 })
  })

  it('keeps its records over a close and open', () => {
    const written = store.append(draft())
    store.close()
    clock.advance(1)
    store = open()
    expect(store.list({}, 1n, 20).activities).toEqual([written])
    store.append(draft())
    expect(store.list({}, 1n, 20).total).toBe(2)
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
    const { total } = store.list({}, 1n, 1)
    const found = new Set(store.list({}, 1n, total).activities.map((activity) => activity.activityId))
    expect(ids.length).toBeGreaterThanOrEqual(50)
    expect(ids.filter((id) => !found.has(id))).toEqual([])
  })
})
