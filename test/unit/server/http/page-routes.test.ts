import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PageFiles } from '../../../../src/web/page-files.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

beforeAll(async () => {
  harness = await HttpHarness.start()
})
afterAll(() => harness.close())

function get(url: string, headers: Record<string, string> = {}, from = harness) {
  return from.service.api.inject({ method: 'GET', url, headers: { host: '127.0.0.1', ...headers } })
}

describe('the dashboard page', () => {
  it('is served at / under a policy that allows its own files and its own engine only', async () => {
    const answer = await get('/')
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    const policy = String(answer.headers['content-security-policy']).split('; ')
    expect(policy).toEqual(
      expect.arrayContaining([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
      ]),
    )
    expect(policy.join()).not.toMatch(/unsafe|\*|https?:|data:/)
    expect(answer.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-cache',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
    })
  })

  it('has its files beside it, byte for byte, under the same headers', async () => {
    const files = PageFiles.load()
    for (const name of files.names) {
      const answer = await get(`/dashboard/${name}`)
      expect([name, answer.statusCode]).toEqual([name, 200])
      expect(answer.headers).toMatchObject({
        'content-type': files.get(name)!.contentType,
        'x-content-type-options': 'nosniff',
        etag: files.get(name)!.etag,
      })
      expect(answer.headers).toHaveProperty('content-security-policy')
      expect(answer.rawPayload.equals(files.get(name)!.body), name).toBe(true)
    }
  })

  it('is not sent again to a browser that has it', async () => {
    const { headers } = await get('/dashboard/main.js')
    const etag = String(headers.etag)
    for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await get('/dashboard/main.js', { 'if-none-match': tag })
      expect([tag, again.statusCode, again.body]).toEqual([tag, 304, ''])
      expect(again.headers.etag).toBe(etag)
    }
    expect((await get('/dashboard/main.js', { 'if-none-match': '"other"' })).statusCode).toBe(200)
  })

  it('has no other files', async () => {
    for (const name of ['nothing.js', '..%2Foverview.ts', '%2e%2e%2fpage-files.ts', 'page.css%00', '__proto__']) {
      const answer = await get(`/dashboard/${name}`)
      expect([name, answer.statusCode]).toEqual([name, 404])
      expect(answer.json().error.code).toBe('NOT_FOUND')
    }
  })

  it('is refused to a foreign Host, as everything is', async () => {
    for (const url of ['/', '/dashboard/main.js', '/v1/overview']) {
      expect([url, (await get(url, { host: 'evil.example' })).statusCode]).toEqual([url, 403])
    }
  })
})

describe('GET /v1/overview', () => {
  it('tells what the cells hold, without asking the engine', async () => {
    const row = harness.cells.tenants.tenantOf('<b>model</b>', 'salt')
    harness.cells.engineTenants.add(row, 'requestedTokens', 10)
    harness.cells.engineTenants.add(row, 'hitTokens', 4)
    harness.engine.isSilent = true
    const answer = await get('/v1/overview')
    harness.engine.isSilent = false
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toMatchObject({
      version: '0.0.0-test',
      tokens: { requested: 10, hit: 4 },
      tenants: [{ model: '<b>model</b>', cache_salt: 'salt', requested_tokens: 10, hit_tokens: 4 }],
    })
  })

  it('needs a token of scope read where there is one; the page itself does not', async () => {
    const guarded = await HttpHarness.start({}, ['read'])
    try {
      expect((await get('/', {}, guarded)).statusCode).toBe(200)
      expect((await get('/dashboard/main.js', {}, guarded)).statusCode).toBe(200)
      expect((await get('/v1/overview', {}, guarded)).statusCode).toBe(401)
      expect((await get('/v1/overview', guarded.bearer('read'), guarded)).statusCode).toBe(200)
      expect((await get('/v1/overview', guarded.bearer('inference'), guarded)).statusCode).toBe(403)
    } finally {
      await guarded.close()
    }
  })
})
