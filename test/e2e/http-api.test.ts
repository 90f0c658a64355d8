import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { chunkPath, HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { until } from '../support/until.ts'

const MODEL = 'api-model'
const CHUNK_TOKENS = 16
const SHARD_BYTES = 64 * 1024
/** Too large for the buffers of a connection. */
const LARGE_BYTES = 16 * 1024 ** 2
const NO_HASH = '0'.repeat(64)
const BINARY = { 'content-type': 'application/octet-stream' }

let home: EngineHome
let engine: EngineProcess
let client: HttpClient
let admin: HttpClient

beforeAll(async () => {
  home = new EngineHome()
  const flags = ['--chunk-tokens', `${CHUNK_TOKENS}`, '--l1-pin-ratio', '0.1', '--http-request-timeout', '2s']
  engine = await home.start({ l1Size: '128MiB', flags })
  client = new HttpClient(engine)
  admin = new HttpClient(engine, await home.token('admin'))
  await client.register(MODEL, SHARD_BYTES)
  await client.register('large-model', LARGE_BYTES)
  await client.register('two-ranks', SHARD_BYTES, 2)
})
afterAll(() => home.remove())

/** `/status` once nothing moves any more, and no lease but those of pins is held. */
async function restingStatus(pins = 0) {
  return await until('rest', async () => {
    const status = await client.status()
    const { l1, l2, lookups } = status
    const isResting = l1.openLeases === pins && l2.queuedStores + l2.inflightStores === 0 && lookups.pending === 0
    return isResting ? status : undefined
  })
}

describe('a prompt', () => {
  it('is stored chunk by chunk, found by lookups, and read back byte for byte', async () => {
    const tokens = promptOf(1, 4 * CHUNK_TOKENS + 5)
    const first = await client.lookup(MODEL, tokens)
    expect(first).toMatchObject({ requested_tokens: 64, hit_tokens: 0, hit_chunks: 0, lease_id: null })
    expect(first.hashes).toHaveLength(4)

    const query = { model: MODEL }
    let parent = 'root'
    for (const hash of first.hashes) {
      const stored = await client.put(hash, { ...query, parent }, shardOf(hash, SHARD_BYTES))
      expect(stored).toMatchObject({ status: 201, body: { hash, status: 'stored', bytes: SHARD_BYTES } })
      parent = hash
    }
    const again = await client.put(first.hashes[0]!, { ...query, parent: 'root' }, shardOf(NO_HASH, SHARD_BYTES))
    expect(again).toMatchObject({ status: 200, body: { status: 'present' } })

    const found = await client.lookup(MODEL, tokens, { request_id: 'mine' })
    expect(found).toMatchObject({ request_id: 'mine', hit_tokens: 64, hit_chunks: 4, tiers: { l0: 0, l1: 64, l2: 0 } })
    for (const hash of found.hashes) {
      const head = await client.raw('HEAD', chunkPath(hash, query))
      expect({ status: head.status, length: head.headers.get('content-length') }).toEqual({
        status: 200,
        length: `${SHARD_BYTES}`,
      })
      expect(Buffer.compare((await client.get(hash, query))!, shardOf(hash, SHARD_BYTES))).toBe(0)
    }
    const renewed = await client.ask('POST', `/v1/leases/${found.lease_id}/renew`)
    expect(renewed.status).toBe(204)
    await client.release(found.lease_id)
    const twice = await client.ask('DELETE', `/v1/leases/${found.lease_id}`)
    expect(twice).toMatchObject({ status: 404, body: { error: { code: 'NOT_FOUND', field: 'id' } } })
  })

  it('hits as far as its head is shared, and not under another salt or model', async () => {
    const head = promptOf(2, 2 * CHUNK_TOKENS)
    await client.store({ model: MODEL, cache_salt: 'tenant-a' }, head, SHARD_BYTES)
    const longer = [...head, ...promptOf(3, 3 * CHUNK_TOKENS)]
    const hits = async (model: string, salt: string) => {
      const { hit_chunks } = await client.lookup(model, longer, { cache_salt: salt, dry_run: true })
      return hit_chunks
    }
    expect(await hits(MODEL, 'tenant-a')).toBe(2)
    expect(await hits(MODEL, 'tenant-b')).toBe(0)
    expect(await hits(MODEL, '')).toBe(0)
    expect(await hits('large-model', 'tenant-a')).toBe(0)
  })

  it('is asked for as octets too, with the same hashes', async () => {
    const tokens = promptOf(4, 40 * CHUNK_TOKENS)
    const octets = Buffer.alloc(4 * tokens.length)
    tokens.forEach((token, index) => void octets.writeUInt32BE(token, 4 * index))
    const binary = await client.raw('POST', `/v1/lookup?model=${MODEL}&dry_run=true`, octets, BINARY)
    expect(((await binary.json()) as { hashes: string[] }).hashes).toEqual(
      (await client.lookup(MODEL, tokens, { dry_run: true })).hashes,
    )
  })

  it('is a hit only when every rank has stored it', async () => {
    const tokens = promptOf(5, CHUNK_TOKENS)
    const [hash] = (await client.lookup('two-ranks', tokens)).hashes
    for (const rank of ['0', '1']) {
      expect((await client.lookup('two-ranks', tokens, { dry_run: true })).hit_chunks).toBe(0)
      const shard = shardOf(hash!, SHARD_BYTES).fill(Number(rank), 0, 9)
      expect((await client.put(hash!, { model: 'two-ranks', rank, parent: 'root' }, shard)).status).toBe(201)
    }
    expect((await client.lookup('two-ranks', tokens, { dry_run: true })).hit_chunks).toBe(1)
    const second = (await client.get(hash!, { model: 'two-ranks', rank: '1' }))!
    expect([...second.subarray(0, 9)]).toEqual(Array(9).fill(1))
  })
})

describe('an administrator', () => {
  it('pins what is resident, within a limit', async () => {
    const tokens = promptOf(10, 3 * CHUNK_TOKENS)
    await client.store({ model: MODEL }, tokens, SHARD_BYTES)
    const { status, body: pin } = await admin.ask('POST', '/v1/pins', { model: MODEL, tokens })
    expect({ status, pin }).toMatchObject({ status: 201, pin: { chunks: 3, tokens: 48, bytes: 3 * SHARD_BYTES } })
    expect((await admin.must('GET', '/v1/pins')).pins).toEqual([pin])
    expect((await client.status()).pins).toBe(1)

    const nothing = await admin.ask('POST', '/v1/pins', { model: MODEL, tokens: promptOf(11, CHUNK_TOKENS) })
    expect(nothing).toMatchObject({ status: 404, body: { error: { field: 'tokens' } } })
    const large = promptOf(12, CHUNK_TOKENS)
    await client.store({ model: 'large-model' }, large, LARGE_BYTES)
    const tooMuch = await admin.ask('POST', '/v1/pins', { model: 'large-model', tokens: large })
    expect(tooMuch).toMatchObject({ status: 409, body: { error: { code: 'PIN_LIMIT' } } })

    expect((await admin.ask('DELETE', `/v1/pins/${pin.pin_id}`)).status).toBe(204)
    expect((await admin.ask('DELETE', `/v1/pins/${pin.pin_id}`)).status).toBe(404)
    expect((await admin.must('GET', '/v1/pins')).pins).toEqual([])
  })

  it('clears a tenant from every tier, and nobody else', async () => {
    const mine = promptOf(20, 2 * CHUNK_TOKENS)
    await client.store({ model: MODEL, cache_salt: 'leaver' }, mine, SHARD_BYTES)
    await client.store({ model: MODEL, cache_salt: 'stayer' }, mine, SHARD_BYTES)
    const pinned = await admin.must('POST', '/v1/pins', { model: MODEL, cache_salt: 'stayer', tokens: mine })
    await admin.must('POST', '/v1/pins', { model: MODEL, cache_salt: 'leaver', tokens: mine })
    const before = await restingStatus(2)
    const cleared = await admin.must('POST', '/v1/clear', { model: MODEL, cache_salt: 'leaver' })
    expect(cleared).toEqual({ l0_blocks: 0, l1_chunks: 2, l2_objects: 2 })
    const after = await restingStatus(1)
    expect((await admin.must('GET', '/v1/pins')).pins).toEqual([pinned])
    await admin.must('DELETE', `/v1/pins/${pinned.pin_id}`)
    expect(before.l1.usageBytes - after.l1.usageBytes).toBe(2 * SHARD_BYTES)
    expect(before.l2.adapters[0].objects - after.l2.adapters[0].objects).toBe(2)
    expect((await client.lookup(MODEL, mine, { cache_salt: 'leaver' })).hit_chunks).toBe(0)
    const stays = await client.lookup(MODEL, mine, { cache_salt: 'stayer' })
    expect(stays.hit_chunks).toBe(2)
    await client.release(stays.lease_id)
  })

  it('finds starts, pins and clears in the activity log, each under its actor', async () => {
    const { activities, total } = await client.must('GET', '/v1/activities?size=100')
    expect(activities).toHaveLength(total)
    const actors = new Map(activities.map((one: { action: string; actorType: string }) => [one.action, one.actorType]))
    expect(Object.fromEntries(actors)).toEqual({
      ACTIVITY_ACTION_ENGINE_START: 'ACTOR_TYPE_SYSTEM',
      ACTIVITY_ACTION_TOKEN_CREATE: 'ACTOR_TYPE_OPERATOR',
      ACTIVITY_ACTION_MODEL_REGISTER: 'ACTOR_TYPE_UNSPECIFIED',
      ACTIVITY_ACTION_PIN_CREATE: 'ACTOR_TYPE_TOKEN',
      ACTIVITY_ACTION_PIN_DELETE: 'ACTOR_TYPE_TOKEN',
      ACTIVITY_ACTION_CACHE_CLEAR: 'ACTOR_TYPE_TOKEN',
    })
    const { activities: clears } = await client.must('GET', '/v1/activities?action=ACTIVITY_ACTION_CACHE_CLEAR')
    expect(clears[0]).toMatchObject({ resourceId: MODEL, metadata: { salt: 'leaver', l1Shards: 2, l2Objects: 2 } })
  })
})

describe('the engine tells', () => {
  it('that it is alive, ready, and what it is', async () => {
    expect(await client.must('GET', '/healthz')).toEqual({ status: 'ok' })
    expect(await client.must('GET', '/readyz')).toMatchObject({ ready: true, reasons: [] })
    const status = await client.status()
    expect(status).toMatchObject({ pid: engine.addresses.pid, chunkTokens: CHUNK_TOKENS, l0: { device: {} } })
    expect(status.simulated).toContainEqual(expect.stringContaining('simulated GPU'))
    const { adapters } = await client.must('GET', '/v1/l2/adapters')
    expect(adapters).toMatchObject([{ name: 'disk', type: 'filesystem', state: 'active' }])
    const { models } = await client.must('GET', '/v1/models')
    expect(models).toHaveLength(3)
  })

  it('its whole API in one document', async () => {
    const { openapi, paths } = await client.must('GET', '/openapi.json')
    expect(openapi).toBe('3.1.0')
    expect(Object.keys(paths)).toEqual(expect.arrayContaining(['/v1/lookup', '/v1/chunks/{hash}', '/v1/clear']))
  })
})

const PUT_ROOT = chunkPath(NO_HASH, { model: MODEL, parent: 'root' })
const exact = Buffer.alloc(SHARD_BYTES)
const BAD_REQUESTS: readonly [what: string, status: number, field: string | null, ...Parameters<HttpClient['ask']>][] =
  [
    ['an unknown route', 404, null, 'GET', '/v1/nothing'],
    ['a wrong method', 405, null, 'PATCH', '/v1/lookup'],
    ['no JSON', 400, 'body', 'POST', '/v1/lookup', '{', { 'content-type': 'application/json' }],
    ['another media type', 415, 'content-type', 'POST', '/v1/lookup', 'x', { 'content-type': 'text/plain' }],
    ['an unknown field', 400, 'colour', 'POST', '/v1/lookup', { model: MODEL, tokens: [], colour: 1 }],
    ['a negative token', 400, 'tokens.1', 'POST', '/v1/lookup', { model: MODEL, tokens: [1, -1] }],
    ['a token that is text', 400, 'tokens.0', 'POST', '/v1/lookup', { model: MODEL, tokens: ['1'] }],
    ['no model', 400, 'model', 'POST', '/v1/lookup', { tokens: [1] }],
    ['a salt with a slash', 400, 'cache_salt', 'POST', '/v1/lookup', { model: MODEL, tokens: [], cache_salt: '../x' }],
    ['half a token', 400, 'body', 'POST', `/v1/lookup?model=${MODEL}`, Buffer.alloc(6), BINARY],
    ['another chunk size', 409, 'chunk_bytes', 'POST', '/v1/models', { model: MODEL, chunk_bytes: 7 }],
    ['a chunk larger than L1', 400, 'chunk_bytes', 'POST', '/v1/models', { model: 'new', chunk_bytes: 2 ** 31 }],
    ['a model name with a newline', 400, 'model', 'POST', '/v1/models', { model: 'a\nb', chunk_bytes: 7 }],
    ['an unregistered model', 409, 'model', 'GET', chunkPath(NO_HASH, { model: 'nobody' })],
    ['an absent chunk', 404, 'hash', 'GET', chunkPath(NO_HASH, { model: MODEL })],
    ['a hash that is none', 400, 'hash', 'GET', chunkPath('xyz', { model: MODEL })],
    ['a rank too many', 400, 'rank', 'GET', chunkPath(NO_HASH, { model: MODEL, rank: '1' })],
    ['a body that is too short', 400, 'body', 'PUT', PUT_ROOT, exact.subarray(1), BINARY],
    ['a body that is too long', 413, 'body', 'PUT', PUT_ROOT, Buffer.alloc(SHARD_BYTES + 1), BINARY],
    ['no body', 400, 'body', 'PUT', PUT_ROOT, undefined, BINARY],
    ['no parent', 400, 'parent', 'PUT', chunkPath(NO_HASH, { model: MODEL }), exact, BINARY],
    [
      'an absent parent',
      409,
      'parent',
      'PUT',
      chunkPath(NO_HASH, { model: MODEL, parent: 'f'.repeat(64) }),
      exact,
      BINARY,
    ],
    ['a lease that is none', 404, 'id', 'DELETE', '/v1/leases/none'],
    ['a clear without a token', 401, 'authorization', 'POST', '/v1/clear', {}],
    ['a page that is none', 400, 'page', 'GET', '/v1/activities?page=0'],
  ]

describe('bad input', () => {
  it.each(BAD_REQUESTS)(
    'is told with one shape of error and changes nothing: %s',
    async (_what, status, field, ...request) => {
      const before = await restingStatus()
      const answer = await client.ask(...request)
      const { error } = answer.body
      expect(answer.status, JSON.stringify(error)).toBe(status)
      expect(error).toEqual({
        code: expect.stringMatching(/^[A-Z][A-Z_]+$/),
        message: expect.stringMatching(/^[^\n]{8,200}$/),
        ...(field === null ? {} : { field }),
        requestId: answer.headers.get('x-request-id'),
      })
      expect(await restingStatus()).toEqual(before)
    },
  )
})

/** A connection of our own, to break. Resolves once `until` has happened on it. */
async function open(text: string): Promise<Socket> {
  const [host, port] = engine.addresses.http!.split(':')
  const socket = connect(Number(port), host)
  await new Promise<void>((resolve) => socket.once('connect', resolve))
  socket.on('error', () => {}) // it is broken on purpose
  socket.write(text)
  return socket
}

function putHead(hash: string): string {
  const path = chunkPath(hash, { model: 'large-model', parent: 'root' })
  const headers = `Host: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: ${LARGE_BYTES}`
  return `PUT ${path} HTTP/1.1\r\n${headers}\r\n\r\n`
}

/** Resolves once L1 uses `bytes` more than `before`. */
function usageGrows(before: { l1: { usageBytes: number } }, bytes: number): Promise<true> {
  return until(`L1 usage grows by ${bytes}`, async () => {
    const { l1 } = await client.status()
    return l1.usageBytes === before.l1.usageBytes + bytes ? true : undefined
  })
}

describe('a client that goes away', () => {
  it('in the middle of a PUT leaves no bytes and no lease', async () => {
    const [hash] = (await client.lookup('large-model', promptOf(30, CHUNK_TOKENS))).hashes
    const before = await restingStatus()
    const socket = await open(putHead(hash!))
    socket.write(Buffer.alloc(LARGE_BYTES / 2))
    await usageGrows(before, LARGE_BYTES)
    const busy = await client.put(hash!, { model: 'large-model', parent: 'root' }, shardOf(hash!, LARGE_BYTES))
    expect(busy).toMatchObject({ status: 409, body: { error: { code: 'CHUNK_BUSY' } } })
    socket.destroy()
    await usageGrows(before, 0)
    expect(await restingStatus()).toEqual(before)
    expect(await client.get(hash!, { model: 'large-model' })).toBe(undefined)
  })

  it('by falling silent in the middle of a PUT is cut off in time', async () => {
    const [hash] = (await client.lookup('large-model', promptOf(31, CHUNK_TOKENS))).hashes
    const before = await restingStatus()
    const socket = await open(putHead(hash!))
    socket.write(Buffer.alloc(1000))
    await usageGrows(before, LARGE_BYTES)
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.resume()
    await closed
    await usageGrows(before, 0)
    expect(await restingStatus()).toEqual(before)
  })

  it('in the middle of a GET leaves no lease, and is not counted as served', async () => {
    const tokens = promptOf(32, CHUNK_TOKENS)
    const [hash] = await client.store({ model: 'large-model' }, tokens, LARGE_BYTES)
    const before = await restingStatus()
    const loaded = async () =>
      /^cache_mp_num_chunks_loaded_total\{model_name="large-model".*$/m.exec(await metrics())?.[0]
    const loadedBefore = await loaded()
    const socket = await open(`GET ${chunkPath(hash!, { model: 'large-model' })} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    await new Promise<void>((resolve) => socket.once('data', () => resolve()))
    socket.pause()
    expect((await client.status()).l1.openLeases).toBe(1)
    socket.destroy()
    expect(await restingStatus()).toEqual(before)
    expect(await loaded()).toBe(loadedBefore)
    expect(Buffer.compare((await client.get(hash!, { model: 'large-model' }))!, shardOf(hash!, LARGE_BYTES))).toBe(0)
    expect(await loaded()).not.toBe(loadedBefore)
  })
})

it('a client that reads more slowly than its lease lasts gets an error, and a read failure is counted', async () => {
  const other = new EngineHome()
  try {
    const slow = await other.start({ flags: ['--chunk-tokens', `${CHUNK_TOKENS}`, '--lease-ttl', '300ms'] })
    const reader = new HttpClient(slow)
    const bytes = 2 * LARGE_BYTES
    await reader.register('large-model', bytes)
    const [hash] = await reader.store({ model: 'large-model' }, promptOf(40, CHUNK_TOKENS), bytes)
    const response = await reader.raw('GET', chunkPath(hash!, { model: 'large-model' }))
    await until('the lease expires', async () => ((await reader.status()).l1.openLeases === 0 ? true : undefined))
    await expect(response.arrayBuffer()).rejects.toThrow()
    const failure = /^cache_mp_l1_read_failure_chunks_total\{.*reason="expired".*\} 1$/m
    await until('the failure is counted', async () => (failure.test(await metrics(slow)) ? true : undefined))
  } finally {
    await other.remove()
  }
})

async function metrics(of = engine): Promise<string> {
  return await (await fetch(of.metricsUrl)).text()
}

describe('tokens', () => {
  it('of each scope do what the scope says, and a running engine knows them at once', async () => {
    const read = new HttpClient(engine, await home.token('read'))
    const inference = new HttpClient(engine, await home.token('inference'))
    const wrong = new HttpClient(engine, `kvt_${'x'.repeat(43)}`)
    const statuses = async (one: HttpClient) => [
      (await one.ask('GET', '/healthz')).status,
      (await one.ask('GET', '/status')).status,
      (await one.ask('POST', '/v1/lookup', { model: MODEL, tokens: [] })).status,
      (await one.ask('POST', '/v1/clear', { model: 'nobody' })).status,
    ]
    expect(await statuses(read)).toEqual([200, 200, 403, 403])
    expect(await statuses(inference)).toEqual([200, 403, 200, 403])
    expect(await statuses(admin)).toEqual([200, 200, 200, 200])
    expect(await statuses(wrong)).toEqual([200, 401, 401, 401])
    // From the first token of a scope on, nobody does without.
    expect(await statuses(client)).toEqual([200, 401, 401, 401])
  })
})
