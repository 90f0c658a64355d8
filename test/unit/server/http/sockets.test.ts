import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hashOf } from '../../../support/engine-double.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

const SHARD_BYTES = 16 << 20
const URL_PATH = `/v1/chunks/${hashOf(Uint32Array.of(1, 2, 3, 4)).toString('hex')}`

let harness: HttpHarness
let port: number

beforeEach(async () => {
  harness = await HttpHarness.start({}, [], { arenaBytes: 2 * SHARD_BYTES })
  const address = await harness.service.listen()
  expect(address).toMatch(/^127\.0\.0\.1:\d+$/)
  port = Number(address.split(':')[1])
  await harness.engine.registerModel({ model: 'm', shardBytes: SHARD_BYTES, ranks: 1, layout: '' })
})

afterEach(() => harness.close())

async function raw(...pieces: string[]): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  for (const piece of pieces) socket.write(piece)
  return socket
}

async function answerOf(socket: Socket): Promise<string> {
  let text = ''
  socket.setEncoding('utf8')
  socket.on('data', (piece: string) => {
    text += piece
  })
  await once(socket, 'close')
  return text
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve))
}

async function store(): Promise<void> {
  const outgoing = httpRequest({
    port,
    path: `${URL_PATH}?model=m&parent=root`,
    method: 'PUT',
    headers: { 'content-type': 'application/octet-stream', 'content-length': SHARD_BYTES },
  })
  outgoing.end(Buffer.alloc(SHARD_BYTES, 5))
  const [answer] = await once(outgoing, 'response')
  expect(answer.statusCode).toBe(201)
  answer.resume()
}

describe('a client that hangs up', () => {
  it('while it stores leaves no lease and no chunk', async () => {
    const head = `PUT ${URL_PATH}?model=m&parent=root HTTP/1.1\r\nhost: localhost\r\n`
    const type = `content-type: application/octet-stream\r\ncontent-length: ${SHARD_BYTES}\r\n\r\n`
    const socket = await raw(head + type, 'x'.repeat(100_000))
    await until(() => harness.engine.leases.size === 1)
    socket.destroy()
    await until(() => harness.engine.leases.size === 0)
    expect(harness.engine.shards.size).toBe(0)
  })

  it('while it retrieves leaves no lease, and counts as not served', async () => {
    await store()
    const socket = await raw(`GET ${URL_PATH}?model=m HTTP/1.1\r\nhost: localhost\r\n\r\n`)
    await once(socket, 'data')
    socket.destroy()
    await until(() => harness.engine.leases.size === 0)
    expect([harness.engine.servedLeases, harness.engine.expiredReads]).toEqual([0, 0])
  })
})

describe('a slow transfer', () => {
  it('renews its lease', async () => {
    await store()
    const outgoing = httpRequest({ port, path: `${URL_PATH}?model=m` }).end()
    const [answer] = await once(outgoing, 'response')
    harness.clock.advance(harness.engine.ttlMs * 0.6)
    answer.resume()
    await once(answer, 'end')
    await until(() => harness.engine.leases.size === 0)
    expect([harness.engine.renewals, harness.engine.servedLeases]).toEqual([1, 1])
  })

  it('stops short when its lease is gone', async () => {
    await store()
    const { engine, clock } = harness
    const outgoing = httpRequest({ port, path: `${URL_PATH}?model=m` }).end()
    const [answer] = await once(outgoing, 'response')
    engine.areLeasesExpired = true
    clock.advance(engine.ttlMs)
    let receivedBytes = 0
    answer.on('data', (piece: Buffer) => {
      receivedBytes += piece.length
    })
    answer.on('error', () => {}) // cut short, as it should be
    await new Promise((resolve) => answer.on('close', resolve))
    expect(receivedBytes).toBeLessThan(SHARD_BYTES)
    expect(answer.complete).toBe(false)
    expect(engine.renewals).toBe(1)
    await until(() => engine.leases.size === 0)
    expect([engine.servedLeases, engine.expiredReads]).toEqual([0, 1])
  })

  it.each(['', '&checksum=true'])(
    'sends nothing when its lease was gone before its thread heard of it%s',
    async (more) => {
      await store()
      const { engine, clock } = harness
      engine.ttlMs = 1000
      const lease = engine.leaseShard.bind(engine)
      engine.leaseShard = async (shard) => {
        const answer = await lease(shard)
        engine.areLeasesExpired = true // the answer waits while the process stands still
        clock.advance(engine.ttlMs)
        return answer
      }
      const socket = await raw(
        `GET ${URL_PATH}?model=m${more} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
      )
      socket.on('error', () => {})
      expect((await answerOf(socket)).includes('\x05')).toBe(false)
      await until(() => engine.leases.size === 0)
      expect([engine.servedLeases, engine.renewals]).toEqual([0, 1])
    },
  )

  it('that stores stops when its lease is gone', async () => {
    const { engine, clock } = harness
    const outgoing = httpRequest({
      port,
      path: `${URL_PATH}?model=m&parent=root`,
      method: 'PUT',
      headers: { 'content-type': 'application/octet-stream', 'content-length': SHARD_BYTES },
    })
    outgoing.write(Buffer.alloc(1000))
    await until(() => engine.leases.size === 1)
    engine.areLeasesExpired = true
    clock.advance(engine.ttlMs)
    outgoing.on('error', () => {})
    outgoing.end(Buffer.alloc(SHARD_BYTES - 1000))
    const [answer] = await once(outgoing, 'response')
    expect(answer.statusCode).toBe(409)
    answer.resume()
    expect([engine.shards.size, engine.leases.size]).toEqual([0, 0])
  })
})

describe('what is no request', () => {
  it.each([
    ['noise', 'hello\r\n\r\n', 400],
    ['an unknown method', 'FETCH / HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
    ['no host', 'GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n', 403],
    ['endless headers', `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`, 431],
    [
      'two lengths',
      'POST /v1/lookup HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
      400,
    ],
    ['a bad URL', 'GET /%zz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n', 400],
    ['an old request without a host', 'GET /healthz HTTP/1.0\r\n\r\n', 403],
  ])('%s gets the one error shape', async (_name, text, status) => {
    const answer = await answerOf(await raw(text))
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4))
    expect(body.error).toMatchObject({
      code: expect.any(String),
      message: expect.any(String),
      requestId: expect.any(String),
    })
  })
})

describe('a request that does not arrive in time', () => {
  const type = 'content-type: application/json\r\ncontent-length: 100\r\n\r\n'

  it.each([
    ['stops in its headers', 'GET /healthz HTTP/1.1\r\nhost: localhost\r\n'],
    ['stops in its body', `POST /v1/lookup HTTP/1.1\r\nhost: localhost\r\n${type}{`],
    ['never begins', ''],
  ])('and %s is answered, and its connection closed', async (_name, text) => {
    const hurried = await HttpHarness.start({ requestTimeoutMs: 200 })
    port = Number((await hurried.service.listen()).split(':')[1])
    const answer = await answerOf(await raw(text))
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(JSON.parse(answer.split('\r\n\r\n')[1]!).error).toMatchObject({ code: 'REQUEST_TIMEOUT' })
    await hurried.close()
  })
})

describe('a body that is refused for its length', () => {
  const head = 'POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
  const next = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'

  it.each([
    ['with its length told', `content-length: ${SHARD_BYTES}\r\n\r\n`, 'x'.repeat(SHARD_BYTES)],
    ['in pieces', 'transfer-encoding: chunked\r\n\r\n', `1000000\r\n${'x'.repeat(SHARD_BYTES)}\r\n0\r\n\r\n`],
  ])('%s is taken to its end, so that the client sees why', async (_how, length, body) => {
    const early = 8 << 20
    const socket = await raw(head + length, body.slice(0, early))
    let text = ''
    socket.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    await until(() => text.includes('PAYLOAD_TOO_LARGE'))
    socket.write(body.slice(early) + next) // only now: who closes after the answer resets what still comes
    await once(socket, 'close')
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200'])
  })

  it('ends the connection where the rest would be without an end', async () => {
    const socket = await raw(`${head}content-length: ${2 ** 40}\r\n\r\n`)
    expect(await answerOf(socket)).toMatch(/^HTTP\/1\.1 413 /)
  })
})

describe('a stopping server', () => {
  it('finishes what is under way, and ends its connection', async () => {
    const head = `PUT ${URL_PATH}?model=m&parent=root HTTP/1.1\r\nhost: localhost\r\n`
    const type = `content-type: application/octet-stream\r\ncontent-length: ${SHARD_BYTES}\r\n\r\n`
    const socket = await raw(head + type, 'x'.repeat(1000))
    await until(() => harness.engine.leases.size === 1)
    const closed = harness.service.close()
    socket.write('x'.repeat(SHARD_BYTES - 1000))
    const answer = await answerOf(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 201 /)
    expect(answer).toMatch(/^connection: close$/im)
    await closed
  })

  it('refuses what comes late in the one error shape, and does not log it as a failure', async () => {
    const socket = await raw('GET /status HTTP/1.1\r\nhost: localhost\r\n')
    await until(() => socket.bytesWritten > 0)
    const other = await raw('GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
    await answerOf(other) // the first bytes have arrived too by now
    const closed = harness.service.close()
    socket.write('x-request-id: late\r\n\r\n')
    const [head, body] = (await answerOf(socket)).split('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1\.1 503 /)
    expect(head).toContain('retry-after: 1')
    expect(JSON.parse(body!).error).toEqual({
      code: 'SHUTTING_DOWN',
      message: 'the engine is stopping; try again later',
      requestId: 'late',
    })
    await closed
    expect(harness.logLines.filter((line) => JSON.parse(line).level >= 40)).toEqual([])
  })

  it('lets go of a client that has its answer and keeps its connection', async () => {
    await store()
    const socket = await raw(`GET ${URL_PATH}?model=m HTTP/1.1\r\nhost: localhost\r\n\r\n`)
    let receivedBytes = 0
    socket.on('data', (piece: Buffer) => {
      receivedBytes += piece.length
    })
    await until(() => receivedBytes > 0) // the head of the answer is out: it promises to keep the connection
    const closed = harness.service.close()
    await until(() => receivedBytes > SHARD_BYTES)
    let isOver = false
    void closed.then(() => {
      isOver = true
    })
    for (let waitedMs = 0; !isOver && waitedMs < 1000; waitedMs += 20) {
      harness.clock.advance(20)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(isOver).toBe(true)
  })
})

describe('binding', () => {
  it('says in one line that the port is taken', async () => {
    const other = await HttpHarness.start({ port })
    await expect(other.service.listen()).rejects.toMatchObject({
      code: 'PORT_TAKEN',
      message: `--http-port is ${port}, which is in use on 127.0.0.1: write another, or 0 for a free one`,
    })
    await other.close()
  })

  it('says in one line that the address is not ours', async () => {
    const other = await HttpHarness.start({ host: '203.0.113.1' }, ['admin'])
    await expect(other.service.listen()).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      detail: { field: '--http-host' },
    })
    await other.close()
  })

  it('frees the port when closed', async () => {
    await harness.service.close()
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    server.close()
  })
})
