import { request as httpRequest } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness
let admin: Record<string, string>

beforeEach(async () => {
  harness = await HttpHarness.start()
  admin = harness.bearer('admin')
})

afterEach(() => harness.close())

async function ask(method: 'GET' | 'PUT' | 'DELETE', url: string, payload?: object, headers = admin) {
  const given = payload === undefined ? {} : { payload }
  const answer = await harness.service.api.inject({ method, url, headers, ...given })
  return { status: answer.statusCode, body: answer.body === '' ? null : answer.json() }
}

const acts = () => harness.activities.read({}, 1n, 100).activities

describe('quotas of cache salts', () => {
  it('are set, read, listed and removed, each change on record', async () => {
    const set = await ask('PUT', '/v1/quotas/team-a', { l1_bytes: 1000, l2_bytes: 0 })
    expect(set).toMatchObject({ status: 200, body: { cache_salt: 'team-a', source: 'own', l1_bytes: 1000 } })
    expect(harness.engine.ownQuotas.get('team-a')).toEqual({ l1Bytes: 1000, l2Bytes: 0 })
    expect((await ask('GET', '/v1/quotas/team-a')).body).toEqual(set.body)
    expect((await ask('GET', '/v1/quotas')).body).toEqual({
      defaults: { l1_bytes: 0, l2_bytes: 0 },
      quotas: [set.body],
      left_out: 0,
    })
    expect(await ask('DELETE', '/v1/quotas/team-a')).toEqual({ status: 204, body: null })
    expect((await ask('GET', '/v1/quotas/team-a')).body.source).toBe('default')
    expect(await ask('DELETE', '/v1/quotas/team-a')).toMatchObject({
      status: 404,
      body: { error: { code: 'NOT_FOUND' } },
    })
    expect(acts().map(({ action, resourceType, resourceId }) => [action, resourceType, resourceId])).toEqual([
      ['ACTIVITY_ACTION_QUOTA_DELETE', 'tenant', 'team-a'],
      ['ACTIVITY_ACTION_QUOTA_SET', 'tenant', 'team-a'],
    ])
  })

  it.each(['', 'ü/'.slice(0, 1), 'a b', 'a%2e', '%00'.slice(1), "';--", '{"x":1}', 'x'.repeat(128), '😀', '...'])(
    'take the salt %j',
    async (salt) => {
      const { status, body } = await ask('PUT', `/v1/quotas/${encodeURIComponent(salt)}`, { l1_bytes: 5 })
      expect([status, body.cache_salt]).toEqual([200, salt])
      expect([...harness.engine.ownQuotas.keys()]).toEqual([salt])
    },
  )

  it.each(['x'.repeat(129), 'a@b', 'a/b', 'a\\b', 'a\nb', '\u0000', '\ud800x'])('refuse the salt %j', async (salt) => {
    const encoded = salt.isWellFormed() ? encodeURIComponent(salt) : '%ED%A0%80x'
    const { status, body } = await ask('PUT', `/v1/quotas/${encoded}`, { l1_bytes: 5 })
    expect([status, body.error.code]).toEqual([400, 'BAD_REQUEST'])
    expect([harness.engine.changes, acts().length]).toEqual([0, 0])
  })

  it.each([
    [{}, 'body'],
    [{ l1_bytes: -1 }, 'l1_bytes'],
    [{ l1_bytes: 1.5 }, 'l1_bytes'],
    [{ l1_bytes: 2 ** 53 }, 'l1_bytes'],
    [{ l1_bytes: 1e300 }, 'l1_bytes'],
    [{ l1_bytes: '10GiB' }, 'l1_bytes'],
    [{ l1_bytes: null }, 'l1_bytes'],
    [{ l2_bytes: [1] }, 'l2_bytes'],
    [{ l1_bytes: 1, l3_bytes: 1 }, 'l3_bytes'],
    [[], 'body'],
  ])('refuse %j and name the field', async (given, field) => {
    const { status, body } = await ask('PUT', '/v1/quotas/team-a', given)
    expect([status, body.error.code, body.error.field]).toEqual([400, 'BAD_REQUEST', field])
    expect([harness.engine.changes, acts().length]).toEqual([0, 0])
  })

  it('are for administrators', async () => {
    for (const headers of [harness.bearer('read'), harness.bearer('inference')]) {
      expect((await ask('GET', '/v1/quotas', undefined, headers)).status).toBe(403)
      expect((await ask('GET', '/v1/quotas/x', undefined, headers)).status).toBe(403)
      expect((await ask('PUT', '/v1/quotas/x', { l1_bytes: 1 }, headers)).status).toBe(403)
      expect((await ask('DELETE', '/v1/quotas/x', undefined, headers)).status).toBe(403)
    }
    expect(harness.engine.changes).toBe(0)
  })

  it('reach a salt of dots that a client sends as it is', async () => {
    const address = new URL(`http://${await harness.service.listen()}`)
    const sent = await new Promise<number>((resolve, reject) => {
      const options = { host: address.hostname, port: address.port, path: '/v1/quotas/..', method: 'PUT' }
      const headers = { ...admin, 'content-type': 'application/json' }
      httpRequest({ ...options, headers }, (answer) => resolve(answer.statusCode!))
        .on('error', reject)
        .end('{"l1_bytes":1}')
    })
    expect([sent, ...harness.engine.ownQuotas.keys()]).toEqual([200, '..'])
  })
})
