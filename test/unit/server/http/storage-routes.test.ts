import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryAdapter } from '../../../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../../../src/l2/options.ts'
import { GatedAdapter } from '../../../support/gated-adapter.ts'
import { HttpHarness } from '../../../support/http-harness.ts'
import { chainBatch, lookupChain, payloads, SPACE, storeChain } from '../../../support/l2-objects.ts'
import { settle } from '../../../support/l2-set.ts'

let harness: HttpHarness
let admin: Record<string, string>

beforeEach(async () => {
  harness = await HttpHarness.start()
  admin = harness.bearer('admin')
})

afterEach(() => harness.close())

type Method = 'GET' | 'POST' | 'DELETE'

async function ask(method: Method, url: string, payload?: object, headers: Record<string, string> = admin) {
  const answer = await harness.service.api.inject({
    method,
    url,
    headers,
    ...(payload === undefined ? {} : { payload }),
  })
  return { status: answer.statusCode, body: answer.body === '' ? null : answer.json() }
}

const MEMORY = { name: 'fast', type: 'memory', capacity: '1MiB' }

function acts(): { action: string; resourceId: string; metadata: Record<string, unknown> }[] {
  return harness.activities.read({}, 1n, 100).activities.map(({ action, resourceId, metadata }) => {
    return { action: action.replace('ACTIVITY_ACTION_ADAPTER_', ''), resourceId, metadata: { ...metadata } }
  })
}

function keptFile(): { adapters: unknown[] } {
  return JSON.parse(readFileSync(join(harness.dataDir, 'l2-adapters.json'), 'utf8'))
}

describe('adding an adapter', () => {
  it('attaches it, keeps it for the next start, and records the act', async () => {
    const { status, body } = await ask('POST', '/v1/l2/adapters', MEMORY)
    expect([status, body.name, body.state, body.origin]).toEqual([201, 'fast', 'active', 'runtime'])
    expect(body.options).toMatchObject({ type: 'memory', capacityBytes: 2 ** 20, storeDeadlineMs: 30_000 })
    expect(keptFile().adapters).toEqual([MEMORY])
    expect(statSync(join(harness.dataDir, 'l2-adapters.json')).mode & 0o777).toBe(0o600)
    expect(acts()).toMatchObject([{ action: 'ADD', resourceId: 'fast', metadata: { type: 'memory' } }])
    const [record] = harness.activities.read({}, 1n, 1).activities
    expect([record!.occurredAt, record!.recordedAt].every((time) => !Number.isNaN(Date.parse(time)))).toBe(true)
  })

  it.each([
    [{ type: 'memory', capacity: '1MiB' }, 400, 'name'],
    [{ ...MEMORY, name: '../up' }, 400, 'name'],
    [{ ...MEMORY, name: '..' }, 400, 'name'],
    [{ ...MEMORY, name: 'x'.repeat(65) }, 400, 'name'],
    [{ ...MEMORY, name: 7 }, 400, 'name'],
    [{ ...MEMORY, type: 'floppy' }, 400, 'adapter'],
    [{ ...MEMORY, capacity: 'much' }, 400, 'capacity'],
    [{ ...MEMORY, colour: 'red' }, 400, 'adapter'],
    [{ name: 'fast', type: 'memory' }, 400, 'adapter'],
    [{ ...MEMORY, 'store-deadline': '0s' }, 400, 'store-deadline'],
  ])('refuses %j with %i and names the field', async (given, status, field) => {
    const answer = await ask('POST', '/v1/l2/adapters', given)
    expect([answer.status, answer.body.error.code, answer.body.error.field]).toEqual([status, 'BAD_REQUEST', field])
    expect([harness.storage.set.all().length, acts().length]).toEqual([0, 0])
  })

  it('refuses a name that is taken, and storage that another adapter has', async () => {
    const disk = { name: 'one', type: 'filesystem', path: '/srv/objects', capacity: '1GiB' }
    await ask('POST', '/v1/l2/adapters', disk)
    const same = await ask('POST', '/v1/l2/adapters', { ...MEMORY, name: 'one' })
    expect([same.status, same.body.error.code]).toEqual([409, 'L2_NAME_TAKEN'])
    const shared = await ask('POST', '/v1/l2/adapters', { ...disk, name: 'two' })
    expect([shared.status, shared.body.error.code]).toEqual([409, 'L2_NAME_TAKEN'])
    expect(shared.body.error.message).toContain('/srv/objects')
    expect(keptFile().adapters.length).toBe(1)
  })

  it('says busy for a name that is just being opened, and gives it up after a time', async () => {
    const stuck = Object.assign(new GatedAdapter(), { open: () => new Promise<void>(() => undefined) })
    harness.storage.planned.set('fast', stuck)
    const adding = ask('POST', '/v1/l2/adapters', MEMORY)
    await settle()
    const other = await ask('POST', '/v1/l2/adapters', MEMORY)
    expect([other.status, other.body.error.code]).toEqual([409, 'L2_BUSY'])
    expect((await ask('POST', '/v1/l2/adapters', { ...MEMORY, name: 'other' })).status).toBe(201)
    harness.storage.clock.advance(15_000)
    expect(await adding).toMatchObject({ status: 503, body: { error: { code: 'L2_TIMEOUT' } } })
    harness.storage.planned.clear()
    expect((await ask('POST', '/v1/l2/adapters', MEMORY)).status).toBe(201)
  })

  it('shows secrets to nobody: not in answers, lists, activities or the log', async () => {
    const secrets = ['swordfish-1', 'swordfish-2']
    const url = { name: 'one', type: 'redis', url: `redis://user:${secrets[0]}@127.0.0.1`, capacity: '1GiB' }
    const key = { name: 'two', type: 'redis', url: 'redis://127.0.0.1', password: secrets[1], capacity: '1GiB' }
    const wrong = { ...key, name: 'three', capacity: 'much' }
    const answers = [await ask('POST', '/v1/l2/adapters', url), await ask('POST', '/v1/l2/adapters', key)]
    expect(answers.map(({ status, body }) => [status, body.options?.password])).toEqual([
      [201, '***'],
      [201, '***'],
    ])
    answers.push(await ask('POST', '/v1/l2/adapters', wrong), await ask('GET', '/v1/l2/adapters'))
    const seen = JSON.stringify([answers, acts(), harness.logLines])
    for (const secret of secrets) expect(seen).not.toContain(secret)
    expect(JSON.stringify(keptFile())).toContain(secrets[0]) // else it could not come back
  })

  it('attaches nothing that it cannot keep', async () => {
    mkdirSync(join(harness.dataDir, 'l2-adapters.json.tmp')) // in the way of the file that is written first
    const answer = await ask('POST', '/v1/l2/adapters', MEMORY)
    expect(answer.body.error.code).toBe('DATA_DIR_UNWRITABLE')
    expect(harness.storage.set.all()).toEqual([])
  })
})

describe('listing', () => {
  it('tells everything of every adapter, in the order they are asked', async () => {
    await harness.storage.attachDisk()
    await ask('POST', '/v1/l2/adapters', MEMORY)
    await storeChain(harness.storage.set.find('disk')!.adapter, 1, 0, 3)
    const { body } = await ask('GET', '/v1/l2/adapters', undefined, harness.bearer('read'))
    expect(body.adapters.map(({ name, origin }: { name: string; origin: string }) => [name, origin])).toEqual([
      ['disk', 'config'],
      ['fast', 'runtime'],
    ])
    expect(body.adapters[0]).toMatchObject({
      state: 'active',
      circuit: 'closed',
      usage_bytes: 3000,
      objects: 3,
      inflight_stores: 0,
      inflight_leases: 0,
      last_error: '',
      drain: null,
      evacuation: null,
    })
    expect((await ask('GET', '/v1/l2/adapters/disk')).body).toEqual(body.adapters[0])
    expect((await ask('GET', '/v1/l2/adapters/nobody')).status).toBe(404)
  })

  it('is not left alone because somebody sends wrong cursors', async () => {
    await harness.storage.attachDisk()
    for (let wrong = 0; wrong < 10; wrong += 1) {
      const { status, body } = await ask('GET', `/v1/l2/adapters/disk/objects?cursor=x${wrong}`)
      expect([status, body.error.code]).toEqual([400, 'BAD_REQUEST'])
    }
    expect((await ask('GET', '/v1/l2/adapters/disk')).body).toMatchObject({ circuit: 'closed', last_error: '' })
  })

  it('pages through objects', async () => {
    const { adapter } = await harness.storage.attachDisk()
    await storeChain(adapter, 1, 0, 5, { ...SPACE, salt: 's' })
    const first = (await ask('GET', '/v1/l2/adapters/disk/objects?limit=3')).body
    expect(first.objects.length).toBe(3)
    expect(first.objects[0]).toMatchObject({ model: 'm', cache_salt: 's', ranks: 1, rank: 0, bytes: 1000 })
    const rest = (await ask('GET', `/v1/l2/adapters/disk/objects?limit=3&cursor=${first.cursor}`)).body
    expect([rest.objects.length, rest.cursor]).toEqual([2, null])
    expect((await ask('GET', '/v1/l2/adapters/disk/objects?limit=0')).status).toBe(400)
    expect((await ask('GET', '/v1/l2/adapters/disk/objects?cursor=..')).status).toBe(400)
    expect((await ask('GET', '/v1/l2/adapters/disk/objects', undefined, harness.bearer('read'))).status).toBe(403)
  })

  it('says that an adapter cannot tell its objects', async () => {
    await harness.storage.attachDisk(Object.assign(new GatedAdapter(), { list: undefined }))
    const { status, body } = await ask('GET', '/v1/l2/adapters/disk/objects')
    expect([status, body.error.code]).toEqual([400, 'L2_UNSUPPORTED'])
  })
})

describe('draining', () => {
  async function withStoreInFlight() {
    const adapter = new GatedAdapter('store')
    const attached = await harness.storage.attachDisk(adapter)
    const store = harness.storage.set.submitStore(attached, 0 as never, chainBatch(SPACE, 1, 0, 2), payloads(1, 0, 2))
    await settle()
    return { adapter, store }
  }

  it('answers at once, tells how far it is, and lets the adapter be removed when it is done', async () => {
    const { adapter, store } = await withStoreInFlight()
    const begun = await ask('POST', '/v1/l2/adapters/disk/drain', { deadline_ms: 60_000 })
    expect(begun).toMatchObject({
      status: 202,
      body: {
        state: 'draining',
        drain: { phase: 'waiting', elapsed_ms: 0, remaining_ms: 60_000, bytes_left: 0 },
        inflight_stores: 1,
        inflight_store_bytes: 2000,
        inflight_leases: 1,
      },
    })
    expect((await ask('DELETE', '/v1/l2/adapters/disk')).body.error.code).toBe('L2_DRAINING')
    harness.storage.clock.advance(50)
    adapter.openGate()
    await store
    await settle()
    expect((await ask('GET', '/v1/l2/adapters/disk')).body.drain).toMatchObject({ phase: 'drained', elapsed_ms: 50 })
    const removed = await ask('DELETE', '/v1/l2/adapters/disk')
    expect(removed).toMatchObject({
      status: 200,
      body: { name: 'disk', state: 'removed', is_closed: true, close_error: '', returns_at_start: true },
    })
    expect(acts().map(({ action }) => action)).toEqual(['REMOVE', 'DRAIN'])
  })

  it('says what was left at its deadline, and takes another one', async () => {
    const { adapter, store } = await withStoreInFlight()
    await ask('POST', '/v1/l2/adapters/disk/drain', { deadline_ms: 10 })
    harness.storage.clock.advance(10)
    await settle()
    const late = (await ask('GET', '/v1/l2/adapters/disk')).body
    expect(late).toMatchObject({ state: 'draining', drain: { phase: 'deadline_passed' }, inflight_stores: 1 })
    expect(harness.storage.drains).toEqual([{ name: 'disk', isDrained: false }])
    await ask('POST', '/v1/l2/adapters/disk/drain', { deadline_ms: 1000 })
    adapter.openGate()
    await store
    await settle()
    expect((await ask('GET', '/v1/l2/adapters/disk')).body.drain.phase).toBe('drained')
  })

  it('is taken back by undrain, once', async () => {
    await harness.storage.attachDisk()
    await ask('POST', '/v1/l2/adapters/disk/drain', {})
    const back = await ask('POST', '/v1/l2/adapters/disk/undrain')
    expect(back).toMatchObject({ status: 200, body: { state: 'active', drain: null } })
    const again = await ask('POST', '/v1/l2/adapters/disk/undrain')
    expect([again.status, again.body.error.code]).toEqual([409, 'L2_DRAINING'])
    expect(acts().map(({ action }) => action)).toEqual(['UNDRAIN', 'DRAIN'])
  })

  it('copies the objects elsewhere meanwhile, and stops that at the deadline or an undrain', async () => {
    const { adapter } = await harness.storage.attachDisk()
    await ask('POST', '/v1/l2/adapters', MEMORY)
    await storeChain(adapter, 1, 0, 128)
    const slow = { deadline_ms: 1500, evacuate_to: 'fast', rate_bytes: 64_000 }
    const begun = (await ask('POST', '/v1/l2/adapters/disk/drain', slow)).body
    expect(begun.evacuation).toMatchObject({ kind: 'evacuate', target: 'fast', state: 'running', objects_total: 128 })
    expect(begun.drain.bytes_left).toBe(128_000)
    expect((await ask('DELETE', '/v1/l2/adapters/disk')).body.error.message).toContain('evacuated')
    for (const step of [1000, 500]) {
      await settle()
      harness.storage.clock.advance(step)
      await settle()
    }
    const late = (await ask('GET', '/v1/l2/adapters/disk')).body
    expect(late.drain).toMatchObject({ phase: 'deadline_passed', bytes_left: 64_000 })
    expect(late.evacuation).toMatchObject({ state: 'cancelled', ok: 64 })
    await ask('POST', '/v1/l2/adapters/disk/drain', { ...slow, deadline_ms: 60_000 })
    await ask('POST', '/v1/l2/adapters/disk/undrain')
    await settle()
    expect((await ask('GET', '/v1/l2/adapters/disk')).body).toMatchObject({
      state: 'active',
      evacuation: { state: 'cancelled', present: 64 },
    })
    await ask('POST', '/v1/l2/adapters/disk/drain', { evacuate_to: 'fast', rate_bytes: 0 })
    await settle()
    await settle()
    const done = (await ask('GET', '/v1/l2/adapters/disk')).body
    expect(done).toMatchObject({ drain: { phase: 'drained', bytes_left: 0 }, evacuation: { ok: 64, present: 64 } })
    expect(await lookupChain(harness.storage.set.find('fast')!.adapter, 1, 0, 128)).toEqual(Array(128).fill(1))
  })

  it.each([
    [{ deadline_ms: -1 }, 400],
    [{ deadline_ms: 1.5 }, 400],
    [{ deadline_ms: 10 ** 12 }, 400],
    [{ evacuate_to: 'nobody' }, 400],
    [{ evacuate_to: 'disk' }, 400],
    [{ rate_bytes: 5 }, 400],
    [{ colour: 'red' }, 400],
    [[], 400],
  ])('refuses %j', async (body, status) => {
    await harness.storage.attachDisk()
    expect((await ask('POST', '/v1/l2/adapters/disk/drain', body)).status).toBe(status)
    expect((await ask('GET', '/v1/l2/adapters/disk')).body.state).toBe('active')
    expect(acts()).toEqual([])
  })

  it('is refused for an adapter that has failed', async () => {
    await harness.storage.attachDisk()
    harness.storage.set.fail('disk', new Error('the worker died'))
    const answer = await ask('POST', '/v1/l2/adapters/disk/drain', {})
    expect([answer.status, answer.body.error.code]).toEqual([409, 'L2_DRAINING'])
    expect((await ask('GET', '/v1/l2/adapters/disk')).body).toMatchObject({
      state: 'failed',
      last_error: 'the worker died',
    })
    expect((await ask('DELETE', '/v1/l2/adapters/disk')).status).toBe(200)
  })
})

describe('removing', () => {
  it('refuses an active adapter, unless forced: then it says what it ended', async () => {
    const adapter = new GatedAdapter('store')
    const attached = await harness.storage.attachDisk(adapter)
    expect((await ask('DELETE', '/v1/l2/adapters/disk')).body.error.message).toContain('drain it first')
    const store = harness.storage.set.submitStore(attached, 0 as never, chainBatch(SPACE, 1, 0, 2), payloads(1, 0, 2))
    await settle()
    const removing = ask('DELETE', '/v1/l2/adapters/disk?force=true')
    await settle()
    harness.storage.clock.advance(20) // the adapter does not let go: it is given up
    await store
    adapter.openGate()
    expect(await removing).toMatchObject({ status: 200, body: { left: { stores: 1, store_bytes: 2000 } } })
    expect(acts()).toMatchObject([{ action: 'FORCE', metadata: { left: { stores: 1 } } }])
    expect((await ask('DELETE', '/v1/l2/adapters/disk?force=true')).status).toBe(404)
    expect((await ask('DELETE', '/v1/l2/adapters/disk?force=perhaps')).status).toBe(400)
  })

  it('forgets an adapter that was added, so that it does not come back', async () => {
    await ask('POST', '/v1/l2/adapters', MEMORY)
    const removed = await ask('DELETE', '/v1/l2/adapters/fast?force=true')
    expect(removed.body).toMatchObject({ returns_at_start: false })
    expect(keptFile().adapters).toEqual([])
    expect((await ask('POST', '/v1/l2/adapters', MEMORY)).status).toBe(201)
  })

  it('does not wait for a backend that does not close', async () => {
    await harness.storage.attachDisk(
      Object.assign(new GatedAdapter(), { close: () => new Promise<void>(() => undefined) }),
    )
    const removing = ask('DELETE', '/v1/l2/adapters/disk?force=true')
    await settle()
    harness.storage.clock.advance(5000)
    expect(await removing).toMatchObject({ status: 200, body: { is_closed: false } })
    expect((await ask('GET', '/v1/l2/adapters')).body.adapters).toEqual([])
  })
})

describe('an adapter that is stuck', () => {
  it('holds up nothing of the others: neither their life nor their traffic', async () => {
    const { storage } = harness
    const stuck = await storage.attachDisk(new GatedAdapter('store', 'load', 'lookup'))
    void storage.set.submitStore(stuck, 0 as never, chainBatch(SPACE, 1, 0, 2), payloads(1, 0, 2))
    await settle()
    await ask('POST', '/v1/l2/adapters/disk/drain', {})
    expect((await ask('POST', '/v1/l2/adapters', MEMORY)).status).toBe(201)
    const fast = storage.set.find('fast')!
    const batch = chainBatch(SPACE, 2, 0, 2)
    const stored = await storage.set.submitStore(fast, 0 as never, batch, payloads(2, 0, 2))
    expect(stored.bytes).toBe(2000)
    expect([...(await storage.set.submitLookup(fast, 0 as never, batch))]).toEqual([1, 1])
    expect((await ask('POST', '/v1/l2/adapters/fast/drain', {})).status).toBe(202)
    await settle()
    expect((await ask('DELETE', '/v1/l2/adapters/fast')).status).toBe(200)
    expect((await ask('GET', '/v1/l2/adapters/disk')).body.drain.phase).toBe('waiting')
  })
})

describe('scopes', () => {
  it.each([
    ['POST', '/v1/l2/adapters', 'read'],
    ['POST', '/v1/l2/adapters', 'inference'],
    ['POST', '/v1/l2/adapters/disk/drain', 'read'],
    ['POST', '/v1/l2/adapters/disk/undrain', 'read'],
    ['DELETE', '/v1/l2/adapters/disk', 'read'],
    ['GET', '/v1/l2/adapters/disk/objects', 'inference'],
    ['POST', '/v1/l2/jobs', 'read'],
    ['GET', '/v1/l2/jobs', 'read'],
    ['DELETE', '/v1/l2/jobs/job-1', 'inference'],
  ] as const)('%s %s is refused with %s', async (method, url, scope) => {
    const body = method === 'POST' ? {} : undefined
    expect((await ask(method, url, body, harness.bearer(scope))).status).toBe(403)
  })
})

it('readiness tells the state and circuit of every adapter, and does not depend on them', async () => {
  await harness.storage.attachDisk(new MemoryAdapter(MEMORY_DEFAULT))
  harness.storage.set.fail('disk', new Error('gone'))
  const { status, body } = await ask('GET', '/readyz')
  expect([status, body]).toEqual([
    200,
    { ready: true, reasons: [], l2: [{ name: 'disk', state: 'failed', circuit: 'closed', reached: true }] },
  ])
})
