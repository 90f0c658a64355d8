import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { listTokens, revokeToken } from '../../../../src/server/http/token-file.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

/** What each operation of the OpenAPI document needs. A new route needs a row here; nothing else knows of this table. */
const NEEDED: Readonly<Record<string, 'public' | 'read' | 'inference' | 'admin'>> = {
  'POST /tokenize': 'inference',
  'POST /detokenize': 'inference',
  'DELETE /v1/leases/{id}': 'inference',
  'POST /v1/leases/{id}/renew': 'inference',
  'POST /v1/models': 'inference',
  'GET /v1/models': 'read',
  'POST /v1/chunks/lookup': 'inference',
  'POST /v1/clear': 'admin',
  'POST /v1/pins': 'admin',
  'GET /v1/pins': 'read',
  'DELETE /v1/pins/{id}': 'admin',
  'GET /v1/quotas': 'admin',
  'GET /v1/quotas/{cache_salt}': 'admin',
  'PUT /v1/quotas/{cache_salt}': 'admin',
  'DELETE /v1/quotas/{cache_salt}': 'admin',
  'GET /v1/quarantine': 'read',
  'POST /v1/quarantine/release': 'admin',
  'GET /v1/l2/adapters': 'read',
  'POST /v1/l2/adapters': 'admin',
  'GET /v1/l2/adapters/{name}': 'read',
  'DELETE /v1/l2/adapters/{name}': 'admin',
  'GET /v1/l2/adapters/{name}/objects': 'admin',
  'POST /v1/l2/adapters/{name}/drain': 'admin',
  'POST /v1/l2/adapters/{name}/undrain': 'admin',
  'GET /v1/l2/jobs': 'admin',
  'POST /v1/l2/jobs': 'admin',
  'GET /v1/l2/jobs/{id}': 'admin',
  'DELETE /v1/l2/jobs/{id}': 'admin',
  'GET /v1/activities': 'read',
  'GET /healthz': 'public',
  'GET /readyz': 'public',
  'GET /status': 'read',
  'GET /v1/overview': 'read',
  'GET /': 'public',
  'GET /dashboard/{name}': 'public',
  'GET /openapi.json': 'public',
  'POST /v1/lookup': 'inference',
  'POST /v1/prefetch': 'inference',
  'POST /v1/device/pools': 'inference',
  'POST /v1/device/pools/{id}/renew': 'inference',
  'DELETE /v1/device/pools/{id}': 'inference',
  'POST /v1/device/pools/{id}/store': 'inference',
  'POST /v1/device/pools/{id}/load': 'inference',
  'POST /v1/device/borrowers': 'admin',
  'POST /v1/device/borrowers/{id}/renew': 'inference',
  'DELETE /v1/device/borrowers/{id}': 'inference',
  'POST /v1/device/borrowers/{id}/blocks': 'inference',
  'POST /v1/device/borrowers/{id}/blocks/{hold}/commit': 'inference',
  'DELETE /v1/device/borrowers/{id}/blocks/{hold}': 'inference',
  'HEAD /v1/chunks/{hash}': 'inference',
  'GET /v1/chunks/{hash}': 'inference',
  'PUT /v1/chunks/{hash}': 'inference',
}

const CALLERS = ['nobody', 'read', 'inference', 'admin', 'unknown', 'expired', 'revoked'] as const
type Caller = (typeof CALLERS)[number]

/** 401, 403, or neither: the route's own business. */
type Verdict = 401 | 403 | 'in'

function expectedVerdict(needed: string, caller: Caller, isOpen: boolean): Verdict {
  if (needed === 'public') return 'in'
  if (caller === 'unknown' || caller === 'expired' || caller === 'revoked') return 401
  if (caller === 'nobody') {
    if (isOpen) return needed === 'admin' ? 403 : 'in'
    return 401
  }
  return caller === 'admin' || caller === needed ? 'in' : 403
}

let harness: HttpHarness
let operations: { method: string; path: string }[]

async function readOperations(): Promise<void> {
  const { paths } = (await harness.service.api.inject({ method: 'GET', url: '/openapi.json' })).json()
  operations = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
  )
}

/** A header for each caller. */
function headersOfCallers(): Record<Caller, Record<string, string>> {
  const revoked = harness.bearer('admin')
  revokeToken(harness.dataDir, listTokens(harness.dataDir).at(-1)!.id, harness.clock)
  const callers = {
    nobody: {},
    read: harness.bearer('read'),
    inference: harness.bearer('inference'),
    admin: harness.bearer('admin'),
    unknown: { authorization: `Bearer kvt_${'x'.repeat(43)}` },
    expired: harness.expiredBearer('admin'),
    revoked,
  }
  harness.clock.advance(2000)
  return callers
}

async function verdictOf(method: string, path: string, headers: Record<string, string>): Promise<Verdict> {
  const url = path.replace('{hash}', 'ab'.repeat(32)).replace(/\{\w+\}/g, 'x')
  const { statusCode } = await harness.service.api.inject({ method: method as 'GET', url, headers })
  return statusCode === 401 || statusCode === 403 ? statusCode : 'in'
}

async function expectMatrix(isOpen: (caller: Caller) => boolean, callers: Record<Caller, Record<string, string>>) {
  const wrong: string[] = []
  for (const { method, path } of operations) {
    const needed = NEEDED[`${method} ${path}`] ?? 'no row'
    for (const caller of CALLERS) {
      const expected = expectedVerdict(needed, caller, isOpen(caller))
      const verdict = await verdictOf(method, path, callers[caller])
      if (verdict !== expected) wrong.push(`${caller}: ${method} ${path} is ${verdict}, not ${expected}`)
    }
  }
  expect(wrong).toEqual([])
}

describe('every route and every caller', () => {
  beforeAll(async () => {
    harness = await HttpHarness.start()
    await readOperations()
  })
  afterAll(() => harness.close())

  it('has a row for each operation of the document, and no other', () => {
    expect(operations.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual(Object.keys(NEEDED).toSorted())
  })

  it('on loopback without any token: nobody may do all but administer', async () => {
    const none = Object.fromEntries(CALLERS.map((caller) => [caller, {}])) as Record<Caller, object>
    for (const { method, path } of operations) {
      const expected = expectedVerdict(NEEDED[`${method} ${path}`]!, 'nobody', true)
      expect(await verdictOf(method, path, none.nobody as Record<string, string>), `${method} ${path}`).toBe(expected)
    }
  })

  it('with a token of each scope: a scope reaches its routes, and no other', async () => {
    await expectMatrix(() => false, headersOfCallers())
  })
})

describe('bound wider', () => {
  afterEach(() => harness.close())

  it('nobody without a token may do anything', async () => {
    harness = await HttpHarness.start({ host: '0.0.0.0' }, ['admin'])
    await readOperations()
    for (const { method, path } of operations) {
      const isPublic = NEEDED[`${method} ${path}`] === 'public'
      expect(await verdictOf(method, path, {}), `${method} ${path}`).toBe(isPublic ? 'in' : 401)
    }
  })

  it('without tokens, where that was said, nobody may administer', async () => {
    harness = await HttpHarness.start({ host: '0.0.0.0', withoutTokens: true })
    await readOperations()
    for (const { method, path } of operations) {
      const isAdmin = NEEDED[`${method} ${path}`] === 'admin'
      expect(await verdictOf(method, path, {}), `${method} ${path}`).toBe(isAdmin ? 403 : 'in')
    }
  })

  it('takes tokens of a file, and follows it', async () => {
    const key = 'a-secret-of-the-cluster-1'
    const next = 'a-secret-of-the-cluster-2'
    const reloads: object[] = []
    harness = await HttpHarness.start({ host: '0.0.0.0' }, [], {
      write: (path: string) => writeFileSync(path, `# rotated weekly\nread:${key} name=board\n`),
      onReload: (change) => void reloads.push(change),
    })
    const ask = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return (await harness.service.api.inject({ method: 'GET', url: '/status', headers })).statusCode
    }
    expect([await ask(key), await ask(next)]).toEqual([200, 401])
    writeFileSync(join(harness.dataDir, 'given-tokens'), `read:${next}\n`)
    harness.clock.advance(1000)
    expect([await ask(key), await ask(next)]).toEqual([401, 200])
    expect(reloads).toEqual([{ added: [expect.stringMatching(/^key_/)], removed: [expect.stringMatching(/^key_/)] }])
  })
})

describe('a rate', () => {
  afterEach(() => harness.close())
  const ask = (headers: Record<string, string> = {}) =>
    harness.service.api.inject({ method: 'GET', url: '/v1/models', headers })

  it('is of each token and of each address, and says when to come again', async () => {
    harness = await HttpHarness.start({ rateLimit: 2, rateBurst: 3 })
    const statuses = []
    for (let step = 0; step < 4; step += 1) statuses.push((await ask()).statusCode)
    expect(statuses).toEqual([200, 200, 200, 429])
    const refused = await ask()
    expect([refused.json().error.code, refused.headers['retry-after']]).toEqual(['RATE_LIMITED', '1'])
    expect((await ask(harness.bearer('admin'))).statusCode).toBe(200)
    expect((await harness.service.api.inject({ method: 'GET', url: '/healthz' })).statusCode).toBe(200)
    harness.clock.advance(500)
    expect([(await ask()).statusCode, (await ask()).statusCode]).toEqual([200, 429])
  })

  it('holds for tokens that are guessed', async () => {
    harness = await HttpHarness.start({ rateLimit: 1, rateBurst: 2 })
    const statuses = []
    for (let guess = 0; guess < 3; guess += 1) {
      statuses.push((await ask({ authorization: `Bearer kvt_guess${guess}` })).statusCode)
    }
    expect(statuses).toEqual([401, 401, 429])
  })
})
