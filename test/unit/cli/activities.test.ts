import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ActivityStore } from '../../../src/activities/activity-store.ts'
import { runCli } from '../../../src/cli/run-cli.ts'
import { ManualClock } from '../../../src/core/clock.ts'
import { CapturedTerminal } from '../../support/captured-terminal.ts'

const RECORD = {
  activityId: 'one',
  actorType: 'ACTOR_TYPE_TOKEN',
  userId: 'ops',
  action: 'ACTIVITY_ACTION_CACHE_CLEAR',
  resourceType: 'cache',
  resourceId: 'vendor/a-model-with-a-name-that-is-much-too-long-for-a-column-of-a-table',
  description: 'Cleared l0, l1, l2 of model vendor/a-model-with-a-name-that-is-much-too-long.\nEvil \u001b[2J',
  metadata: {},
  occurredAt: '2026-01-02T03:04:05.678Z',
  recordedAt: '2026-01-02T03:04:05.679Z',
  actorId: 'tok_1',
  actorDisplay: 'ops',
}
const PAGE = { activities: [RECORD], total: 41, page: 3, size: 20 }

let server: Server
let url: string
let dataDir: string
const asked: URLSearchParams[] = []

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'kvtier-cli-'))
  server = createServer((request, response) => {
    asked.push(new URL(request.url!, 'http://x').searchParams)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(PAGE))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.close()
  rmSync(dataDir, { recursive: true })
})

async function kvtier(...argv: string[]) {
  asked.length = 0
  const terminal = new CapturedTerminal()
  const code = await runCli(argv, terminal)
  return { code, stdout: terminal.stdout, stderr: terminal.stderr }
}

it('lists a page in a table of at most 100 columns, whatever a record holds', async () => {
  const { code, stdout } = await kvtier('activities', '--page', '3', '--url', url)
  expect(code).toBe(0)
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
  expect(stdout).toContain('2026-01-02 03:04:05  cache-clear')
  expect(stdout).toContain('41 to 41 of 41, newest first.')
  expect(stdout).not.toContain('\u001b')
  expect(JSON.parse((await kvtier('activities', '--json', '--url', url)).stdout)).toEqual(PAGE)
})

it('passes every filter on', async () => {
  const filters = ['--user', 'ops', '--action', 'cache-clear', '--type', 'cache', '--resource', 'm']
  const rest = ['--start', '2026-01-01', '--end', '2026-01-02T00:00:00+01:00', '--page', '2', '--size', '5']
  await kvtier('activities', ...filters, ...rest, '--url', url)
  expect(Object.fromEntries(asked[0]!)).toEqual({
    userId: 'ops',
    action: 'ACTIVITY_ACTION_CACHE_CLEAR',
    resourceType: 'cache',
    resourceId: 'm',
    startTime: '2026-01-01T00:00:00Z',
    endTime: '2026-01-02T00:00:00+01:00',
    page: '2',
    size: '5',
  })
})

it('takes how long ago for a time, and refuses what is none', async () => {
  await kvtier('activities', '--start', '2h', '--url', url)
  expect(asked[0]!.get('startTime')).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/)
  const wrong = await kvtier('activities', '--start', 'yesterday', '--url', url)
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--start')])
})

it('tokens that are created and revoked at the command line are in the log', async () => {
  const { stdout } = await kvtier(
    'token',
    'create',
    '--scope',
    'read',
    '--name',
    'board',
    '--data-dir',
    dataDir,
    '--json',
  )
  const { id, token } = JSON.parse(stdout) as { id: string; token: string }
  await kvtier('token', 'revoke', id, '--data-dir', dataDir)
  await kvtier('token', 'revoke', id, '--data-dir', dataDir)
  const store = new ActivityStore({
    path: join(dataDir, 'activities.sqlite'),
    clock: new ManualClock(),
    newId: () => 'x',
  })
  const { activities, total } = store.read({ resourceId: id, resourceType: 'token' }, 1n, 20)
  store.close()
  expect(total).toBe(2)
  expect(activities.map(({ action }) => action)).toEqual([
    'ACTIVITY_ACTION_TOKEN_REVOKE',
    'ACTIVITY_ACTION_TOKEN_CREATE',
  ])
  expect(activities[1]).toMatchObject({
    actorType: 'ACTOR_TYPE_OPERATOR',
    metadata: { name: 'board', scopes: ['read'] },
  })
  expect(JSON.stringify(activities)).not.toContain(token)
})
