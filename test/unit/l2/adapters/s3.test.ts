import { readdirSync, readFileSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import {
  AbortMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { OUTCOME_FAILED, OUTCOME_FULL, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../../../src/l2/adapter.ts'
import { ObjectNames } from '../../../../src/l2/adapters/s3/object-names.ts'
import { keyWords } from '../../../../src/l2/key-words.ts'
import { HEADER_BYTES, RecordFormat } from '../../../../src/l2/object-format.ts'
import { spaceDigest } from '../../../../src/l2/space-table.ts'
import {
  chainBatch,
  loadChain,
  lookupChain,
  NEVER,
  payloadOf,
  payloads,
  SPACE,
  storeChain,
} from '../../../support/l2-objects.ts'
import { useS3Place } from '../../../support/s3-place.ts'
import { BUCKET, needsS3Server } from '../../../support/s3-server.ts'
import { errorDocument, type SeenRequest } from '../../../support/s3-weather.ts'
import { until } from '../../../support/until.ts'

const OBJECT_BYTES = HEADER_BYTES + SPACE.shardBytes
const MIB = 1024 * 1024
/** An object of three parts. */
const PARTED = { ...SPACE, shardBytes: 12 * MIB }
const PART = { partBytes: 5 * MIB }

const place = useS3Place()
let sdk: S3Client

beforeAll(() => {
  if (needsS3Server().skip) return
  const { endpoint, region, accessKey, secretKey } = place.server.options()
  const credentials = { accessKeyId: accessKey, secretAccessKey: secretKey }
  sdk = new S3Client({ endpoint, region, credentials, forcePathStyle: true })
})

afterAll(() => sdk?.destroy())

/** The name of chunk `index` of a chain. */
function nameOf(chain: number, index: number, space = SPACE): string {
  const { hashes, parents } = chainBatch(space, chain, index, index + 1)
  return new ObjectNames(place.prefix).objectOf(spaceDigest(space), keyWords(hashes), keyWords(parents))
}

function recordOf(chain: number, index: number, space = SPACE): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  const payload = payloadOf(chain, index, space.shardBytes)
  new RecordFormat(space).encode(chainBatch(space, chain, index, index + 1), 0, payload, header)
  return Buffer.concat([header, payload])
}

async function readBySdk(key: string): Promise<Buffer> {
  const { Body } = await sdk.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }))
  return Buffer.from(await Body!.transformToByteArray())
}

async function uploadsLeft(): Promise<number> {
  const { Uploads = [] } = await sdk.send(new ListMultipartUploadsCommand({ Bucket: BUCKET, Prefix: place.prefix }))
  return Uploads.length
}

describe('the s3 adapter and the AWS SDK', needsS3Server(), () => {
  it('writes objects that the SDK reads: the record and nothing else', async () => {
    const adapter = await place.opened()
    await storeChain(adapter, 1, 0, 2)
    expect((await readBySdk(nameOf(1, 1))).equals(recordOf(1, 1))).toBe(true)
    const head = await sdk.send(new HeadObjectCommand({ Bucket: BUCKET, Key: nameOf(1, 0) }))
    expect(head.ContentLength).toBe(OBJECT_BYTES)
  })

  it('writes objects in parts that the SDK reads as one, and leaves no upload behind', async () => {
    const adapter = await place.opened(PART)
    expect(await storeChain(adapter, 1, 0, 2, PARTED)).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect((await readBySdk(nameOf(1, 1, PARTED))).equals(recordOf(1, 1, PARTED))).toBe(true)
    const head = await sdk.send(new HeadObjectCommand({ Bucket: BUCKET, Key: nameOf(1, 0, PARTED), PartNumber: 1 }))
    expect(head.ETag).toMatch(/-3"$/)
    expect(await uploadsLeft()).toBe(0)
    expect(await loadChain(adapter, 1, 0, 2, PARTED)).toEqual([OUTCOME_OK, OUTCOME_OK])
  })

  it('reads objects that the SDK wrote, after a listing', async () => {
    const adapter = await place.opened()
    await storeChain(adapter, 1, 0, 1)
    const put = { Bucket: BUCKET, Key: nameOf(1, 1), Body: recordOf(1, 1) }
    await sdk.send(new PutObjectCommand(put))
    expect(await lookupChain(adapter, 1, 0, 2)).toEqual([1, 0])
    await adapter.relist(NEVER)
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
  })

  it('leaves alone what is not its own', async () => {
    await sdk.send(new PutObjectCommand({ Bucket: BUCKET, Key: `${place.prefix}objects/notes.txt`, Body: 'mine' }))
    await sdk.send(new PutObjectCommand({ Bucket: BUCKET, Key: `${place.prefix}spaces/x.json`, Body: '{' }))
    const adapter = await place.opened()
    await storeChain(adapter, 1, 0, 1)
    expect(await adapter.clear({}, NEVER)).toBe(1)
    expect((await readBySdk(`${place.prefix}objects/notes.txt`)).toString()).toBe('mine')
  })
})

describe('an upload in parts', needsS3Server(), () => {
  it('is dropped when a part fails, and the object is not there', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ ...PART, endpoint: proxy.endpoint })
    proxy.answer = ({ path }) =>
      path.includes('partNumber=2') ? { status: 400, body: errorDocument('Odd') } : undefined
    await expect(storeChain(adapter, 1, 0, 1, PARTED)).rejects.toThrow(/upload of a part failed \(Odd/)
    await adapter.close()
    expect(await uploadsLeft()).toBe(0)
    const again = await place.opened(PART)
    expect(again.usage().objects).toBe(0)
  })

  it('is dropped when the batch is given up', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ ...PART, endpoint: proxy.endpoint })
    proxy.answer = ({ path }) => (path.includes('partNumber=3') ? 'hang' : undefined)
    const abort = new AbortController()
    const storing = adapter.store(
      chainBatch(PARTED, 1, 0, 1),
      payloads(1, 0, 1, PARTED.shardBytes),
      new Uint8Array(1),
      abort.signal,
    )
    const has = (requests: readonly SeenRequest[], part: number) =>
      requests.some(({ path }) => path.includes(`partNumber=${part}`))
    await until('two parts, and a third one under way', () =>
      has(proxy.answered, 1) && has(proxy.answered, 2) && has(proxy.seen, 3) ? true : undefined,
    )
    abort.abort()
    await expect(storing).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    await adapter.close()
    expect(await uploadsLeft()).toBe(0)
  })

  it('is dropped once more when the server still has it after it was dropped', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ ...PART, endpoint: proxy.endpoint })
    let drops = 0
    proxy.answer = ({ method, path }) => {
      if (path.includes('partNumber=2')) return { status: 400, body: errorDocument('Odd') }
      if (method === 'DELETE') drops += 1
      return method === 'DELETE' && drops <= 2 ? { status: 204 } : undefined // a part came in after each
    }
    await expect(storeChain(adapter, 1, 0, 1, PARTED)).rejects.toThrow(/Odd/)
    await adapter.close()
    expect(await uploadsLeft()).toBe(0)
    expect(drops).toBe(3)
  })

  it('counts as done when only the answer to its end was lost', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ ...PART, endpoint: proxy.endpoint })
    let ends = 0
    proxy.answer = ({ method, path }) => {
      if (method !== 'POST' || !path.includes('uploadId=')) return undefined
      ends += 1
      return ends === 1 ? 'lose' : undefined
    }
    expect(await storeChain(adapter, 1, 0, 1, PARTED)).toEqual([OUTCOME_OK])
    expect(ends).toBe(2)
    expect(await loadChain(adapter, 1, 0, 1, PARTED)).toEqual([OUTCOME_OK])
  })

  it('counts as failed when its end goes wrong although the status says otherwise', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ ...PART, endpoint: proxy.endpoint })
    proxy.answer = ({ method, path }) =>
      method === 'POST' && path.includes('uploadId=')
        ? { status: 200, body: errorDocument('InternalError') }
        : undefined
    await expect(storeChain(adapter, 1, 0, 1, PARTED)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    expect(await lookupChain(adapter, 1, 0, 1, PARTED)).toEqual([0])
    await adapter.close()
    expect(await uploadsLeft()).toBe(0)
  })

  it('of a crashed engine is swept at an opening, when it is old enough', async () => {
    const Key = nameOf(1, 0)
    const { UploadId } = await sdk.send(new CreateMultipartUploadCommand({ Bucket: BUCKET, Key }))
    await place.opened()
    expect(await uploadsLeft()).toBe(1)
    // A clock three hours ahead of the server would not pass its check: the upload is that much older instead.
    const proxy = await place.weather()
    const startedAt = new Date(Date.now() - 3 * 3_600_000).toISOString()
    const entry = `<Upload><Key>${Key}</Key><UploadId>${UploadId}</UploadId><Initiated>${startedAt}</Initiated></Upload>`
    const body = `<ListMultipartUploadsResult>${entry}</ListMultipartUploadsResult>`
    proxy.answer = ({ path }) => (path.includes('uploads=') ? { status: 200, body } : undefined)
    await place.opened({ endpoint: proxy.endpoint })
    expect(await uploadsLeft()).toBe(0)
    await sdk.send(new AbortMultipartUploadCommand({ Bucket: BUCKET, Key, UploadId })).catch(() => undefined)
  })
})

describe('an s3 adapter that is opened again', needsS3Server(), () => {
  it('holds what it held, with the parents', async () => {
    const first = await place.opened()
    await storeChain(first, 1, 0, 4)
    await storeChain(first, 2, 0, 2, { ...SPACE, salt: 'it is "mine"' })
    const { bytes, objects } = first.usage()
    await first.close()
    const hourAgo = Date.now() / 1000 - 3600 // listings tell times in whole seconds
    for (const index of [0, 1, 2, 3]) utimesSync(join(place.server.files, nameOf(1, index)), hourAgo, hourAgo)
    const second = await place.opened({ capacityBytes: 5 * OBJECT_BYTES })
    expect(second.usage()).toMatchObject({ bytes: bytes - OBJECT_BYTES, objects: objects - 1, evictedObjects: 1 })
    // The oldest leaf went: the end of the first chain, never one of its parents.
    expect(await lookupChain(second, 1, 0, 4)).toEqual([1, 1, 1, 0])
    expect(await loadChain(second, 2, 0, 2, { ...SPACE, salt: 'it is "mine"' })).toEqual([OUTCOME_OK, OUTCOME_OK])
    second.verify()
  })

  it('knows a space whose description is lost by any of its objects', async () => {
    const first = await place.opened()
    await storeChain(first, 1, 0, 2)
    await first.close()
    const spaces = `${place.server.files}/${place.prefix}spaces`
    const [name] = readdirSync(spaces)
    expect(JSON.parse(readFileSync(`${spaces}/${name}`, 'utf8'))).toEqual(SPACE)
    const proxy = await place.weather()
    proxy.answer = ({ method, path }) =>
      method === 'GET' && path.includes('/spaces/') ? { status: 404, body: errorDocument('NoSuchKey') } : undefined
    const second = await place.opened({ endpoint: proxy.endpoint })
    expect(await loadChain(second, 1, 0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
  })

  it('reads listings of many pages', async () => {
    const proxy = await place.weather()
    const first = await place.opened({ parallelism: 32 })
    for (let chain = 0; chain < 11; chain += 1) await storeChain(first, chain, 0, 100, { ...SPACE, shardBytes: 16 })
    await first.close()
    const second = await place.opened({ endpoint: proxy.endpoint })
    expect(second.usage().objects).toBe(1100)
    expect(proxy.seen.filter(({ path }) => path.includes('continuation-token'))).toHaveLength(1)
    expect(await second.clear({}, NEVER)).toBe(1100)
    expect(proxy.seen.filter(({ path }) => path.includes('delete='))).toHaveLength(2)
    await second.relist(NEVER)
    expect(second.usage().objects).toBe(0)
  })
})

describe('several s3 adapters on one prefix', needsS3Server(), () => {
  it('see what the others stored and removed after a listing', async () => {
    const [one, other] = [await place.opened(), await place.opened()]
    await storeChain(one, 1, 0, 3)
    expect(await lookupChain(other, 1, 0, 3)).toEqual([0, 0, 0])
    await other.relist(NEVER)
    expect(await loadChain(other, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
    await one.remove(chainBatch(SPACE, 1, 2, 3), NEVER)
    expect(await lookupChain(other, 1, 0, 3)).toEqual([1, 1, 1])
    expect(await loadChain(other, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_NOT_FOUND])
    await one.remove(chainBatch(SPACE, 1, 1, 2), NEVER)
    await other.relist(NEVER)
    expect(await lookupChain(other, 1, 0, 3)).toEqual([1, 0, 0])
    other.verify()
  })

  it('see it at once when they ask for each key, and ask for no child of what is absent', async () => {
    const proxy = await place.weather()
    const one = await place.opened()
    const other = await place.opened({ endpoint: proxy.endpoint, lookup: 'head', parallelism: 1 })
    await storeChain(one, 1, 0, 2)
    const before = proxy.seen.length
    expect(await lookupChain(other, 1, 0, 6)).toEqual([1, 1, 0, 0, 0, 0])
    expect(proxy.seen).toHaveLength(before + 3)
    expect(await loadChain(other, 1, 0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(other.usage().objects).toBe(2)
    const outcomes = new Uint8Array(2)
    await storeChain(one, 3, 0, 2)
    expect(await other.store(chainBatch(SPACE, 3, 0, 2), payloads(3, 0, 2), outcomes, NEVER)).toBe(0)
    expect([...outcomes]).toEqual([OUTCOME_OK, OUTCOME_OK])
  })

  it('list by themselves as often as they are told', async () => {
    const clock = new ManualClock(0, Date.now())
    const [one, other] = [await place.opened(), await place.opened({ relistMs: 60_000 }, clock)]
    await storeChain(one, 1, 0, 2)
    for (let minute = 1; minute <= 2; minute += 1) {
      clock.advance(60_000)
      await until('a listing', () => (other.usage().objects === 2 * minute ? true : undefined))
      await until('the next one', () => (clock.nextDueMs() === (minute + 1) * 60_000 ? true : undefined))
      await storeChain(one, 1 + minute, 0, 2)
    }
  })
})

describe('an s3 adapter with a capacity', needsS3Server(), () => {
  it('evicts for a whole batch with one request', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint, capacityBytes: 8 * OBJECT_BYTES })
    await storeChain(adapter, 1, 0, 8)
    const before = proxy.seen.length
    expect(await storeChain(adapter, 2, 0, 6)).toEqual(Array(6).fill(OUTCOME_OK))
    expect(proxy.seen.slice(before).filter(({ path }) => path.includes('delete='))).toHaveLength(1)
    expect(await lookupChain(adapter, 1, 0, 8)).toEqual([1, 1, 0, 0, 0, 0, 0, 0])
    expect(adapter.usage()).toMatchObject({ objects: 8, evictedObjects: 6 })
    adapter.verify()
  })

  it('holds on to what it could not delete, and is full meanwhile', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint, capacityBytes: 4 * OBJECT_BYTES })
    await storeChain(adapter, 1, 0, 4)
    proxy.answer = ({ method }) =>
      method === 'DELETE' || method === 'POST' ? { status: 403, body: errorDocument('AccessDenied') } : undefined
    expect(await storeChain(adapter, 2, 0, 2)).toEqual([OUTCOME_FULL, OUTCOME_FULL])
    expect(adapter.usage()).toMatchObject({ objects: 4, evictedObjects: 0 })
    expect(await loadChain(adapter, 1, 0, 4)).toEqual(Array(4).fill(OUTCOME_OK))
    adapter.verify()
    proxy.answer = () => undefined
    expect(await storeChain(adapter, 2, 0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(adapter.usage()).toMatchObject({ objects: 4, evictedObjects: 2 })
  })

  it('deletes one by one where the service cannot do many', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint })
    await storeChain(adapter, 1, 0, 4)
    proxy.answer = ({ method }) =>
      method === 'POST' ? { status: 501, body: errorDocument('NotImplemented') } : undefined
    expect(await adapter.remove(chainBatch(SPACE, 1, 1, 4), NEVER)).toBe(3)
    await adapter.relist(NEVER)
    expect(adapter.usage().objects).toBe(1)
  })

  it('reports the objects of a batch that were not begun as failed when it is given up', async () => {
    const proxy = await place.weather()
    const adapter = await place.opened({ endpoint: proxy.endpoint, parallelism: 1 })
    await storeChain(adapter, 9, 0, 1)
    const abort = new AbortController()
    const before = proxy.seen.length
    proxy.answer = ({ number }) => {
      if (number < before + 2) return undefined
      abort.abort()
      return 'hang'
    }
    const outcomes = new Uint8Array(4)
    const bytes = await adapter.store(chainBatch(SPACE, 1, 0, 4), payloads(1, 0, 4), outcomes, abort.signal)
    expect(bytes).toBe(SPACE.shardBytes)
    expect([...outcomes]).toEqual([OUTCOME_OK, OUTCOME_FAILED, OUTCOME_FAILED, OUTCOME_FAILED])
    adapter.verify()
    proxy.answer = () => undefined
    expect(await storeChain(adapter, 1, 0, 4)).toEqual(Array(4).fill(OUTCOME_OK))
  })
})
