import { afterEach, beforeEach, expect, it } from 'vitest'
import type { MemoryAdapter } from '../../../../src/l2/adapters/memory.ts'
import { HttpHarness } from '../../../support/http-harness.ts'
import { SPACE, storeChain } from '../../../support/l2-objects.ts'
import { settle } from '../../../support/l2-set.ts'

let harness: HttpHarness
let admin: Record<string, string>

beforeEach(async () => {
  harness = await HttpHarness.start()
  admin = harness.bearer('admin')
})

afterEach(() => harness.close())

async function ask(method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object) {
  const request = { method, url, headers: admin, ...(payload === undefined ? {} : { payload }) }
  const answer = await harness.service.api.inject(request)
  return { status: answer.statusCode, body: answer.json() }
}

function acts(): { action: string; resourceId: string; metadata: Record<string, unknown> }[] {
  return harness.activities.read({}, 1n, 100).activities.map(({ action, resourceId, metadata }) => {
    return { action: action.replace('ACTIVITY_ACTION_ADAPTER_', ''), resourceId, metadata: { ...metadata } }
  })
}

it('jobs run in the background and say how far they are', async () => {
  const { adapter } = await harness.storage.attachDisk()
  await storeChain(adapter, 1, 0, 128)
  ;(adapter as MemoryAdapter).spoil(3)
  const order = { kind: 'verify', adapter: 'disk', rate_bytes: 64_000 }
  const started = await ask('POST', '/v1/l2/jobs', order)
  expect(started).toMatchObject({ status: 202, body: { id: 'job-1', state: 'running', objects_total: 128 } })
  expect((await ask('POST', '/v1/l2/jobs', order)).body.error.code).toBe('L2_BUSY')
  for (let step = 0; step < 2; step += 1) {
    await settle()
    harness.storage.clock.advance(1000)
    await settle()
  }
  expect((await ask('GET', '/v1/l2/jobs/job-1')).body).toMatchObject({
    state: 'done',
    elapsed_ms: 2000,
    ok: 127,
    corrupt: 1,
    corrupt_objects: [{ model: 'm', cache_salt: '', rank: 0 }],
  })
  expect((await ask('GET', '/v1/l2/jobs')).body.jobs.length).toBe(1)
  expect((await ask('DELETE', '/v1/l2/jobs/job-1')).status).toBe(404)
  expect(acts()).toMatchObject([{ action: 'JOB_START', resourceId: 'disk', metadata: { kind: 'verify' } }])
})

it('jobs can be ended', async () => {
  const { adapter } = await harness.storage.attachDisk()
  await storeChain(adapter, 1, 0, 128)
  await ask('POST', '/v1/l2/jobs', { kind: 'verify', adapter: 'disk', rate_bytes: 1 })
  expect((await ask('DELETE', '/v1/l2/jobs/job-1')).status).toBe(202)
  await settle()
  expect((await ask('GET', '/v1/l2/jobs/job-1')).body.state).toBe('cancelled')
  expect(acts().map(({ action }) => action)).toEqual(['JOB_CANCEL', 'JOB_START'])
})

it('jobs count what an adapter holds', async () => {
  const { adapter } = await harness.storage.attachDisk()
  await storeChain(adapter, 1, 0, 4, { ...SPACE, salt: 's' })
  await ask('POST', '/v1/l2/jobs', { kind: 'stats', adapter: 'disk' })
  await settle()
  const spaces = [{ model: 'm', cache_salt: 's', ranks: 1, object_bytes: 1000, objects: 4, bytes: 4000 }]
  expect((await ask('GET', '/v1/l2/jobs/job-1')).body).toMatchObject({ state: 'done', spaces })
})

it.each([
  [{}, 400],
  [{ kind: 'polish', adapter: 'disk' }, 400],
  [{ kind: 'verify', adapter: 'nobody' }, 404],
  [{ kind: 'verify', adapter: 'disk', target: 'x' }, 400],
  [{ kind: 'evacuate', adapter: 'disk' }, 400],
  [{ kind: 'verify', adapter: 'disk', rate_bytes: -1 }, 400],
  [{ kind: 'verify', adapter: 'disk', colour: 'red' }, 400],
])('jobs refuse %j', async (body, status) => {
  await harness.storage.attachDisk()
  expect((await ask('POST', '/v1/l2/jobs', body)).status).toBe(status)
  expect(acts()).toEqual([])
})
