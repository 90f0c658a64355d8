import { crc32 } from 'node:zlib'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

const MODEL = { model: 'm', chunk_bytes: 1000, ranks: 1, layout: 'l' }
const HASHES = ['a', 'b', 'c'].map((digit) => digit.repeat(64))
const ASKED = { model: 'm', ranks: 1, rank: 0, chunk_bytes: 1000, layout: 'l', hashes: HASHES }
const BYTES = Buffer.alloc(1000, 7)

let harness: HttpHarness

beforeEach(async () => {
  harness = await HttpHarness.start({}, ['inference', 'admin'])
  const headers = { ...harness.bearer('admin'), host: '127.0.0.1' }
  const registered = await harness.service.api.inject({ method: 'POST', url: '/v1/models', headers, payload: MODEL })
  expect(registered.statusCode).toBeLessThan(300)
  for (const [at, hash] of HASHES.slice(0, 2).entries()) {
    const parent = at === 0 ? 'root' : HASHES[at - 1]!
    const url = `/v1/chunks/${hash}?model=m&parent=${parent}`
    const put = await harness.service.api.inject({
      method: 'PUT',
      url,
      headers: { ...harness.bearer('inference'), host: '127.0.0.1', 'content-type': 'application/octet-stream' },
      payload: BYTES,
    })
    expect(put.statusCode).toBe(201)
  }
})

afterEach(() => harness.close())

async function ask(payload: object, headers = harness.bearer('inference')) {
  const answer = await harness.service.api.inject({
    method: 'POST',
    url: '/v1/chunks/lookup',
    headers: { ...headers, host: '127.0.0.1' },
    payload,
  })
  return { status: answer.statusCode, body: answer.json<{ found?: boolean[]; error?: { code: string } }>() }
}

function retrieve(query: string) {
  const headers = { ...harness.bearer('inference'), host: '127.0.0.1' }
  return harness.service.api.inject({ method: 'GET', url: `/v1/chunks/${HASHES[0]}?${query}`, headers })
}

it('says of each shard whether it can be read, and changes nothing', async () => {
  const { changes } = harness.engine
  expect(await ask(ASKED)).toMatchObject({ status: 200, body: { found: [true, true, false] } })
  expect(await ask({ ...ASKED, cache_salt: 'other' })).toMatchObject({ body: { found: [false, false, false] } })
  expect(harness.engine.changes).toBe(changes)
  expect(harness.engine.leases.size).toBe(0)
})

it('holds nothing of a model that is not registered', async () => {
  expect(await ask({ ...ASKED, model: 'n' })).toMatchObject({ status: 200, body: { found: [false, false, false] } })
})

it.each([{ layout: 'other' }, { chunk_bytes: 2000 }])('refuses a question about another layout (%o)', async (other) => {
  expect(await ask({ ...ASKED, ...other })).toMatchObject({ status: 409, body: { error: { code: 'LAYOUT_MISMATCH' } } })
})

it.each([
  ['too many hashes', { hashes: Array(4097).fill(HASHES[0]) }],
  ['a hash of another length', { hashes: ['ab'] }],
  ['a rank past the world size', { rank: 1 }],
])('refuses %s', async (_what, other) => {
  expect(await ask({ ...ASKED, ...other })).toMatchObject({ status: 400, body: { error: { code: 'BAD_REQUEST' } } })
})

it('needs a token of scope inference', async () => {
  expect(await ask(ASKED, harness.bearer('read'))).toMatchObject({ status: 403 })
})

it('sums the bytes of a shard for who asks, and gives the lease back', async () => {
  const answer = await retrieve('model=m&layout=l&checksum=true')
  expect(answer.statusCode).toBe(200)
  expect(Number.parseInt(String(answer.headers['x-kvtier-crc32']), 16)).toBe(crc32(BYTES))
  expect(answer.rawPayload).toEqual(BYTES)
  expect(harness.engine.leases.size).toBe(0)
  expect((await retrieve('model=m')).headers).not.toHaveProperty('x-kvtier-crc32')
})

it('serves no bytes of another layout than was asked for', async () => {
  expect((await retrieve('model=m&layout=other')).statusCode).toBe(409)
})
