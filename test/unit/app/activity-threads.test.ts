import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { SYSTEM_ACTOR } from '../../../src/activities/activity.ts'
import { ActivityStore } from '../../../src/activities/activity-store.ts'
import { ActivityThreads } from '../../../src/app/activity-threads.ts'
import { ManualClock } from '../../../src/core/clock.ts'

const ACT = {
  actor: SYSTEM_ACTOR,
  action: 'ACTIVITY_ACTION_CACHE_CLEAR',
  resourceType: 'cache',
  resourceId: 'm',
  description: 'Cleared.',
  metadata: { n: 1 },
} as const
const OPTIONS = { retentionMs: 0, sizeMaxBytes: 0 }

let directory: string
let path: string
const clock = new ManualClock()

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-activities-'))
  path = join(directory, 'activities.sqlite')
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const open = () => ActivityThreads.open({ path, options: OPTIONS, clock, newId: () => crypto.randomUUID() })

it('shows what was acknowledged, to this process and to others, in the order it was given', async () => {
  const log = await open()
  const written = await Promise.all(Array.from({ length: 50 }, () => log.append(ACT)))
  const page = await log.list({ resourceId: 'm' }, 1n, 100)
  expect(page).toEqual({ activities: written.toReversed(), total: 50 })
  const other = new ActivityStore({ path, clock, newId: () => 'x' })
  expect(other.read({}, 1n, 1).total).toBe(50)
  other.write(ACT)
  expect((await log.list({}, 1n, 1)).total).toBe(51)
  other.close()
  await log.close()
})

it('writes what was given before it was closed', async () => {
  const log = await open()
  const waiting = [log.append(ACT), log.append(ACT)]
  await log.close()
  await Promise.all(waiting)
  const again = await open()
  expect((await again.list({}, 1n, 1)).total).toBe(2)
  await again.close()
})

it('says in one line that its file cannot be opened', async () => {
  writeFileSync(path, 'not a database, but long enough to have a header'.repeat(100))
  await expect(open()).rejects.toThrow(/^the activity log .* cannot be opened: .*move it away$/)
})
