import { createHash } from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SystemClock } from '../../../../src/core/clock.ts'
import {
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_FULL,
  OUTCOME_NOT_FOUND,
  OUTCOME_OK,
} from '../../../../src/l2/adapter.ts'
import { FilesystemAdapter } from '../../../../src/l2/adapters/filesystem.ts'
import type { Disk } from '../../../../src/l2/adapters/manifest.ts'
import { HEADER_BYTES } from '../../../../src/l2/object-format.ts'
import { FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../../../../src/l2/options.ts'
import { lockFile } from '../../../../src/native/file-lock.ts'
import { type DiskFault, faultDisk } from '../../../support/fault-disk.ts'
import {
  bytesOf,
  chainBatch,
  filesBelow,
  hashOf,
  loadChain,
  lookupChain,
  NEVER,
  objectFiles,
  payloads,
  SPACE,
  storeChain,
  temporaryDirectory,
} from '../../../support/l2-objects.ts'
import { random } from '../../../support/random.ts'

const OBJECT_BYTES = HEADER_BYTES + SPACE.shardBytes
const OK = OUTCOME_OK

let directory: string
const opened: FilesystemAdapter[] = []
let removeDirectory: () => void

beforeEach(() => {
  const made = temporaryDirectory()
  directory = made.path
  removeDirectory = made.remove
})

afterEach(async () => {
  for (const adapter of opened.splice(0)) await adapter.close()
  removeDirectory()
})

function make(options: Partial<FilesystemAdapterOptions> = {}, disk?: Disk): FilesystemAdapter {
  const adapter = new FilesystemAdapter(
    { ...FILESYSTEM_DEFAULT, directory, ...options },
    { clock: new SystemClock(), lock: lockFile, ...(disk === undefined ? {} : { disk }) },
  )
  opened.push(adapter)
  return adapter
}

async function open(options: Partial<FilesystemAdapterOptions> = {}, fault?: DiskFault): Promise<FilesystemAdapter> {
  const adapter = make(options, fault === undefined ? undefined : faultDisk(fault))
  await adapter.open()
  return adapter
}

async function reopen(options: Partial<FilesystemAdapterOptions> = {}): Promise<FilesystemAdapter> {
  for (const adapter of opened.splice(0)) await adapter.close()
  return open(options)
}

function fileOf(chain: number, index: number): string {
  const name = Buffer.from(hashOf(chain, index)).toString('hex')
  return objectFiles(directory).find(({ path }) => path.endsWith(name))!.path
}

function expectExactUsage(adapter: FilesystemAdapter): void {
  const files = objectFiles(directory)
  expect(adapter.usage()).toMatchObject({ bytes: bytesOf(files), objects: files.length })
  adapter.verify()
}

describe('after a restart', () => {
  it('knows its usage and serves what was stored', async () => {
    await storeChain(await open(), 1, 0, 5)
    const adapter = await reopen()
    expect(adapter.usage()).toMatchObject({ objects: 5, bytes: 5 * OBJECT_BYTES })
    expect(await loadChain(adapter, 1, 0, 5)).toEqual(Array(5).fill(OK))
  })

  it.each([
    ['lost', (path: string) => rmSync(path)],
    ['empty', (path: string) => truncateSync(path, 0)],
    ['torn', (path: string) => truncateSync(path, readFileSync(path).length - 50)],
    [
      'garbled',
      (path: string) =>
        writeFileSync(
          path,
          readFileSync(path).map((byte, at) => (at % 97 === 0 ? 0x58 : byte)),
        ),
    ],
  ])('loses nothing when its manifest is %s, and still knows who is whose parent', async (_how, spoil) => {
    await storeChain(await open(), 1, 0, 4)
    await storeChain(opened[0]!, 2, 0, 2)
    await opened[0]!.close()
    spoil(join(directory, 'manifest'))
    const adapter = await reopen({ capacityBytes: 6 * OBJECT_BYTES })
    expectExactUsage(adapter)
    expect(await loadChain(adapter, 1, 0, 4)).toEqual([OK, OK, OK, OK])
    await storeChain(adapter, 3, 0, 1)
    expect(await lookupChain(adapter, 2, 0, 2)).toEqual([1, 0])
  })

  it('takes in objects that the manifest does not know, and drops those without a file', async () => {
    await storeChain(await open(), 1, 0, 3)
    await opened[0]!.close()
    const manifest = readFileSync(join(directory, 'manifest'))
    await storeChain(await reopen(), 1, 3, 4)
    await opened[0]!.close()
    writeFileSync(join(directory, 'manifest'), manifest)
    rmSync(fileOf(1, 1))
    const adapter = await reopen()
    expect(await lookupChain(adapter, 1, 0, 4)).toEqual([1, 0, 1, 1])
    expectExactUsage(adapter)
  })

  it('deletes half-written files, and leaves alone and uncounted what is not its own', async () => {
    await storeChain(await open(), 1, 0, 1)
    const leaf = join(fileOf(1, 0), '..')
    writeFileSync(join(directory, 'tmp', '17'), 'half')
    writeFileSync(join(leaf, 'notes.txt'), 'mine')
    mkdirSync(join(directory, 'objects', 'somebody'))
    const adapter = await reopen()
    expect(filesBelow(join(directory, 'tmp'))).toEqual([])
    expect(readFileSync(join(leaf, 'notes.txt'), 'utf8')).toBe('mine')
    expect(adapter.unknownFiles).toBe(2)
    expect(adapter.usage()).toMatchObject({ objects: 1, bytes: OBJECT_BYTES })
  })

  it('quarantines files that are no whole objects', async () => {
    await storeChain(await open(), 1, 0, 3)
    const [first, second] = [fileOf(1, 0), fileOf(1, 1)]
    await opened[0]!.close()
    truncateSync(first, 5000)
    copyFileSync(fileOf(1, 2), second)
    rmSync(join(directory, 'manifest'))
    const adapter = await reopen()
    expect(await lookupChain(adapter, 1, 0, 3)).toEqual([0, 0, 1])
    expect(adapter.quarantinedFiles).toBe(2)
    expectExactUsage(adapter)
  })

  it('knows a space again whose description is lost', async () => {
    await storeChain(await open(), 1, 0, 2)
    await opened[0]!.close()
    for (const { path } of filesBelow(join(directory, 'objects'))) if (path.endsWith('space.json')) rmSync(path)
    const adapter = await reopen()
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OK, OK])
    expect(await adapter.clear({ model: SPACE.model }, NEVER)).toBe(2)
  })

  it('remembers roughly what was used last', async () => {
    await storeChain(await open(), 1, 0, 1)
    await storeChain(opened[0]!, 2, 0, 1)
    await opened[0]!.close()
    utimesSync(fileOf(2, 0), 1000, 1000)
    const adapter = await reopen({ capacityBytes: 2 * OBJECT_BYTES })
    await storeChain(adapter, 3, 0, 1)
    expect([await lookupChain(adapter, 1, 0, 1), await lookupChain(adapter, 2, 0, 1)]).toEqual([[1], [0]])
  })

  it('notes a load of a file that was long unused', async () => {
    await storeChain(await open(), 1, 0, 1)
    await opened[0]!.close()
    utimesSync(fileOf(1, 0), 1000, 1000)
    await loadChain(await reopen(), 1, 0, 1)
    const adapter = await reopen({ capacityBytes: OBJECT_BYTES })
    await storeChain(adapter, 2, 0, 1)
    expect(adapter.usage().evictedObjects).toBe(1)
  })

  it('evicts down to a capacity that was lowered', async () => {
    await storeChain(await open(), 1, 0, 5)
    const adapter = await reopen({ capacityBytes: 2 * OBJECT_BYTES })
    expect(await lookupChain(adapter, 1, 0, 5)).toEqual([1, 1, 0, 0, 0])
    expectExactUsage(adapter)
  })
})

describe('a record that changed on the disk', () => {
  it.each([
    ['a bit of the header', (path: string) => flip(path, 40)],
    ['a bit of the payload', (path: string) => flip(path, HEADER_BYTES + 500)],
    ['a missing byte', (path: string) => truncateSync(path, OBJECT_BYTES - 1)],
    ['a byte too many', (path: string) => appendFileSync(path, 'x')],
    ['no bytes', (path: string) => truncateSync(path, 0)],
    ['the record of another chunk', (path: string) => copyFileSync(fileOf(1, 0), path)],
  ])('is corrupt for %s, put aside, counted, and can be stored again', async (_what, change) => {
    const adapter = await open()
    await storeChain(adapter, 1, 0, 2)
    change(fileOf(1, 1))
    expect(await loadChain(adapter, 1, 0, 3)).toEqual([OK, OUTCOME_CORRUPT, OUTCOME_NOT_FOUND])
    expect(adapter.usage()).toMatchObject({ objects: 1, checksumFailures: 1 })
    expect(adapter.quarantinedFiles).toBe(1)
    expectExactUsage(adapter)
    expect(await storeChain(adapter, 1, 1, 2)).toEqual([OK])
    expect(await loadChain(adapter, 1, 1, 2)).toEqual([OK])
  })

  it('is kept for a look only up to the bound', async () => {
    const adapter = await open({ quarantineFiles: 2 })
    await storeChain(adapter, 1, 0, 5)
    for (let index = 0; index < 5; index += 1) flip(fileOf(1, index), 5000)
    expect(await loadChain(adapter, 1, 0, 5)).toEqual(Array(5).fill(OUTCOME_CORRUPT))
    expect(filesBelow(join(directory, 'quarantine'))).toHaveLength(2)
    expect((await reopen({ quarantineFiles: 0 })).quarantinedFiles).toBe(0)
  })

  it('is not found when somebody deleted it', async () => {
    const adapter = await open()
    await storeChain(adapter, 1, 0, 2)
    rmSync(fileOf(1, 1))
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OK, OUTCOME_NOT_FOUND])
    expectExactUsage(adapter)
  })
})

describe('hostile names', () => {
  it.each(['../../../../escape', '/etc/passwd', '.', 'a\0b', '\ud800', 'x'.repeat(256), 'ä/…', "';--"])(
    'keep every file inside the directory (model %j)',
    async (model) => {
      const inner = join(directory, 'deep', 'inner')
      const adapter = await open({ directory: inner })
      const space = { ...SPACE, model, salt: model.slice(0, 128) }
      expect(await storeChain(adapter, 1, 0, 2, space)).toEqual([OK, OK])
      expect(await loadChain(adapter, 1, 0, 2, space)).toEqual([OK, OK])
      expect(filesBelow(directory).every(({ path }) => path.startsWith(inner))).toBe(true)
      await adapter.close()
      const again = await open({ directory: inner })
      expect(await loadChain(again, 1, 0, 2, space)).toEqual([OK, OK])
    },
  )
})

describe('a failing disk', () => {
  const failing = (call: string, code: string, when: (path: string) => boolean): DiskFault => {
    return (name, path) => (name === call && when(path) ? code : undefined)
  }
  const inTmp = (path: string) => path.startsWith(join(directory, 'tmp'))

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
    const adapter = await open({}, (name, path) => (isFailing && name === call && inTmp(path) ? code : undefined))
    await storeChain(adapter, 1, 0, 1)
    isFailing = true
    expect(await storeChain(adapter, 1, 1, 4)).toEqual([outcome, outcome, outcome])
    expect(filesBelow(join(directory, 'tmp'))).toEqual([])
    expect(await lookupChain(adapter, 1, 0, 4)).toEqual([1, 0, 0, 0])
    expectExactUsage(adapter)
    isFailing = false
    expect(await storeChain(adapter, 1, 1, 4)).toEqual([OK, OK, OK])
  })

  it('fails one key of a batch alone', async () => {
    let writes = 0
    const adapter = await open({ parallelism: 1 }, (name, path) => {
      if (name !== 'writev' || !inTmp(path)) return undefined
      writes += 1
      return writes === 3 ? 'EIO' : undefined // the first one describes the space
    })
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OK, OUTCOME_FAILED, OK])
  })

  it('does not report as stored what could not be forced to the disk', async () => {
    const adapter = await open(
      {},
      failing('sync', 'EIO', (path) => /objects\/\w+\/\w\/\w$/.test(path)),
    )
    expect(await storeChain(adapter, 1, 0, 1)).toEqual([OUTCOME_FAILED])
    expectExactUsage(adapter)
  })

  it('is full, and loses nothing, when it cannot evict', async () => {
    const adapter = await open(
      { capacityBytes: 2 * OBJECT_BYTES },
      failing('unlink', 'EIO', () => true),
    )
    await storeChain(adapter, 1, 0, 2)
    expect(await storeChain(adapter, 2, 0, 1)).toEqual([OUTCOME_FULL])
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OK, OK])
    expectExactUsage(adapter)
  })

  it('fails a load, and keeps the object, when a read says EIO', async () => {
    let isFailing = true
    const adapter = await open({}, (name) => (isFailing && name === 'readv' ? 'EIO' : undefined))
    await storeChain(adapter, 1, 0, 1)
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_FAILED])
    isFailing = false
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OK])
  })

  it('goes on without a manifest that cannot be written', async () => {
    const adapter = await open(
      {},
      failing('appendFile', 'ENOSPC', (path) => path.includes('manifest')),
    )
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OK, OK, OK])
    const again = await reopen()
    expect(await loadChain(again, 1, 0, 3)).toEqual([OK, OK, OK])
    expectExactUsage(again)
  })
})

describe('room', () => {
  it.each([1, 2, 3])('never takes more of the disk than the capacity, at any call (seed %i)', async (seed) => {
    const capacityBytes = 7 * OBJECT_BYTES + 100
    let most = 0
    const adapter = await open({ capacityBytes, parallelism: 4 }, (name) => {
      if (name !== 'rename' && name !== 'datasync') return undefined
      // By inode: a rename may happen between the two looks.
      const halfWritten = filesBelow(join(directory, 'tmp')).filter(({ bytes }) => bytes >= HEADER_BYTES)
      const files = new Map([...halfWritten, ...objectFiles(directory)].map((file) => [file.inode, file]))
      most = Math.max(most, bytesOf([...files.values()]))
      return undefined
    })
    const next = random(seed)
    for (let step = 0; step < 40; step += 1) {
      const chains = [next(6), next(6)]
      await Promise.all(chains.map((chain) => storeChain(adapter, chain, 0, 1 + next(6))))
      await loadChain(adapter, next(6), 0, 3)
      expectExactUsage(adapter)
    }
    expect(most).toBeLessThanOrEqual(capacityBytes)
    expect(most).toBeGreaterThan(capacityBytes - 2 * OBJECT_BYTES)
  })
})

describe('an abort', () => {
  it('is honoured between objects', async () => {
    const abort = new AbortController()
    let renames = 0
    const adapter = await open({ parallelism: 1 }, (name, path) => {
      if (name !== 'rename' || !path.startsWith(join(directory, 'tmp'))) return undefined
      renames += 1
      if (renames === 3) abort.abort() // description, object 0, object 1
      return undefined
    })
    const outcomes = new Uint8Array(4)
    await adapter.store(chainBatch(SPACE, 1, 0, 4), payloads(1, 0, 4), outcomes, abort.signal)
    expect([...outcomes]).toEqual([OK, OK, OUTCOME_FAILED, OUTCOME_FAILED])
    expectExactUsage(adapter)
  })
})

describe('the directory', () => {
  it('is held by one adapter at a time', async () => {
    const first = await open()
    await expect(open()).rejects.toMatchObject({
      code: 'DATA_DIR_LOCKED',
      message: expect.stringMatching(/^[^\n]+$/),
    })
    await first.close()
    await expect(open()).resolves.toBeDefined()
  })

  it('is refused in one line when it cannot be made', async () => {
    writeFileSync(join(directory, 'file'), '')
    await expect(open({ directory: join(directory, 'file', 'inner') })).rejects.toMatchObject({
      code: 'DATA_DIR_UNWRITABLE',
      message: expect.stringMatching(/^[^\n]*ENOTDIR[^\n]*$/),
    })
  })

  it('is let go of when it cannot be opened', async () => {
    await expect(open({}, (name) => (name === 'readdir' ? 'EIO' : undefined))).rejects.toMatchObject({
      code: 'DATA_DIR_UNWRITABLE',
    })
    await expect(open()).resolves.toBeDefined()
  })

  it('holds records that say what they are, under names made from hashes alone', async () => {
    await storeChain(await open(), 1, 0, 1)
    const hash = Buffer.from(hashOf(1, 0)).toString('hex')
    const digest = createHash('sha256')
      .update(JSON.stringify(['m', '', 1, 0, SPACE.shardBytes, SPACE.layout]), 'utf16le')
      .digest('hex')
      .slice(0, 32)
    expect(fileOf(1, 0)).toBe(join(directory, 'objects', digest, hash[0]!, hash[1]!, hash))
    expect(readFileSync(fileOf(1, 0)).toString('latin1', 0, 8)).toBe('KVTIEROB')
  })

  it('is written out before a close returns', async () => {
    const adapter = await open()
    const running = storeChain(adapter, 1, 0, 8)
    await adapter.close()
    expect(await running).toEqual(Array(8).fill(OK))
    renameSync(directory, `${directory}.moved`)
    renameSync(`${directory}.moved`, directory)
    expect(await loadChain(await open(), 1, 0, 8)).toEqual(Array(8).fill(OK))
  })
})

function flip(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes[at]! ^= 1
  writeFileSync(path, bytes)
}
