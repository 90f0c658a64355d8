import { afterAll, beforeAll, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'
import { storeChain } from '../../../support/l2-objects.ts'
import { settle } from '../../../support/l2-set.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

const SHAPE = { dtype: 'bfloat16', layers: 1, kv: 2, heads: 1, head_size: 128 }

/** One request after the other: what is asked, the operation of the document, and the record it leaves. */
const STEPS: readonly (readonly [method: Method, url: string, body: object | undefined, path: string, act: string])[] =
  [
    ['POST', '/v1/models', { model: 'm', chunk_bytes: 1024 }, '/v1/models', 'MODEL_REGISTER'],
    ['POST', '/v1/pins', { model: 'm', tokens: [1, 2, 3, 4] }, '/v1/pins', 'PIN_CREATE'],
    ['DELETE', '/v1/pins/PIN', undefined, '/v1/pins/{id}', 'PIN_DELETE'],
    ['PUT', '/v1/quotas/team', { l1_bytes: 1_000_000 }, '/v1/quotas/{cache_salt}', 'QUOTA_SET'],
    ['DELETE', '/v1/quotas/team', undefined, '/v1/quotas/{cache_salt}', 'QUOTA_DELETE'],
    ['POST', '/v1/device/borrowers', { model: 'm', shape: SHAPE }, '/v1/device/borrowers', 'DEVICE_LEND'],
    ['POST', '/v1/clear', { model: 'm' }, '/v1/clear', 'CACHE_CLEAR'],
    ['POST', '/v1/quarantine/release', { worker: '5' }, '/v1/quarantine/release', 'QUARANTINE_RELEASE'],
    ['POST', '/v1/l2/adapters', { name: 'a', type: 'memory', capacity: '1MiB' }, '/v1/l2/adapters', 'ADAPTER_ADD'],
    ['POST', '/v1/l2/jobs', { kind: 'verify', adapter: 'disk', rate_bytes: 1 }, '/v1/l2/jobs', 'ADAPTER_JOB_START'],
    ['DELETE', '/v1/l2/jobs/job-1', undefined, '/v1/l2/jobs/{id}', 'ADAPTER_JOB_CANCEL'],
    ['POST', '/v1/l2/adapters/a/drain', {}, '/v1/l2/adapters/{name}/drain', 'ADAPTER_DRAIN'],
    ['POST', '/v1/l2/adapters/a/undrain', undefined, '/v1/l2/adapters/{name}/undrain', 'ADAPTER_UNDRAIN'],
    ['POST', '/v1/l2/adapters/a/drain', {}, '/v1/l2/adapters/{name}/drain', 'ADAPTER_DRAIN'],
    ['DELETE', '/v1/l2/adapters/a', undefined, '/v1/l2/adapters/{name}', 'ADAPTER_REMOVE'],
    ['POST', '/v1/l2/adapters', { name: 'b', type: 'memory', capacity: '1MiB' }, '/v1/l2/adapters', 'ADAPTER_ADD'],
    ['DELETE', '/v1/l2/adapters/b?force=true', undefined, '/v1/l2/adapters/{name}', 'ADAPTER_FORCE'],
  ]

let harness: HttpHarness
let pinId = ''

beforeAll(async () => {
  harness = await HttpHarness.start()
  const sizes = { transfers: 2, writeBytes: 4096, readBytes: 1024 }
  harness.engine.late = [{ worker: '5', model: 'm', isSilent: true, silentMs: 1, ...sizes }]
})
afterAll(() => harness.close())

function ask(method: Method, url: string, headers: Record<string, string>, payload: object | undefined) {
  return harness.service.api.inject({ method, url, headers, ...(payload === undefined ? {} : { payload }) })
}

it('every route that changes something by order of an administrator has a step here', async () => {
  const { paths } = (await ask('GET', '/openapi.json', {}, undefined)).json()
  const needed: string[] = []
  for (const [path, methods] of Object.entries(paths as Record<string, Record<string, { security: object[] }>>)) {
    for (const [method, { security }] of Object.entries(methods)) {
      const isAdmin = JSON.stringify(security).includes('admin')
      if (isAdmin && method !== 'get') needed.push(`${method.toUpperCase()} ${path}`)
    }
  }
  const steps = new Set(STEPS.map(([method, , , path]) => `${method} ${path}`))
  expect(needed.length).toBeGreaterThan(8)
  expect(needed.filter((operation) => !steps.has(operation))).toEqual([])
})

it('each leaves one record with who gave the order, on what, and both times', async () => {
  const admin = harness.bearer('admin')
  const { adapter } = await harness.storage.attachDisk()
  await storeChain(adapter, 1, 0, 128) // work for a slow job
  for (const [method, url, body, , act] of STEPS) {
    const before = harness.activities.read({}, 1n, 1).total
    const answer = await ask(method, url.replace('PIN', pinId), admin, body)
    expect(answer.statusCode, `${method} ${url}: ${answer.body}`).toBeLessThan(300)
    if (act === 'PIN_CREATE') pinId = answer.json().pin_id
    await settle()
    const { activities, total } = harness.activities.read({}, 1n, 1)
    expect([act, total]).toEqual([act, before + 1])
    const record = activities[0]!
    expect(record).toMatchObject({ action: `ACTIVITY_ACTION_${act}`, actorType: 'ACTOR_TYPE_TOKEN' })
    expect(record).toMatchObject({
      userId: 'admin token',
      actorDisplay: 'admin token',
      metadata: { requestId: expect.stringMatching(/^req-/) },
    })
    expect(record.actorId).toMatch(/^tok_/)
    expect(record.resourceId !== '' || record.resourceType === 'cache').toBe(true)
    expect([record.occurredAt, record.recordedAt].every((time) => time.endsWith('Z'))).toBe(true)
    harness.clock.advance(10)
  }
})
