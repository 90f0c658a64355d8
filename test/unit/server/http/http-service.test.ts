import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

beforeEach(async () => {
  harness = await HttpHarness.start()
})

afterEach(() => harness.close())

function get(url: string, headers: Record<string, string> = {}) {
  return harness.service.api.inject({ method: 'GET', url, headers })
}

describe('health', () => {
  it('lives', async () => {
    expect((await get('/healthz')).json()).toEqual({ status: 'ok' })
  })

  it('is ready without reasons, and not with one', async () => {
    expect((await get('/readyz')).json()).toEqual({ ready: true, reasons: [], l2: [] })
    harness.engine.reasons = ['loop eviction stalled for 12 s']
    const answer = await get('/readyz')
    expect([answer.statusCode, answer.json()]).toEqual([503, { ready: false, reasons: harness.engine.reasons, l2: [] }])
  })

  it('is not ready when the engine does not answer', async () => {
    harness.engine.isSilent = true
    const asked = get('/readyz')
    while (harness.clock.nextDueMs() === Number.POSITIVE_INFINITY) await new Promise((resolve) => setImmediate(resolve))
    harness.clock.advance(1000)
    expect((await asked).json()).toEqual({ ready: false, reasons: ['the engine does not answer'], l2: [] })
  })

  it('says what is simulated', async () => {
    expect((await get('/status')).json().simulated).toEqual(['everything: this is a test double'])
  })
})

describe('errors', () => {
  it('say that the engine does not answer', async () => {
    harness.engine.isSilent = true
    const asked = get('/status')
    while (harness.clock.nextDueMs() === Number.POSITIVE_INFINITY) await new Promise((resolve) => setImmediate(resolve))
    harness.clock.advance(4000)
    const answer = await asked
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'ENGINE_TIMEOUT'])
    expect(answer.headers['retry-after']).toBe('1')
  })

  it('leave no timer behind once the engine answered', async () => {
    await get('/status')
    expect(harness.clock.nextDueMs()).toBe(Number.POSITIVE_INFINITY)
  })

  it('name unknown routes', async () => {
    const answer = await get('/v2/nothing')
    expect([answer.statusCode, answer.json().error.code]).toEqual([404, 'NOT_FOUND'])
  })

  it('name the methods that a path takes', async () => {
    const answer = await harness.service.api.inject({ method: 'DELETE', url: '/v1/pins' })
    expect([answer.statusCode, answer.json().error.code]).toEqual([405, 'METHOD_NOT_ALLOWED'])
    expect(answer.headers.allow).toBe('POST, GET, HEAD')
  })

  it('hide what failed inside, and log it', async () => {
    harness.engine.failure = new TypeError('secret detail of the inside')
    const answer = await get('/status', { 'x-request-id': 'abc' })
    expect(answer.statusCode).toBe(500)
    expect(answer.body).not.toContain('secret')
    expect(answer.json().error).toMatchObject({ code: 'INTERNAL', requestId: 'abc' })
    expect(answer.headers['x-request-id']).toBe('abc')
    expect(harness.logLines.join('')).toContain('secret detail of the inside')
  })

  it('take no request id that could forge a log line', async () => {
    const answer = await get('/healthz', { 'x-request-id': 'a b"c' })
    expect(answer.headers['x-request-id']).toMatch(/^req-\d+$/)
  })

  it('never log a token', async () => {
    const token = harness.token('read')
    await get('/status', { authorization: `Bearer ${token}` })
    harness.engine.failure = new Error('broken')
    await get('/status', { authorization: `Bearer ${token}` })
    expect(harness.logLines.length).toBeGreaterThan(1)
    expect(harness.logLines.join('')).not.toContain(token)
  })
})
