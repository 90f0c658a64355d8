import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/core/clock.ts'
import { OUTCOME_FAILED, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../src/l2/adapter.ts'
import type { S3AdapterOptions } from '../../src/l2/adapters/s3/options.ts'
import type { S3Adapter } from '../../src/l2/adapters/s3.ts'
import { blanks, chainBatch, loadChain, NEVER, payloads, SPACE, storeChain } from '../support/l2-objects.ts'
import { useS3Place } from '../support/s3-place.ts'
import { needsS3Server, S3Server } from '../support/s3-server.ts'
import { errorDocument } from '../support/s3-weather.ts'
import { until } from '../support/until.ts'

/** Larger than what sockets hold, so that a body is cut in its middle. */
const LARGE = { ...SPACE, shardBytes: 4 << 20 }
const MIDDLE = { ...SPACE, shardBytes: 500_000 }

const place = useS3Place()

function load(adapter: S3Adapter, targets: Uint8Array[], signal: AbortSignal, space = SPACE) {
  const outcomes = new Uint8Array(targets.length)
  return adapter.load(chainBatch(space, 1, 0, targets.length), targets, outcomes, signal)
}

describe('an s3 adapter whose server fails', needsS3Server(), () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'says so after %s, and serves again when the server does',
    async (signal) => {
      const own = await S3Server.start()
      place.atEnd(() => own.stop())
      const adapter = await place.opened({ endpoint: own.endpoint })
      await storeChain(adapter, 1, 0, 3)
      await own.end(signal)
      await expect(loadChain(adapter, 1, 0, 3)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
      await expect(storeChain(adapter, 2, 0, 3)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
      expect(adapter.usage().objects).toBe(3)
      adapter.verify()
      await own.restart()
      expect(await loadChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
      expect(await storeChain(adapter, 2, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
    },
  )

  it('lets go of all memory when it is given up before a server that is stopped', async () => {
    const own = await S3Server.start()
    place.atEnd(() => own.stop())
    const adapter = await place.opened({ endpoint: own.endpoint })
    await storeChain(adapter, 1, 0, 2, LARGE)
    const sources = payloads(2, 0, 2, LARGE.shardBytes)
    const targets = blanks(2, LARGE.shardBytes)
    own.signal('SIGSTOP')
    const abort = new AbortController()
    const loading = load(adapter, targets, abort.signal, LARGE)
    const storing = adapter.store(chainBatch(LARGE, 2, 0, 2), sources, new Uint8Array(2), abort.signal)
    abort.abort()
    await expect(loading).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    await expect(storing).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    for (const target of targets) target.fill(7)
    own.signal('SIGCONT')
    expect(await loadChain(adapter, 1, 0, 2, LARGE)).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(targets.every((target) => target.every((byte) => byte === 7))).toBe(true)
    adapter.verify()
  })

  it('ends a load of a body that stands still with its signal, and touches its target no more', async () => {
    const proxy = await place.network()
    const adapter = await place.opened({ endpoint: `http://127.0.0.1:${proxy.port}` })
    await storeChain(adapter, 1, 0, 1, LARGE)
    const [target] = blanks(1, LARGE.shardBytes)
    const abort = new AbortController()
    const before = proxy.passed.toClient
    proxy.throttleBytesPerSecond = 4 << 20
    const loading = load(adapter, [target!], abort.signal, LARGE)
    await until('a part of the body', () => (proxy.passed.toClient > before + 100_000 ? true : undefined))
    abort.abort()
    await expect(loading).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    target!.fill(7)
    proxy.throttleBytesPerSecond = 0
    expect(await loadChain(adapter, 1, 0, 1, LARGE)).toEqual([OUTCOME_OK])
    expect(target!.every((byte) => byte === 7)).toBe(true)
  })

  it.each(['toClient', 'toServer'] as const)(
    'asks again when the connection is reset in mid-object, %s',
    async (way) => {
      const proxy = await place.network()
      const adapter = await place.opened({ endpoint: `http://127.0.0.1:${proxy.port}` })
      proxy.cutAfter(1_000_000, way)
      expect(await storeChain(adapter, 1, 0, 2, LARGE)).toEqual([OUTCOME_OK, OUTCOME_OK])
      if (way === 'toClient') proxy.cutAfter(1_000_000, way)
      expect(await loadChain(adapter, 1, 0, 2, LARGE)).toEqual([OUTCOME_OK, OUTCOME_OK])
      expect(adapter.usage().checksumFailures).toBe(0)
    },
  )

  it('never serves a body that ends before its length, nor calls it corrupt', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint })
    await storeChain(adapter, 1, 0, 1)
    const record = readFileSync(place.files('objects')[0]!)
    proxy.answer = ({ method }) =>
      method === 'GET' ? { status: 200, body: record, cutAfterBytes: record.length - 1 } : undefined
    await expect(loadChain(adapter, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    expect(adapter.usage()).toMatchObject({ objects: 1, checksumFailures: 0 })
    proxy.answer = () => undefined
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_OK])
  })

  it('keeps whole objects alone when the server is killed in mid-batch', async () => {
    const own = await S3Server.start()
    place.atEnd(() => own.stop())
    const adapter = await place.opened({ endpoint: own.endpoint, parallelism: 4 })
    const storing = storeChain(adapter, 1, 0, 24, MIDDLE).catch(() => undefined)
    await until('some objects', () => (adapter.usage().objects > 2 ? true : undefined))
    await own.end('SIGKILL')
    await storing
    adapter.verify()
    const known = adapter.usage().objects
    await own.restart()
    await adapter.relist(NEVER)
    expect(adapter.usage().objects).toBeGreaterThanOrEqual(known)
    const outcomes = await loadChain(adapter, 1, 0, 24, MIDDLE)
    expect(outcomes.every((outcome) => outcome === OUTCOME_OK || outcome === OUTCOME_NOT_FOUND)).toBe(true)
    expect(outcomes.filter((outcome) => outcome === OUTCOME_OK)).toHaveLength(adapter.usage().objects)
  })
})

describe('an s3 adapter whose server is busy', needsS3Server(), () => {
  it('asks a server that slows down again, and counts the object once', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint })
    await storeChain(adapter, 1, 0, 1)
    const before = proxy.seen.length
    proxy.answer = ({ number }) => (number <= before + 2 ? { status: 503, body: errorDocument('SlowDown') } : undefined)
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OUTCOME_OK])
    expect(proxy.seen).toHaveLength(before + 3)
    expect(adapter.usage().objects).toBe(2)
  })

  it.each([
    ['OperationAborted', 'of S3, when two operations meet'],
    ['ExistingObjectIsDirectory', 'of versitygw, when a folder goes in the middle of an upload'],
  ])('sends an upload again that met another operation: %s, %s', async (code) => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint })
    await storeChain(adapter, 1, 0, 1)
    const before = proxy.seen.length
    proxy.answer = ({ number }) => (number === before + 1 ? { status: 409, body: errorDocument(code) } : undefined)
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OUTCOME_OK])
    expect(proxy.seen).toHaveLength(before + 2)
    expect(adapter.usage().objects).toBe(2)
  })

  it('gives up a server that stays busy after three tries', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint })
    await storeChain(adapter, 1, 0, 1)
    const before = proxy.seen.length
    proxy.answer = () => ({ status: 503, body: errorDocument('SlowDown') })
    await expect(loadChain(adapter, 1, 0, 1)).rejects.toThrow(/SlowDown, status 503/)
    expect(proxy.seen).toHaveLength(before + 3)
  })

  it('waits as long as Retry-After says, and no longer than its signal', async () => {
    const proxy = await place.weather()
    const clock = new ManualClock(0, Date.now())
    const adapter = await place.opened({ endpoint: proxy.endpoint }, clock)
    await storeChain(adapter, 1, 0, 1)
    const before = proxy.seen.length
    const busy = { status: 429, headers: { 'retry-after': '7' } }
    proxy.answer = ({ number }) => (number === before + 1 ? busy : undefined)
    const loading = loadChain(adapter, 1, 0, 1)
    await until('a wait', () => (clock.nextDueMs() === 7_000 ? true : undefined))
    clock.advance(6_999)
    expect(proxy.seen).toHaveLength(before + 1)
    clock.advance(1)
    expect(await loading).toEqual([OUTCOME_OK])
    proxy.answer = () => busy
    const abort = new AbortController()
    const given = load(adapter, blanks(1), abort.signal)
    await until('another wait', () => (clock.nextDueMs() === 14_000 ? true : undefined))
    abort.abort()
    await expect(given).rejects.toMatchObject({ code: expect.stringMatching(/^L2_/) })
  })

  it('reports some objects as failed and the others as they are', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint, parallelism: 1 })
    await storeChain(adapter, 1, 0, 3)
    const before = proxy.seen.length
    proxy.answer = ({ number }) => (number <= before + 3 ? { status: 500 } : undefined)
    expect(await loadChain(adapter, 1, 0, 3)).toEqual([OUTCOME_FAILED, OUTCOME_OK, OUTCOME_OK])
  })

  it('reads its keys again when they were replaced in their file', async () => {
    const { accessKey, secretKey } = place.server.options()
    const path = join(place.server.files, `credentials-of-${place.prefix.slice(0, -1)}`)
    const write = (secret: string) => {
      const section = (name: string, key: string) =>
        `[${name}]\naws_access_key_id = ${key}\naws_secret_access_key=${secret}\n`
      writeFileSync(path, section('other', 'nobody') + section('default', accessKey))
    }
    const proxy = await place.weather()
    const changes = { accessKey: '', secretKey: '', credentialsFile: path, endpoint: proxy.endpoint }
    write('of yesterday')
    await expect(place.opened(changes)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      detail: { field: 'secret-key' },
    })
    proxy.answer = () => {
      write(secretKey) // the request under way is refused with what was read before
      return undefined
    }
    const adapter = await place.opened(changes)
    expect(await storeChain(adapter, 1, 0, 1)).toEqual([OUTCOME_OK])
  })

  it('does not take the answer to a key that nobody knows for an absent object', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint })
    await storeChain(adapter, 1, 0, 1)
    proxy.answer = () => ({ status: 404, body: errorDocument('NoSuchBucket') })
    await expect(loadChain(adapter, 1, 0, 1)).rejects.toMatchObject({ detail: { field: 'bucket' } })
    proxy.answer = () => ({ status: 404, body: errorDocument('AccountUnknown') })
    await expect(loadChain(adapter, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    expect(adapter.usage().objects).toBe(1)
    proxy.answer = () => ({ status: 404, body: errorDocument('NoSuchKey') })
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_NOT_FOUND])
    expect(adapter.usage().objects).toBe(0)
  })
})

describe('an s3 adapter that is set up wrong', needsS3Server(), () => {
  const cases: Record<string, [Partial<S3AdapterOptions>, string, RegExp]> = {
    'a wrong secret': [{ secretKey: 'guess' }, 'secret-key', /not that of the access key/],
    'an unknown access key': [{ accessKey: 'nobody' }, 'access-key', /does not know the access key/],
    'a bucket that is not there': [{ bucket: 'elsewhere' }, 'bucket', /create it, or write another/],
    'another region': [{ region: 'mars-1' }, 'region', /region/],
  }

  it.each(Object.entries(cases))('names the option and the fix for %s', async (_name, [changes, field, message]) => {
    const error = await place.opened(changes).catch((cause: unknown) => cause)
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', detail: { field } })
    expect((error as Error).message).toMatch(message)
    expect((error as Error).message).not.toContain('guess')
  })

  it('asks once with keys that are refused, when they cannot have been replaced', async () => {
    const proxy = await place.weather()
    await expect(place.opened({ endpoint: proxy.endpoint, secretKey: 'guess' })).rejects.toThrow()
    expect(proxy.seen).toHaveLength(1)
  })

  it('says by how much the clock is wrong', async () => {
    const clock = new ManualClock(0, Date.now() - 3_600_000)
    const error = await place.opened({}, clock).catch((cause: unknown) => cause)
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', detail: { field: 'clock' } })
    expect((error as Error).message).toMatch(/clock is 3[56]\d\d s behind/)
  })

  it.each([
    [
      301,
      { 'x-amz-bucket-region': 'eu-north-1' },
      errorDocument('PermanentRedirect'),
      'region',
      /write region=eu-north-1/,
    ],
    [307, { location: 'http://other.test/' }, errorDocument('TemporaryRedirect'), 'endpoint', /http:\/\/other\.test\//],
    [
      400,
      {},
      errorDocument('AuthorizationHeaderMalformed', '<Region>eu-north-1</Region>'),
      'region',
      /region=eu-north-1/,
    ],
  ])('explains the answer %i of another region', async (status, headers, body, field, message) => {
    const proxy = await place.weather()
    proxy.answer = () => ({ status, headers: headers as Record<string, string>, body })
    const error = await place.opened({ endpoint: proxy.endpoint }).catch((cause: unknown) => cause)
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', detail: { field } })
    expect((error as Error).message).toMatch(message)
  })

  it('cannot be opened where nobody listens', async () => {
    await expect(place.opened({ endpoint: 'http://127.0.0.1:1' })).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
  })
})

it('a close does not wait for a listing that hangs', needsS3Server(), async () => {
  const proxy = await place.weather()
  const clock = new ManualClock(0, Date.now())
  const adapter = await place.opened({ endpoint: proxy.endpoint, relistMs: 60_000 }, clock)
  const before = proxy.seen.length
  proxy.answer = () => 'hang'
  clock.advance(60_000)
  await until('a listing', () => (proxy.seen.length > before ? true : undefined))
  await adapter.close()
  expect(proxy.seen).toHaveLength(before + 1)
})

it('a close does not wait for a sweep of old uploads that hangs', needsS3Server(), async () => {
  const proxy = await place.weather()
  const clock = new ManualClock(0, Date.now())
  const adapter = await place.opened({ endpoint: proxy.endpoint, relistMs: 60_000 }, clock)
  const before = proxy.seen.length
  const isSweep = (path: string) => path.includes('uploads=')
  proxy.answer = ({ path }) => (isSweep(path) ? 'hang' : undefined)
  clock.advance(60_000)
  await until('a sweep', () => (proxy.seen.slice(before).some(({ path }) => isSweep(path)) ? true : undefined))
  await adapter.close()
  expect(proxy.seen.filter(({ path }) => isSweep(path))).toHaveLength(2) // of the opening, and this one
})
