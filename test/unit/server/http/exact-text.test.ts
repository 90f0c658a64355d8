import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

beforeEach(async () => {
  harness = await HttpHarness.start()
})

afterEach(() => harness.close())

function lookup(body: Buffer, headers: Record<string, string> = {}) {
  const type = { 'content-type': 'application/json', ...headers }
  return harness.service.api.inject({ method: 'POST', url: '/v1/lookup', headers: type, payload: body })
}

/** The answer to what goes over a socket as it is. */
async function sent(text: Buffer): Promise<string> {
  const [host, port] = (await harness.service.listen()).split(':')
  const socket = connect(Number(port), host)
  socket.setEncoding('utf8')
  let answer = ''
  socket.on('data', (piece: string) => {
    answer += piece
  })
  socket.end(text)
  await once(socket, 'close')
  return answer
}

describe('a JSON body', () => {
  it.each([0xff, 0xfe, 0xc0])(
    'with byte %d, which is no UTF-8, is refused: two salts would become one',
    async (byte) => {
      const body = Buffer.concat([
        Buffer.from('{"model": "m", "tokens": [1], "cache_salt": "'),
        Buffer.of(byte),
        Buffer.from('"}'),
      ])
      const answer = await lookup(body)
      expect(answer.statusCode).toBe(400)
      expect(answer.json().error).toMatchObject({
        code: 'BAD_REQUEST',
        field: 'body',
        message: 'the body is not valid UTF-8',
      })
      expect(harness.engine.changes).toBe(0)
    },
  )

  it('is taken with any letters, and with the mark that some editors put before them', async () => {
    const body = Buffer.from('\ufeff{"model": "m", "tokens": [1], "cache_salt": "é😀"}')
    expect((await lookup(body)).statusCode).toBe(200)
  })

  it('that is compressed is refused, whatever it holds', async () => {
    const body = Buffer.from('{"model": "m", "tokens": [1]}')
    const answer = await lookup(body, { 'content-encoding': 'gzip' })
    expect(answer.statusCode).toBe(415)
    expect(answer.json().error).toMatchObject({ code: 'UNSUPPORTED_MEDIA_TYPE' })
    expect((await lookup(body, { 'content-encoding': 'identity' })).statusCode).toBe(200)
  })
})

it('passes over an encoding where no body is looked at', async () => {
  const headers = { 'content-encoding': 'gzip' }
  expect((await harness.service.api.inject({ method: 'GET', url: '/healthz', headers })).statusCode).toBe(200)
})

describe('a query string', () => {
  const chunk = `/v1/chunks/${'ab'.repeat(32)}?model=m`

  it.each(['%ff', '%C0%80', '%zz', '%', 'a%2'])('with %s, which encodes nothing, is refused', async (salt) => {
    const answer = await harness.service.api.inject({ method: 'GET', url: `${chunk}&cache_salt=${salt}` })
    expect(answer.statusCode).toBe(400)
    expect(answer.json().error).toMatchObject({ code: 'BAD_REQUEST', message: 'the URL is not valid' })
  })

  it('with letters that are not encoded is refused: they would be read as others', async () => {
    const answer = await sent(
      Buffer.from(`GET ${chunk}&cache_salt=é HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`),
    )
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  })

  it('with encoded letters is taken', async () => {
    const answer = await harness.service.api.inject({ method: 'GET', url: `${chunk}&cache_salt=%C3%A9+%2B%25` })
    expect(answer.json().error.message).not.toContain('URL')
  })
})

it('answers an expectation that it does not know as if there were none', async () => {
  const answer = await sent(
    Buffer.from('GET /healthz HTTP/1.1\r\nhost: localhost\r\nexpect: more\r\nconnection: close\r\n\r\n'),
  )
  expect(answer).toMatch(/^HTTP\/1\.1 200 /)
  expect(answer).toContain('"ok"')
})
