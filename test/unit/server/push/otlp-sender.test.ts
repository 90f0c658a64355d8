import { afterEach, beforeEach, expect, it } from 'vitest'
import { OtlpSender, retryAfterMs, type SenderOptions } from '../../../../src/server/push/otlp-sender.ts'
import { OtlpReceiver } from '../../../support/otlp-receiver.ts'

const NOW = Date.parse('2026-01-01T00:00:00Z')
const BODY = Buffer.from('{"resourceMetrics":[]}')

let receiver: OtlpReceiver
const senders: OtlpSender[] = []
beforeEach(async () => {
  receiver = await OtlpReceiver.start()
})
afterEach(async () => {
  for (const sender of senders.splice(0)) await sender.close()
  await receiver.stop()
})

function send(options: Partial<SenderOptions> = {}) {
  const sender = new OtlpSender({
    endpoint: receiver.endpoint,
    headers: {},
    compression: 'gzip',
    timeoutMs: 5_000,
    tls: {},
    ...options,
  })
  senders.push(sender)
  return sender.send('/v1/metrics', 'application/json', BODY, NOW)
}

it.each(['gzip', 'none'] as const)('sends the body with its headers, compression %s', async (compression) => {
  expect(await send({ compression, headers: { 'x-scope': 'a' } })).toMatchObject({ outcome: 'taken' })
  const [request] = receiver.requests
  expect(request).toMatchObject({
    path: '/v1/metrics',
    headers: { 'content-type': 'application/json', 'x-scope': 'a' },
  })
  expect(request!.headers['content-encoding']).toBe(compression === 'gzip' ? 'gzip' : undefined)
  expect(request!.body).toEqual(BODY)
})

it.each([
  [429, '7', { outcome: 'later', afterMs: 7_000, reason: 'status 429' }],
  [503, 'Thu, 01 Jan 2026 00:01:00 GMT', { outcome: 'later', afterMs: 60_000, reason: 'status 503' }],
  [502, undefined, { outcome: 'later', afterMs: 0, reason: 'status 502' }],
  [400, undefined, { outcome: 'refused', reason: expect.stringContaining('--otlp-protocol') }],
  [401, undefined, { outcome: 'refused', reason: expect.stringContaining('--otlp-headers') }],
  [404, undefined, { outcome: 'refused', reason: expect.stringContaining('without /v1/metrics') }],
  [500, undefined, { outcome: 'refused', reason: 'status 500' }],
])('reads status %s with Retry-After %s', async (status, retryAfter, expected) => {
  receiver.answer = (response) => {
    response.writeHead(status, retryAfter === undefined ? {} : { 'retry-after': retryAfter }).end()
  }
  expect(await send()).toEqual(expected.outcome === 'refused' ? { ...expected, status } : expected)
})

it('does not follow a redirect, and says where it leads', async () => {
  receiver.answer = (response) => response.writeHead(307, { location: 'http://elsewhere:1/' }).end()
  expect(await send()).toMatchObject({ outcome: 'refused', reason: expect.stringContaining('http://elsewhere:1/') })
})

it('tells a refused connection, a silent receiver and a cut connection from each other', async () => {
  expect(await send({ endpoint: 'http://127.0.0.1:1' })).toMatchObject({
    outcome: 'later',
    reason: 'connection refused: nothing listens there',
  })
  receiver.answer = () => {}
  expect(await send({ timeoutMs: 50 })).toMatchObject({ outcome: 'later' })
  receiver.answer = (response) => void response.destroy()
  expect(await send()).toMatchObject({ outcome: 'later', reason: expect.stringMatching(/other side closed|SOCKET/i) })
})

it('reads only the beginning of an answer that never ends', async () => {
  receiver.answer = (response) => {
    response.writeHead(200)
    const more = () => {
      while (response.writable && response.write(Buffer.alloc(65_536)));
    }
    response.on('drain', more)
    more()
  }
  const result = await send()
  expect(result).toMatchObject({ outcome: 'taken' })
  expect(result.outcome === 'taken' && result.answer.length).toBeLessThanOrEqual(2 * 65_536)
})

it('reads Retry-After in seconds, as a date, and as nothing', () => {
  expect(retryAfterMs('120', NOW)).toBe(120_000)
  expect(retryAfterMs('Thu, 01 Jan 2026 00:00:10 GMT', NOW)).toBe(10_000)
  expect(retryAfterMs('Wed, 31 Dec 2025 00:00:00 GMT', NOW)).toBe(0)
  expect(retryAfterMs('soon', NOW)).toBe(0)
  expect(retryAfterMs(undefined, NOW)).toBe(0)
})
