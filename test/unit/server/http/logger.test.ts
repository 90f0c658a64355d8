import { Writable } from 'node:stream'
import { afterEach, expect, it } from 'vitest'
import { createLogger } from '../../../../src/server/http/logger.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness | undefined
afterEach(() => harness?.close())

const SECRET = 'sesame-open-4711'

it.each([
  { authorization: `Bearer ${SECRET}` },
  { headers: { authorization: SECRET } },
  { err: new Error(`connect redis://user:${SECRET}@host:6379 failed`) },
  { err: new Error('outer', { cause: new Error(`password=${SECRET} was refused`) }) },
  { text: JSON.stringify({ password: SECRET, nested: { apiKey: SECRET } }) },
  { url: `/v1/x?token=${SECRET}&y=1` },
  { token: SECRET },
  { text: `Authorization: Basic ${SECRET}` },
])('a log line holds no secret, and stays JSON (%#)', (fields) => {
  const lines: string[] = []
  const sink = new Writable({
    write(line, _encoding, done) {
      lines.push(String(line))
      done()
    },
  })
  createLogger('info', sink).info(fields, `sent kvt_${SECRET}kvt with Bearer ${SECRET}`)
  expect(lines).toHaveLength(1)
  expect(lines[0]).not.toContain(SECRET)
  expect(() => JSON.parse(lines[0]!)).not.toThrow()
})

it('numbers beside words like token stay as they are', () => {
  const lines: string[] = []
  const sink = new Writable({
    write(line, _encoding, done) {
      lines.push(String(line))
      done()
    },
  })
  createLogger('info', sink).info({ tokens: 5, chunkToken: 7, url: 'http://host/path' }, 'lookup of 5 tokens')
  expect(JSON.parse(lines[0]!)).toMatchObject({
    tokens: 5,
    chunkToken: 7,
    url: 'http://host/path',
    msg: 'lookup of 5 tokens',
  })
})

it('no request writes a secret to the log, whatever its answer', async () => {
  harness = await HttpHarness.start({}, ['read', 'inference', 'admin'])
  const token = harness.token('admin')
  const { api } = harness.service
  harness.engine.failure = new Error(`boom with ${token}`)
  const headers = [{ authorization: `Bearer ${token}` }, { authorization: `Basic ${SECRET}` }, { cookie: SECRET }]
  for (const one of headers) {
    for (const url of [`/v1/models?token=${SECRET}`, '/v1/models', `/nowhere/${SECRET}`, '/v1/lookup', '/status']) {
      for (const method of ['GET', 'POST'] as const) {
        const payload = method === 'POST' ? { password: SECRET, tokens: [1], model: 'm' } : undefined
        await api.inject({ method, url, headers: { ...one, 'x-secret': SECRET }, ...(payload ? { payload } : {}) })
      }
    }
  }
  expect(harness.logLines.length).toBeGreaterThan(20)
  const log = harness.logLines.join('')
  expect(log).toContain('boom')
  expect(log).not.toContain(token)
  expect(log).not.toContain(SECRET)
})
