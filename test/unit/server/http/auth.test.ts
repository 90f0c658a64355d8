import { afterEach, describe, expect, it } from 'vitest'
import { revokeToken, SCOPES, type Scope } from '../../../../src/server/http/token-file.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

afterEach(() => harness.close())

// One route a scope.
const ROUTES = {
  public: 'GET /healthz',
  read: 'GET /status',
  inference: 'POST /v1/lookup',
  admin: 'POST /v1/clear',
} as const

async function ask(scope: keyof typeof ROUTES, headers: Record<string, string> = {}) {
  const [method, url] = ROUTES[scope].split(' ') as ['GET' | 'POST', string]
  const payload = { inference: { model: 'm', tokens: [1] }, admin: {}, public: undefined, read: undefined }[scope]
  return harness.service.api.inject({ method, url, headers, ...(payload === undefined ? {} : { payload }) })
}

async function statuses(headers: Record<string, string> = {}): Promise<Record<string, number>> {
  const answers: Record<string, number> = {}
  for (const scope of Object.keys(ROUTES) as (keyof typeof ROUTES)[]) {
    answers[scope] = (await ask(scope, headers)).statusCode
  }
  return answers
}

describe('on loopback', () => {
  it('everything but admin is open while there is no token', async () => {
    harness = await HttpHarness.start()
    expect(await statuses()).toEqual({ public: 200, read: 200, inference: 200, admin: 403 })
  })

  it('admin says how to get a token', async () => {
    harness = await HttpHarness.start()
    const answer = await ask('admin')
    expect(answer.json().error).toMatchObject({ code: 'FORBIDDEN', field: 'authorization' })
    expect(answer.json().error.message).toContain('kvtier token create --scope admin')
  })

  it('an admin token closes nothing to others', async () => {
    harness = await HttpHarness.start({}, ['admin'])
    expect(await statuses()).toEqual({ public: 200, read: 200, inference: 200, admin: 401 })
  })

  it('a scope is closed once a token names it', async () => {
    harness = await HttpHarness.start({}, ['inference'])
    expect(await statuses()).toEqual({ public: 200, read: 200, inference: 401, admin: 403 })
  })

  it.each<[Scope, Record<string, number>]>([
    ['read', { public: 200, read: 200, inference: 403, admin: 403 }],
    ['inference', { public: 200, read: 403, inference: 200, admin: 403 }],
    ['admin', { public: 200, read: 200, inference: 200, admin: 200 }],
  ])('a token of scope %s reaches its routes and no other', async (scope, expected) => {
    harness = await HttpHarness.start()
    expect(await statuses(harness.bearer(scope))).toEqual(expected)
  })
})

describe('on a wider address', () => {
  it('nothing starts without a token', async () => {
    await expect(HttpHarness.start({ host: '0.0.0.0' })).rejects.toThrow(/^--http-host is "0.0.0.0".*token create/)
    harness = await HttpHarness.start()
  })

  it('nothing but the public routes is open', async () => {
    harness = await HttpHarness.start({ host: '0.0.0.0' }, ['read'])
    expect(await statuses()).toEqual({ public: 200, read: 401, inference: 401, admin: 401 })
  })
})

describe('a bad token', () => {
  it.each([
    ['unknown', 'Bearer kvt_unknown'],
    ['empty', 'Bearer '],
    ['of another scheme', 'Basic dXNlcjpwYXNz'],
    ['with rubbish', 'Bearer a b'],
    ['very long', `Bearer ${'x'.repeat(10_000)}`],
  ])('that is %s is refused, also where no token is needed', async (_name, authorization) => {
    harness = await HttpHarness.start()
    const answer = await ask('read', { authorization })
    expect(answer.statusCode).toBe(401)
    expect(answer.json().error.code).toBe('UNAUTHENTICATED')
    expect(answer.headers['www-authenticate']).toBe('Bearer realm="kvtier", error="invalid_token"')
  })

  it('of another scope is told which one it lacks', async () => {
    harness = await HttpHarness.start()
    const answer = await ask('admin', harness.bearer('read'))
    expect(answer.headers['www-authenticate']).toContain('error="insufficient_scope", scope="admin"')
  })

  it('changes nothing', async () => {
    harness = await HttpHarness.start()
    await ask('admin', harness.bearer('read'))
    await ask('admin', { authorization: 'Bearer kvt_unknown' })
    expect(harness.engine.changes).toBe(0)
    expect(harness.activities.read({}, 1n, 1).total).toBe(0)
  })

  it('that was revoked is refused within a second', async () => {
    harness = await HttpHarness.start()
    const headers = harness.bearer('admin')
    expect((await ask('admin', headers)).statusCode).toBe(200)
    const { listTokens } = await import('../../../../src/server/http/token-file.ts')
    revokeToken(harness.dataDir, listTokens(harness.dataDir)[0]!.id, harness.clock)
    harness.clock.advance(1000)
    expect((await ask('admin', headers)).statusCode).toBe(401)
  })
})

describe('foreign pages', () => {
  it.each([
    ['evil.example', undefined, 403],
    ['evil.example:8080', undefined, 403],
    ['127.0.0.1.evil.example', undefined, 403],
    ['localhost@evil.example', undefined, 403],
    ['localhost:8080', undefined, 200],
    ['LOCALHOST', undefined, 200],
    ['127.0.0.1:8080', undefined, 200],
    ['127.0.0.2', undefined, 200],
    ['[::1]:8080', undefined, 200],
    ['kv.internal:8080', undefined, 200],
    ['localhost:8080', 'http://localhost:8080', 200],
    ['localhost:8080', 'http://localhost:3000', 403],
    ['localhost:8080', 'http://evil.example', 403],
    ['localhost:8080', 'null', 403],
    ['localhost:8080', 'https://kv.internal', 200],
    ['localhost:8080', 'file://', 403],
  ])('with host %j and origin %j get %i', async (host, origin, status) => {
    harness = await HttpHarness.start({ allowedHosts: ['KV.internal'] })
    const headers = { host, ...(origin === undefined ? {} : { origin }) }
    const answer = await ask('public', headers)
    expect(answer.statusCode).toBe(status)
  })

  it('reach no route by a name that was rebound, not even a missing one', async () => {
    harness = await HttpHarness.start()
    const answer = await harness.service.api.inject({ method: 'GET', url: '/none', headers: { host: 'evil.example' } })
    expect(answer.json().error.code).toBe('FORBIDDEN')
  })
})

it('every route declares a scope, and the scopes are known', async () => {
  harness = await HttpHarness.start()
  expect(harness.service.routes.length).toBeGreaterThan(15)
  for (const { method, url, scope } of harness.service.routes) {
    expect(['public', ...SCOPES], `${method} ${url}`).toContain(scope)
  }
})

// A token for each scope against each route: refused exactly where its scope does not reach.
it('no route is reached without its scope', async () => {
  harness = await HttpHarness.start({}, ['read', 'inference', 'admin'])
  const callers: [name: string, scopes: Scope[]][] = [
    ['nobody', []],
    ...SCOPES.map((one): [string, Scope[]] => [one, [one]]),
  ]
  for (const [name, scopes] of callers) {
    const headers = scopes.length === 0 ? {} : harness.bearer(...scopes)
    for (const { method, url, scope } of harness.service.routes) {
      const path = url.replace(':hash', 'ab'.repeat(32)).replace(':id', 'x')
      const answer = await harness.service.api.inject({ method: method as 'GET', url: path, headers })
      const isAllowed = scope === 'public' || scopes.includes('admin') || scopes.includes(scope)
      const isRefused = answer.statusCode === 401 || answer.statusCode === 403
      expect(isRefused, `${name}: ${method} ${url} gave ${answer.statusCode}`).toBe(!isAllowed)
    }
  }
})
