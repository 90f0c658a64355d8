import { createHash } from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { OUTCOME_CORRUPT, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../../../src/l2/adapter.ts'
import { HEADER_BYTES } from '../../../../src/l2/object-format.ts'
import { useL2Directory } from '../../../support/l2-directory.ts'
import {
  chainBatch,
  filesBelow,
  hashOf,
  loadChain,
  lookupChain,
  NEVER,
  SPACE,
  storeChain,
} from '../../../support/l2-objects.ts'

const OBJECT_BYTES = HEADER_BYTES + SPACE.shardBytes
const OK = OUTCOME_OK

const directory = useL2Directory()

describe('after a restart', () => {
  it('knows its usage and serves what was stored', async () => {
    await storeChain(await directory.open(), 1, 0, 5)
    const adapter = await directory.reopen()
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
    const before = await directory.open()
    await storeChain(before, 1, 0, 4)
    await storeChain(before, 2, 0, 2)
    await directory.close()
    spoil(join(directory.path, 'manifest'))
    const adapter = await directory.reopen({ capacityBytes: 6 * OBJECT_BYTES })
    directory.expectExactUsage(adapter)
    expect(await loadChain(adapter, 1, 0, 4)).toEqual([OK, OK, OK, OK])
    await storeChain(adapter, 3, 0, 1)
    expect(await lookupChain(adapter, 2, 0, 2)).toEqual([1, 0])
  })

  it('takes in objects that the manifest does not know, and drops those without a file', async () => {
    await storeChain(await directory.open(), 1, 0, 3)
    await directory.close()
    const manifest = readFileSync(join(directory.path, 'manifest'))
    await storeChain(await directory.reopen(), 1, 3, 4)
    await directory.close()
    writeFileSync(join(directory.path, 'manifest'), manifest)
    rmSync(directory.fileOf(1, 1))
    const adapter = await directory.reopen()
    expect(await lookupChain(adapter, 1, 0, 4)).toEqual([1, 0, 1, 1])
    directory.expectExactUsage(adapter)
  })

  it('deletes half-written files, and leaves alone and uncounted what is not its own', async () => {
    await storeChain(await directory.open(), 1, 0, 1)
    const leaf = join(directory.fileOf(1, 0), '..')
    writeFileSync(join(directory.path, 'tmp', '17'), 'half')
    writeFileSync(join(leaf, 'notes.txt'), 'mine')
    mkdirSync(join(directory.path, 'objects', 'somebody'))
    const adapter = await directory.reopen()
    expect(filesBelow(join(directory.path, 'tmp'))).toEqual([])
    expect(readFileSync(join(leaf, 'notes.txt'), 'utf8')).toBe('mine')
    expect(adapter.unknownFiles).toBe(2)
    expect(adapter.usage()).toMatchObject({ objects: 1, bytes: OBJECT_BYTES })
  })

  it('quarantines files that are no whole objects', async () => {
    await storeChain(await directory.open(), 1, 0, 3)
    const [first, second] = [directory.fileOf(1, 0), directory.fileOf(1, 1)]
    await directory.close()
    truncateSync(first, 5000)
    copyFileSync(directory.fileOf(1, 2), second)
    rmSync(join(directory.path, 'manifest'))
    const adapter = await directory.reopen()
    expect(await lookupChain(adapter, 1, 0, 3)).toEqual([0, 0, 1])
    expect(adapter.quarantinedFiles).toBe(2)
    directory.expectExactUsage(adapter)
  })

  it('knows a space again whose description is lost', async () => {
    await storeChain(await directory.open(), 1, 0, 2)
    await directory.close()
    for (const { path } of filesBelow(join(directory.path, 'objects'))) if (path.endsWith('space.json')) rmSync(path)
    const adapter = await directory.reopen()
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OK, OK])
    expect(await adapter.clear({ model: SPACE.model }, NEVER)).toBe(2)
  })

  it('remembers roughly what was used last', async () => {
    const before = await directory.open()
    await storeChain(before, 1, 0, 1)
    await storeChain(before, 2, 0, 1)
    await directory.close()
    utimesSync(directory.fileOf(2, 0), 1000, 1000)
    const adapter = await directory.reopen({ capacityBytes: 2 * OBJECT_BYTES })
    await storeChain(adapter, 3, 0, 1)
    expect([await lookupChain(adapter, 1, 0, 1), await lookupChain(adapter, 2, 0, 1)]).toEqual([[1], [0]])
  })

  it('notes a load of a file that was long unused', async () => {
    await storeChain(await directory.open(), 1, 0, 1)
    await directory.close()
    utimesSync(directory.fileOf(1, 0), 1000, 1000)
    await loadChain(await directory.reopen(), 1, 0, 1)
    const adapter = await directory.reopen({ capacityBytes: OBJECT_BYTES })
    await storeChain(adapter, 2, 0, 1)
    expect(adapter.usage().evictedObjects).toBe(1)
  })

  it('evicts down to a capacity that was lowered', async () => {
    await storeChain(await directory.open(), 1, 0, 5)
    const adapter = await directory.reopen({ capacityBytes: 2 * OBJECT_BYTES })
    expect(await lookupChain(adapter, 1, 0, 5)).toEqual([1, 1, 0, 0, 0])
    directory.expectExactUsage(adapter)
  })
})

describe('a record that changed on the disk', () => {
  it.each([
    ['a bit of the header', (path: string) => flip(path, 40)],
    ['a bit of the payload', (path: string) => flip(path, HEADER_BYTES + 500)],
    ['a missing byte', (path: string) => truncateSync(path, OBJECT_BYTES - 1)],
    ['a byte too many', (path: string) => appendFileSync(path, 'x')],
    ['no bytes', (path: string) => truncateSync(path, 0)],
    ['the record of another chunk', (path: string) => copyFileSync(directory.fileOf(1, 0), path)],
  ])('is corrupt for %s, put aside, counted, and can be stored again', async (_what, change) => {
    const adapter = await directory.open()
    await storeChain(adapter, 1, 0, 2)
    change(directory.fileOf(1, 1))
    expect(await loadChain(adapter, 1, 0, 3)).toEqual([OK, OUTCOME_CORRUPT, OUTCOME_NOT_FOUND])
    expect(adapter.usage()).toMatchObject({ objects: 1, checksumFailures: 1 })
    expect(adapter.quarantinedFiles).toBe(1)
    directory.expectExactUsage(adapter)
    expect(await storeChain(adapter, 1, 1, 2)).toEqual([OK])
    expect(await loadChain(adapter, 1, 1, 2)).toEqual([OK])
  })

  it('is kept for a look only up to the bound', async () => {
    const adapter = await directory.open({ quarantineFiles: 2 })
    await storeChain(adapter, 1, 0, 5)
    for (let index = 0; index < 5; index += 1) flip(directory.fileOf(1, index), 5000)
    expect(await loadChain(adapter, 1, 0, 5)).toEqual(Array(5).fill(OUTCOME_CORRUPT))
    expect(filesBelow(join(directory.path, 'quarantine'))).toHaveLength(2)
    expect((await directory.reopen({ quarantineFiles: 0 })).quarantinedFiles).toBe(0)
  })

  it('is not found when somebody deleted it', async () => {
    const adapter = await directory.open()
    await storeChain(adapter, 1, 0, 2)
    rmSync(directory.fileOf(1, 1))
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OK, OUTCOME_NOT_FOUND])
    directory.expectExactUsage(adapter)
  })
})

describe('hostile names', () => {
  it.each(['../../../../escape', '/etc/passwd', '.', 'a\0b', '\ud800', 'x'.repeat(256), 'ä/…', "';--"])(
    'keep every file inside the directory (model %j)',
    async (model) => {
      const inner = join(directory.path, 'deep', 'inner')
      const adapter = await directory.open({ directory: inner })
      const space = { ...SPACE, model, salt: model.slice(0, 128) }
      expect(await storeChain(adapter, 1, 0, 2, space)).toEqual([OK, OK])
      expect(await loadChain(adapter, 1, 0, 2, space)).toEqual([OK, OK])
      expect(filesBelow(directory.path).every(({ path }) => path.startsWith(inner))).toBe(true)
      await adapter.close()
      const again = await directory.open({ directory: inner })
      expect(await loadChain(again, 1, 0, 2, space)).toEqual([OK, OK])
    },
  )
})

describe('the directory', () => {
  it('is held by one adapter at a time', async () => {
    const first = await directory.open()
    await expect(directory.open()).rejects.toMatchObject({
      code: 'DATA_DIR_LOCKED',
      message: expect.stringMatching(/^[^\n]+$/),
    })
    await first.close()
    await expect(directory.open()).resolves.toBeDefined()
  })

  it('is refused in one line when it cannot be made', async () => {
    writeFileSync(join(directory.path, 'file'), '')
    await expect(directory.open({ directory: join(directory.path, 'file', 'inner') })).rejects.toMatchObject({
      code: 'DATA_DIR_UNWRITABLE',
      message: expect.stringMatching(/^[^\n]*ENOTDIR[^\n]*$/),
    })
  })

  it('is let go of when it cannot be opened', async () => {
    await expect(directory.open({}, (name) => (name === 'readdir' ? 'EIO' : undefined))).rejects.toMatchObject({
      code: 'DATA_DIR_UNWRITABLE',
    })
    await expect(directory.open()).resolves.toBeDefined()
  })

  it('holds records that say what they are, under names made from hashes alone', async () => {
    await storeChain(await directory.open(), 1, 0, 1)
    const hash = Buffer.from(hashOf(1, 0)).toString('hex')
    const digest = createHash('sha256')
      .update(JSON.stringify(['m', '', 1, 0, SPACE.shardBytes, SPACE.layout]), 'utf16le')
      .digest('hex')
      .slice(0, 32)
    expect(directory.fileOf(1, 0)).toBe(join(directory.path, 'objects', digest, hash[0]!, hash[1]!, hash))
    expect(readFileSync(directory.fileOf(1, 0)).toString('latin1', 0, 8)).toBe('KVTIEROB')
  })

  it('is written out before a close returns', async () => {
    const adapter = await directory.open()
    const running = storeChain(adapter, 1, 0, 8)
    await adapter.close()
    expect(await running).toEqual(Array(8).fill(OK))

    expect(await loadChain(await directory.open(), 1, 0, 8)).toEqual(Array(8).fill(OK))
  })
})

function flip(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes[at]! ^= 1
  writeFileSync(path, bytes)
}

describe('a scrub', () => {
  it('quarantines a spoiled object, finds the others whole, and touches nothing', async () => {
    const adapter = await directory.open()
    await storeChain(adapter, 1, 0, 3)
    const path = filesBelow(join(directory.path, 'objects')).find(({ path }) => {
      return path.endsWith(Buffer.from(hashOf(1, 1)).toString('hex'))
    })!.path
    const bytes = readFileSync(path)
    bytes[bytes.length - 1]! ^= 4
    writeFileSync(path, bytes)
    const outcomes = new Uint8Array(4)
    const read = await adapter.scrub(chainBatch(SPACE, 1, 0, 4), outcomes, NEVER)
    expect([...outcomes]).toEqual([OK, OUTCOME_CORRUPT, OK, OUTCOME_NOT_FOUND])
    expect([read, adapter.quarantinedFiles, adapter.usage().checksumFailures]).toEqual([2 * SPACE.shardBytes, 1, 1])
    expect(await lookupChain(adapter, 1, 0, 3)).toEqual([1, 0, 1])
    directory.expectExactUsage(adapter)
  })
})
