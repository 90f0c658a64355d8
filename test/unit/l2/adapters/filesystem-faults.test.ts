import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { OUTCOME_FAILED, OUTCOME_FULL, OUTCOME_OK } from '../../../../src/l2/adapter.ts'
import { HEADER_BYTES } from '../../../../src/l2/object-format.ts'
import type { DiskFault } from '../../../support/fault-disk.ts'
import { useL2Directory } from '../../../support/l2-directory.ts'
import {
  bytesOf,
  chainBatch,
  filesBelow,
  loadChain,
  lookupChain,
  objectFiles,
  payloads,
  SPACE,
  storeChain,
} from '../../../support/l2-objects.ts'
import { random } from '../../../support/random.ts'

const OBJECT_BYTES = HEADER_BYTES + SPACE.shardBytes
const OK = OUTCOME_OK

const directory = useL2Directory()

describe('a failing disk', () => {
  const failing = (call: string, code: string, when: (path: string) => boolean): DiskFault => {
    return (name, path) => (name === call && when(path) ? code : undefined)
  }
  const inTmp = (path: string) => path.startsWith(join(directory.path, 'tmp'))

  it.each([
    ['open', 'ENOSPC', OUTCOME_FULL],
    ['writev', 'ENOSPC', OUTCOME_FULL],
    ['writev', 'EDQUOT', OUTCOME_FULL],
    ['writev', 'EIO', OUTCOME_FAILED],
    ['datasync', 'EIO', OUTCOME_FAILED],
    ['datasync', 'ENOSPC', OUTCOME_FULL],
    ['rename', 'EIO', OUTCOME_FAILED],
  ])('leaves nothing behind when %s says %s', async (call, code, outcome) => {
    let isFailing = false
    const adapter = await directory.open({}, (name, path) =>
      isFailing && name === call && inTmp(path) ? code : undefined,
    )
    await storeChain(adapter, 1, 0, 1)
    isFailing = true
    expect(await storeChain(adapter, 1, 1, 4)).toEqual([outcome, outcome, outcome])
    expect(filesBelow(join(directory.path, 'tmp'))).toEqual([])
    expect(await lookupChain(adapter, 1, 0, 4)).toEqual([1, 0, 0, 0])
    directory.expectExactUsage(adapter)
    isFailing = false
    expect(await storeChain(adapter, 1, 1, 4)).toEqual([OK, OK, OK])
  })

  it('fails one key of a batch alone', async () => {
    let writes = 0
    const adapter = await directory.open({ parallelism: 1 }, (name, path) => {
      if (name !== 'writev' || !inTmp(path)) return undefined
      writes += 1
      return writes === 3 ? 'EIO' : undefined // the first one describes the space
    })
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OK, OUTCOME_FAILED, OK])
  })

  it('does not report as stored what could not be forced to the disk', async () => {
    const adapter = await directory.open(
      {},
      failing('sync', 'EIO', (path) => /objects\/\w+\/\w\/\w$/.test(path)),
    )
    expect(await storeChain(adapter, 1, 0, 1)).toEqual([OUTCOME_FAILED])
    directory.expectExactUsage(adapter)
  })

  it('is full, and loses nothing, when it cannot evict', async () => {
    const adapter = await directory.open({ capacityBytes: 2 * OBJECT_BYTES }, (name, path) => {
      const isEviction = name === 'unlink' || (name === 'rename' && !inTmp(path))
      return isEviction ? 'EIO' : undefined
    })
    await storeChain(adapter, 1, 0, 2)
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OUTCOME_FULL])
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OK, OK])
    directory.expectExactUsage(adapter)
  })

  it.each([
    ['open', 'EIO'],
    ['stat', 'EIO'],
    ['writev', 'EIO'],
    ['datasync', 'EIO'],
    ['rename', 'EIO'],
  ])('leaves nothing of an evicted object whose file was to be written over when %s says %s', async (call, code) => {
    let isFailing = false
    const adapter = await directory.open({ capacityBytes: 2 * OBJECT_BYTES }, (name, path) =>
      isFailing && name === call && inTmp(path) ? code : undefined,
    )
    await storeChain(adapter, 1, 0, 2)
    isFailing = true
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OUTCOME_FAILED])
    expect(filesBelow(join(directory.path, 'tmp'))).toEqual([])
    expect(await lookupChain(adapter, 1, 0, 2)).toEqual([1, 0])
    directory.expectExactUsage(adapter)
    isFailing = false
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OK])
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OK])
  })

  it('fails a load, and keeps the object, when a read says EIO', async () => {
    let isFailing = true
    const adapter = await directory.open({}, (name) => (isFailing && name === 'readv' ? 'EIO' : undefined))
    await storeChain(adapter, 1, 0, 1)
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_FAILED])
    isFailing = false
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OK])
  })

  it('goes on without a manifest that cannot be written', async () => {
    const adapter = await directory.open(
      {},
      failing('appendFile', 'ENOSPC', (path) => path.includes('manifest')),
    )
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OK, OK, OK])
    const again = await directory.reopen()
    expect(await loadChain(again, 1, 0, 3)).toEqual([OK, OK, OK])
    directory.expectExactUsage(again)
  })
})

describe('room', () => {
  it.each([1, 2, 3])('never takes more of the disk than the capacity, at any call (seed %i)', async (seed) => {
    const capacityBytes = 7 * OBJECT_BYTES + 100
    let most = 0
    const adapter = await directory.open({ capacityBytes, parallelism: 4 }, (name) => {
      if (name !== 'rename' && name !== 'datasync') return undefined
      // By inode: a rename may happen between the two looks.
      const halfWritten = filesBelow(join(directory.path, 'tmp')).filter(({ bytes }) => bytes >= HEADER_BYTES)
      const files = new Map([...halfWritten, ...objectFiles(directory.path)].map((file) => [file.inode, file]))
      most = Math.max(most, bytesOf([...files.values()]))
      return undefined
    })
    const next = random(seed)
    for (let step = 0; step < 40; step += 1) {
      const chains = [next(6), next(6)]
      await Promise.all(chains.map((chain) => storeChain(adapter, chain, 0, 1 + next(6))))
      await loadChain(adapter, next(6), 0, 3)
      directory.expectExactUsage(adapter)
    }
    expect(most).toBeLessThanOrEqual(capacityBytes)
    expect(most).toBeGreaterThan(capacityBytes - 2 * OBJECT_BYTES)
  })
})

describe('the file of an evicted object', () => {
  const inodes = () => objectFiles(directory.path).map(({ inode }) => inode)
  const SHORT = { ...SPACE, shardBytes: SPACE.shardBytes / 2 }

  it('is written over by an object of the same length', async () => {
    let unlinks = 0
    const adapter = await directory.open({ capacityBytes: 3 * OBJECT_BYTES }, (name) => {
      if (name === 'unlink') unlinks += 1
      return undefined
    })
    await storeChain(adapter, 1, 0, 3)
    const before = inodes()
    expect(await storeChain(adapter, 2, 0, 3)).toEqual([OK, OK, OK])
    expect(inodes().sort()).toEqual(before.sort())
    expect(unlinks).toBe(0)
    expect(await loadChain(adapter, 2, 0, 3)).toEqual([OK, OK, OK])
    expect(adapter.usage().evictedObjects).toBe(3)
    directory.expectExactUsage(adapter)
    const again = await directory.reopen({ capacityBytes: 3 * OBJECT_BYTES })
    expect(await loadChain(again, 2, 0, 3)).toEqual([OK, OK, OK])
  })

  it('is deleted where the object to be written has another length', async () => {
    const adapter = await directory.open({ capacityBytes: 2 * OBJECT_BYTES })
    await storeChain(adapter, 1, 0, 2)
    expect(await storeChain(adapter, 2, 0, 2, SHORT)).toEqual([OK, OK])
    expect(await loadChain(adapter, 2, 0, 2, SHORT)).toEqual([OK, OK])
    expect(filesBelow(join(directory.path, 'tmp'))).toEqual([])
    directory.expectExactUsage(adapter)
  })

  it('is deleted, not written over, while it is read', async () => {
    const reading = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    let unlinks = 0
    const adapter = await directory.open({ capacityBytes: OBJECT_BYTES }, async (name) => {
      if (name === 'unlink') unlinks += 1
      if (name !== 'readv') return undefined
      reading.resolve()
      await goOn.promise
      return undefined
    })
    await storeChain(adapter, 1, 0, 1)
    const load = loadChain(adapter, 1, 0, 1)
    await reading.promise
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OK])
    goOn.resolve()
    expect(await load).toEqual([OK])
    expect(unlinks).toBe(1)
    expect(adapter.usage().checksumFailures).toBe(0)
    directory.expectExactUsage(adapter)
  })
})

describe('an abort', () => {
  it('is honoured between objects', async () => {
    const abort = new AbortController()
    let renames = 0
    const adapter = await directory.open({ parallelism: 1 }, (name, path) => {
      if (name !== 'rename' || !path.startsWith(join(directory.path, 'tmp'))) return undefined
      renames += 1
      if (renames === 3) abort.abort() // description, object 0, object 1
      return undefined
    })
    const outcomes = new Uint8Array(4)
    await adapter.store(chainBatch(SPACE, 1, 0, 4), payloads(1, 0, 4), outcomes, abort.signal)
    expect([...outcomes]).toEqual([OK, OK, OUTCOME_FAILED, OUTCOME_FAILED])
    directory.expectExactUsage(adapter)
  })
})
