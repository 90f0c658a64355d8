import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hashOf } from '../../../support/engine-double.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

beforeEach(async () => {
  harness = await HttpHarness.start()
})

afterEach(() => harness.close())

const MODEL = { model: 'm', chunk_bytes: 1024, ranks: 1, layout: 'bf16' }
const BINARY = { 'content-type': 'application/octet-stream' }

function post(url: string, payload: object, headers: Record<string, string> = {}) {
  return harness.service.api.inject({ method: 'POST', url, payload, headers })
}

function get(url: string, headers: Record<string, string> = {}) {
  return harness.service.api.inject({ method: 'GET', url, headers })
}

function put(hash: Buffer, payload: Buffer, query = 'model=m&parent=root') {
  const url = `/v1/chunks/${hash.toString('hex')}?${query}`
  return harness.service.api.inject({ method: 'PUT', url, payload, headers: BINARY })
}

async function register(): Promise<void> {
  expect((await post('/v1/models', MODEL)).statusCode).toBe(200)
}

describe('models', () => {
  it('are registered once and listed with the chunk size', async () => {
    await register()
    await register()
    const listed = await get('/v1/models')
    expect(listed.json()).toEqual({ models: [{ ...MODEL, chunk_tokens: 4 }] })
    expect(harness.activities.read({}, 1n, 10).total).toBe(1)
  })

  it('are refused with another layout', async () => {
    await register()
    const answer = await post('/v1/models', { ...MODEL, chunk_bytes: 2048 })
    expect(answer.statusCode).toBe(409)
    expect(answer.json().error.code).toBe('LAYOUT_MISMATCH')
  })
})

describe('chunks', () => {
  const hash = hashOf(Uint32Array.of(1, 2, 3, 4))
  const bytes = Buffer.alloc(1024, 7)

  it('come back as they were stored', async () => {
    await register()
    const stored = await put(hash, bytes)
    expect(stored.statusCode).toBe(201)
    expect(stored.json()).toEqual({ hash: hash.toString('hex'), status: 'stored', bytes: 1024 })
    const url = `/v1/chunks/${hash.toString('hex')}?model=m`
    const head = await harness.service.api.inject({ method: 'HEAD', url })
    expect([head.statusCode, head.headers['content-length'], head.body]).toEqual([200, '1024', ''])
    const found = await get(url)
    expect(found.statusCode).toBe(200)
    expect(found.headers['content-type']).toBe('application/octet-stream')
    expect(found.rawPayload.equals(bytes)).toBe(true)
    expect(harness.engine.leases.size).toBe(0)
    expect(harness.engine.servedLeases).toBe(1)
  })

  it('larger than one piece come back whole', async () => {
    await post('/v1/models', { ...MODEL, chunk_bytes: 700_000 })
    const large = Buffer.from(Uint8Array.from({ length: 700_000 }, (_, at) => at % 251))
    expect((await put(hash, large)).statusCode).toBe(201)
    const found = await get(`/v1/chunks/${hash.toString('hex')}?model=m`)
    expect(found.rawPayload.equals(large)).toBe(true)
  })

  it('are stored once', async () => {
    await register()
    await put(hash, bytes)
    const again = await put(hash, Buffer.alloc(1024, 8))
    expect([again.statusCode, again.json().status]).toEqual([200, 'present'])
    const found = await get(`/v1/chunks/${hash.toString('hex')}?model=m`)
    expect(found.rawPayload.equals(bytes)).toBe(true)
  })

  it('are kept apart by salt', async () => {
    await register()
    await put(hash, bytes, 'model=m&parent=root&cache_salt=a')
    expect((await get(`/v1/chunks/${hash.toString('hex')}?model=m&cache_salt=b`)).statusCode).toBe(404)
    expect((await get(`/v1/chunks/${hash.toString('hex')}?model=m&cache_salt=a`)).statusCode).toBe(200)
  })

  it('of an unregistered model are refused with the fix', async () => {
    const answer = await put(hash, bytes)
    expect(answer.statusCode).toBe(409)
    expect(answer.json().error).toMatchObject({ code: 'MODEL_UNKNOWN', field: 'model' })
    expect(answer.json().error.message).toContain('POST /v1/models')
    expect(harness.engine.changes).toBe(0)
  })

  it.each([
    [1023, 400, 'BAD_REQUEST'],
    [0, 400, 'BAD_REQUEST'],
    [1025, 413, 'PAYLOAD_TOO_LARGE'],
  ])('of %i bytes in place of 1024 are refused before anything is reserved', async (length, status, code) => {
    await register()
    const before = harness.engine.changes
    const answer = await put(hash, Buffer.alloc(length))
    expect([answer.statusCode, answer.json().error.code, answer.json().error.field]).toEqual([status, code, 'body'])
    expect(harness.engine.changes).toBe(before)
  })

  it('without a resident parent are refused and change nothing', async () => {
    await register()
    const before = harness.engine.changes
    const answer = await put(hash, bytes, `model=m&parent=${'ab'.repeat(32)}`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([409, 'PARENT_ABSENT'])
    expect(harness.engine.changes).toBe(before)
  })

  it('whose parent leaves while the body comes are refused at the commit', async () => {
    await register()
    const parent = hashOf(Uint32Array.of(9))
    await put(parent, bytes)
    const { engine } = harness
    const reserve = engine.reserveShard.bind(engine)
    engine.reserveShard = async (shard, above) => {
      const lease = await reserve(shard, above)
      engine.shards.clear()
      return lease
    }
    const answer = await put(hash, bytes, `model=m&parent=${parent.toString('hex')}`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([409, 'PARENT_ABSENT'])
    expect(engine.shards.size).toBe(0)
    expect(engine.leases.size).toBe(0)
  })

  it('find no room as a retryable 503', async () => {
    await post('/v1/models', { ...MODEL, chunk_bytes: 2_000_000 })
    const answer = await put(hash, Buffer.alloc(2_000_000))
    expect([answer.statusCode, answer.json().error.code, answer.headers['retry-after']]).toEqual([503, 'NO_ROOM', '1'])
  })

  it('whose lease ran out are refused and given back', async () => {
    await register()
    harness.engine.areLeasesExpired = true
    const answer = await put(hash, bytes)
    expect([answer.statusCode, answer.json().error.code]).toEqual([409, 'LEASE_EXPIRED'])
  })

  it('of a rank that does not exist are refused', async () => {
    await register()
    const answer = await put(hash, bytes, 'model=m&parent=root&rank=1')
    expect([answer.statusCode, answer.json().error.field]).toEqual([400, 'rank'])
  })

  it('need the number of ranks when the model has several', async () => {
    await register()
    await post('/v1/models', { ...MODEL, ranks: 2 })
    const answer = await put(hash, bytes)
    expect([answer.statusCode, answer.json().error.field]).toEqual([400, 'ranks'])
    expect((await put(hash, bytes, 'model=m&parent=root&ranks=2&rank=1')).statusCode).toBe(201)
  })

  it('take no other media type', async () => {
    await register()
    const url = `/v1/chunks/${hash.toString('hex')}?model=m&parent=root`
    const answer = await harness.service.api.inject({ method: 'PUT', url, payload: { a: 1 } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE'])
  })
})

describe('lookup', () => {
  const tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9]

  beforeEach(async () => {
    await register()
    await put(hashOf(Uint32Array.of(1, 2, 3, 4)), Buffer.alloc(1024))
  })

  it('says how much of the prompt is held, and leases it', async () => {
    const answer = await post('/v1/lookup', { model: 'm', tokens, request_id: 'r1' })
    expect(answer.json()).toEqual({
      request_id: 'r1',
      model: 'm',
      prompt_tokens: 9,
      requested_tokens: 9,
      hit_tokens: 4,
      chunk_tokens: 4,
      hit_chunks: 1,
      tiers: { l0: 0, l1: 4, l2: 0 },
      lease_id: answer.json().lease_id,
      lease_ttl_ms: 30_000,
      hashes: [hashOf(Uint32Array.from(tokens.slice(0, 4))), hashOf(Uint32Array.from(tokens.slice(0, 8)))].map((hash) =>
        hash.toString('hex'),
      ),
    })
    const url = `/v1/leases/${answer.json().lease_id}`
    const renewed = await harness.service.api.inject({ method: 'POST', url: `${url}/renew` })
    expect([renewed.statusCode, renewed.body]).toEqual([204, ''])
    const released = await harness.service.api.inject({ method: 'DELETE', url })
    expect([released.statusCode, released.body]).toEqual([204, ''])
    expect((await harness.service.api.inject({ method: 'DELETE', url })).statusCode).toBe(404)
  })

  it('reads binary token ids as well as JSON', async () => {
    const payload = Buffer.alloc(tokens.length * 4)
    tokens.forEach((token, at) => {
      payload.writeUInt32BE(token, at * 4)
    })
    const url = '/v1/lookup?model=m&dry_run=true'
    const answer = await harness.service.api.inject({ method: 'POST', url, payload, headers: BINARY })
    expect(answer.json()).toMatchObject({ requested_tokens: 9, hit_tokens: 4, lease_id: null })
  })

  it('leaves nothing behind as a dry run', async () => {
    const before = harness.engine.changes
    const answer = await post('/v1/lookup', { model: 'm', tokens, dry_run: true })
    expect(answer.json()).toMatchObject({ hit_tokens: 4, lease_id: null })
    expect([harness.engine.changes, harness.engine.leases.size]).toEqual([before, 0])
  })

  it.each([
    ['ragged bytes', '/v1/lookup?model=m', Buffer.alloc(7), BINARY, 400, 'body'],
    ['no model', '/v1/lookup', Buffer.alloc(8), BINARY, 400, 'model'],
    ['names in both places', '/v1/lookup?model=m', { model: 'm', tokens: [] }, {}, 400, 'model'],
    ['an unknown field', '/v1/lookup', { model: 'm', tokens: [], extra: 1 }, {}, 400, 'extra'],
    ['a missing field', '/v1/lookup', { model: 'm' }, {}, 400, 'tokens'],
    ['a text for a number', '/v1/lookup', { model: 'm', tokens: ['1'] }, {}, 400, 'tokens.0'],
    ['a token past 32 bits', '/v1/lookup', { model: 'm', tokens: [4_294_967_296] }, {}, 400, 'tokens.0'],
    ['a fraction', '/v1/lookup', { model: 'm', tokens: [1, 0.5] }, {}, 400, 'tokens.1'],
    ['a salt with a slash', '/v1/lookup', { model: 'm', tokens: [], cache_salt: 'a/b' }, {}, 400, 'cache_salt'],
    ['a lone surrogate', '/v1/lookup', { model: '\ud800', tokens: [] }, {}, 400, 'model'],
    ['a long model', '/v1/lookup', { model: 'x'.repeat(257), tokens: [] }, {}, 400, 'model'],
    [
      'an astral model of too many units',
      '/v1/lookup',
      { model: '\u{1f600}'.repeat(129), tokens: [] },
      {},
      400,
      'model',
    ],
    ['no JSON', '/v1/lookup', Buffer.from('{'), { 'content-type': 'application/json' }, 400, 'body'],
    ['an empty body', '/v1/lookup', Buffer.alloc(0), { 'content-type': 'application/json' }, 400, 'body'],
    ['poison', '/v1/lookup', Buffer.from('{"__proto__":{}}'), { 'content-type': 'application/json' }, 400, 'body'],
    ['text', '/v1/lookup', Buffer.from('hi'), { 'content-type': 'text/plain' }, 415, 'content-type'],
    ['too many bytes', '/v1/lookup', Buffer.alloc(5 << 20, 32), { 'content-type': 'application/json' }, 413, 'body'],
  ])('refuses %s', async (_name, url, payload, headers, status, field) => {
    const before = harness.engine.changes
    const answer = await harness.service.api.inject({ method: 'POST', url, payload, headers })
    expect([answer.statusCode, answer.json().error.field]).toEqual([status, field])
    expect(harness.engine.changes).toBe(before)
  })
})

describe('administration', () => {
  it('clears, and writes it to the audit trail', async () => {
    const admin = harness.bearer('admin')
    const answer = await post('/v1/clear', { model: 'm', tiers: ['l1'] }, admin)
    expect(answer.json()).toEqual({ l0_blocks: 0, l1_chunks: 0, l2_objects: 0 })
    const { activities } = harness.activities.read({}, 1n, 10)
    expect(activities).toMatchObject([
      {
        action: 'ACTIVITY_ACTION_CACHE_CLEAR',
        actorType: 'ACTOR_TYPE_TOKEN',
        actorDisplay: 'admin token',
        resourceId: 'm',
        metadata: { model: 'm', tiers: ['l1'] },
      },
    ])
  })

  it.each([
    [{ cache_salt: 'a' }, 'cache_salt'],
    [{ tiers: [] }, 'tiers'],
    [{ tiers: ['l3'] }, 'tiers.0'],
    [{ tiers: ['l1', 'l1'] }, 'tiers'],
    [{ modle: 'm' }, 'modle'],
    [[], 'body'],
  ])('refuses to clear by %j', async (payload, field) => {
    const answer = await post('/v1/clear', payload, harness.bearer('admin'))
    expect([answer.statusCode, answer.json().error.field]).toEqual([400, field])
    expect(harness.engine.changes).toBe(0)
  })

  it('lists what is quarantined, frees it by order, and records who gave the order', async () => {
    const sizes = { transfers: 2, writeBytes: 4096, readBytes: 1024 }
    const late = (worker: string) => ({ worker, model: 'm', isSilent: true, silentMs: 121_500, ...sizes })
    harness.engine.late = [late('9223372036854775807'), late('5'), late('6')]
    const listed = (await get('/v1/quarantine')).json().workers
    expect(listed[0]).toEqual({
      worker: '9223372036854775807',
      model: 'm',
      silent: true,
      silent_seconds: 121.5,
      transfers: 2,
      write_bytes: 4096,
      read_bytes: 1024,
    })
    const admin = harness.bearer('admin')
    const release = (body: object, headers = admin) => post('/v1/quarantine/release', body, headers)
    expect((await release({ worker: '5' }, harness.bearer('inference'))).statusCode).toBe(403)
    expect((await release({ worker: 'x' })).statusCode).toBe(400)
    expect((await release({ worker: '7' })).statusCode).toBe(404)
    expect((await release({ worker: listed[0].worker })).json()).toEqual({ workers: [listed[0]] })
    expect((await release({})).json().workers).toHaveLength(2)
    expect((await release({})).json()).toEqual({ workers: [] })
    const acts = harness.activities.read({ resourceType: 'worker' }, 1n, 10).activities
    expect(acts.map(({ action, resourceId }) => [action, resourceId])).toEqual([
      ['ACTIVITY_ACTION_QUARANTINE_RELEASE', '6'],
      ['ACTIVITY_ACTION_QUARANTINE_RELEASE', '5'],
      ['ACTIVITY_ACTION_QUARANTINE_RELEASE', '9223372036854775807'],
    ])
  })

  it('pins, lists and unpins', async () => {
    await register()
    const admin = harness.bearer('admin')
    const pinned = await post('/v1/pins', { model: 'm', tokens: [1, 2, 3, 4] }, admin)
    expect(pinned.statusCode).toBe(201)
    expect((await get('/v1/pins')).json()).toEqual({ pins: [pinned.json()] })
    const url = `/v1/pins/${pinned.json().pin_id}`
    const remove = () => harness.service.api.inject({ method: 'DELETE', url, headers: admin })
    expect((await remove()).statusCode).toBe(204)
    expect((await remove()).statusCode).toBe(404)
    const actions = harness.activities.read({ resourceType: 'pin' }, 1n, 10).activities.map((one) => one.action)
    expect(actions).toEqual(['ACTIVITY_ACTION_PIN_DELETE', 'ACTIVITY_ACTION_PIN_CREATE'])
  })

  it.each([
    [[1], 404, 'NOT_FOUND'],
    [Array.from({ length: 101 }, () => 1), 409, 'PIN_LIMIT'],
  ])('refuses a pin of %j', async (tokens, status, code) => {
    await register()
    const answer = await post('/v1/pins', { model: 'm', tokens }, harness.bearer('admin'))
    expect([answer.statusCode, answer.json().error.code]).toEqual([status, code])
  })
})
