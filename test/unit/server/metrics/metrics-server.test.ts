import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { afterEach, expect, it } from 'vitest'
import { SystemClock } from '../../../../src/core/clock.ts'
import { CacheError } from '../../../../src/core/errors.ts'
import { Exposition, Rendering } from '../../../../src/metrics/exposition.ts'
import { ProcessMetrics } from '../../../../src/metrics/process-metrics.ts'
import { MetricsServer, type MetricsServerOptions } from '../../../../src/server/metrics/metrics-server.ts'
import { parseExposition } from '../../../support/exposition-parser.ts'
import { recordEverything } from '../../../support/full-cells.ts'

const open: MetricsServer[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const exposition = new Exposition(recordEverything().reader, new ProcessMetrics())

async function serve(options: Partial<MetricsServerOptions> = {}): Promise<{ port: number; server: MetricsServer }> {
  const server = new MetricsServer({
    clock: new SystemClock(),
    host: '127.0.0.1',
    port: 0,
    render: (format) => exposition.render(format),
    onError: (error) => {
      throw error
    },
    ...options,
  })
  open.push(server)
  return { port: (await server.listen()).port, server }
}

interface Answer {
  status: number
  headers: Record<string, unknown>
  body: Buffer
}

function ask(port: number, path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: '127.0.0.1', path, headers, method }, async (response) => {
      const pieces: Buffer[] = []
      for await (const piece of response) pieces.push(piece as Buffer)
      resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(pieces) })
    })
    outgoing.once('error', reject)
    outgoing.end()
  })
}

it('serves plain text by default, process metrics included', async () => {
  const { port } = await serve()
  const { status, headers, body } = await ask(port, '/metrics?x=1')
  expect(status).toBe(200)
  expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(headers['content-length']).toBe(`${body.length}`)
  const parsed = parseExposition(body.toString())
  expect(parsed.types.get('cache_mp_lookups_total')).toBe('counter')
  expect(parsed.types.get('process_resident_memory_bytes')).toBe('gauge')
  expect(parsed.hasEof).toBe(false)
})

it('serves OpenMetrics when asked: family names without _total, one closing EOF', async () => {
  const { port } = await serve()
  const { headers, body } = await ask(port, '/metrics', { accept: 'application/openmetrics-text; version=1.0.0' })
  expect(headers['content-type']).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
  const parsed = parseExposition(body.toString())
  expect(parsed.types.get('cache_mp_lookups')).toBe('counter')
  expect(parsed.types.has('cache_mp_lookups_total')).toBe(false)
  expect(parsed.samples.some(({ name }) => name === 'cache_mp_lookups_total')).toBe(true)
  expect(parsed.hasEof).toBe(true)
  expect(body.toString().match(/# EOF/g)).toHaveLength(1)
})

it('compresses when the client takes it', async () => {
  const { port } = await serve()
  const { headers, body } = await ask(port, '/metrics', { 'accept-encoding': 'gzip' })
  expect(headers['content-encoding']).toBe('gzip')
  expect(parseExposition(gunzipSync(body).toString()).types.size).toBeGreaterThan(46)
})

it('answers HEAD with the same headers and no body', async () => {
  const { port } = await serve()
  const { status, headers, body } = await ask(port, '/metrics', {}, 'HEAD')
  expect([status, body.length]).toEqual([200, 0])
  expect(Number(headers['content-length'])).toBeGreaterThan(1_000)
})

it('refuses other paths and methods', async () => {
  const { port } = await serve()
  expect((await ask(port, '/')).status).toBe(404)
  expect((await ask(port, '/metrics/')).status).toBe(404)
  const posted = await ask(port, '/metrics', {}, 'POST')
  expect([posted.status, posted.headers.allow]).toEqual([405, 'GET, HEAD'])
})

it('refuses headers over its bound and bytes that are not HTTP, and goes on', async () => {
  const { port } = await serve()
  expect((await ask(port, '/metrics', { 'x-large': 'x'.repeat(20_000) })).status).toBe(431)
  const socket = connect(port, '127.0.0.1')
  socket.end('\x00\x01 nonsense\r\n\r\n')
  socket.resume()
  await once(socket, 'close')
  expect((await ask(port, '/metrics')).status).toBe(200)
})

it('answers 500 and tells why when the rendering fails', async () => {
  const errors: unknown[] = []
  const { port } = await serve({
    render: () => Promise.reject(new Error('broken')),
    onError: (error) => errors.push(error),
  })
  const { status, body } = await ask(port, '/metrics')
  expect(status).toBe(500)
  expect(body.toString()).not.toContain('broken')
  expect(errors).toHaveLength(1)
})

it('says in one line that its port is taken', async () => {
  const { port } = await serve()
  const error = await serve({ port }).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(CacheError)
  expect((error as CacheError).code).toBe('PORT_TAKEN')
  expect((error as CacheError).message).toContain('--prometheus-port')
  expect((error as CacheError).message).not.toContain('\n')
})

it('refuses a host that is not of this machine', async () => {
  await expect(serve({ host: '192.0.2.1' })).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
})

it('ends open connections when it closes, and may be closed twice', async () => {
  const { port, server } = await serve()
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.resume()
  socket.on('error', () => undefined)
  const ended = once(socket, 'close')
  await server.close()
  await ended
  await server.close()
})

/** More than the sockets between two ends hold, so that an answer waits for its reader. */
const LARGE_BYTES = 16 * 2 ** 20
const large = () => Promise.resolve(new Rendering([Buffer.alloc(LARGE_BYTES, '#')]))

/** A client that asks and then reads nothing. */
async function askAndStall(port: number) {
  const socket = connect(port, '127.0.0.1').pause()
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write('GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n')
  return socket
}

it('answers scrapes while other clients read nothing of theirs', async () => {
  const { port } = await serve({ render: large })
  const stalled = await Promise.all([askAndStall(port), askAndStall(port)])
  expect((await ask(port, '/metrics')).body.length).toBe(LARGE_BYTES)
  for (const socket of stalled) socket.destroy()
})

it('keeps few renderings for clients that do not read: the oldest are cut off', async () => {
  const { port } = await serve({ render: large })
  const first = await askAndStall(port)
  // Reading begins once the others came: the answer ends before its end.
  const others = []
  for (let at = 0; at < 8; at += 1) others.push(await askAndStall(port))
  expect((await ask(port, '/metrics')).body.length).toBe(LARGE_BYTES)
  let bytes = 0
  first.on('data', (piece) => {
    bytes += piece.length
  })
  first.resume()
  await once(first, 'close')
  expect(bytes).toBeLessThan(LARGE_BYTES)
  for (const socket of others) socket.destroy()
})

it('cuts off a client that sips at its answer for too long', async () => {
  const { port } = await serve({ render: large, answerMs: 50 })
  const socket = await askAndStall(port)
  let bytes = 0
  socket.on('data', (piece) => {
    bytes += piece.length
    socket.pause()
    setTimeout(() => socket.resume(), 1) // 64 KiB a millisecond at most: a quarter of a second for all
  })
  await once(socket.resume(), 'close')
  expect(bytes).toBeLessThan(LARGE_BYTES)
})

it('takes 128 connections and no more, and answers the next client when one has left', async () => {
  const { port } = await serve()
  const sockets = Array.from({ length: 128 }, () => connect(port, '127.0.0.1'))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (const socket of sockets) socket.on('error', () => undefined)
  await expect(ask(port, '/metrics')).rejects.toThrow()
  sockets[0]!.write('GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  await once(sockets[0]!.resume(), 'close')
  expect((await ask(port, '/metrics')).status).toBe(200)
  for (const socket of sockets) socket.destroy()
})

it('refuses a request whose headers are too many, and a body is never read', async () => {
  const { port } = await serve()
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`x-${at}`, 'some value of a header']))
  expect((await ask(port, '/metrics', many)).status).toBe(431)
  expect((await ask(port, '/metrics', { 'content-length': '1000000' }, 'POST')).status).toBe(405)
})
