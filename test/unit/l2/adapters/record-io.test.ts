import { linkSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import * as fsPromises from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest'
import { RecordIo } from '../../../../src/l2/adapters/record-io.ts'
import { isWholePages, PAGE_BYTES, pageMemory } from '../../../../src/native/page-memory.ts'
import type { FileWay, WholeFiles } from '../../../../src/native/whole-files.ts'
import { temporaryDirectory } from '../../../support/l2-objects.ts'
import { FILE_WAYS, wholeFilesOf } from '../../../support/whole-files.ts'

const LARGE = 256 * 1024

let directory: ReturnType<typeof temporaryDirectory>
let path: string
/** Of each move: whether it asked for unbuffered I/O. */
let moves: boolean[]

beforeEach(() => {
  directory = temporaryDirectory()
  path = join(directory.path, 'record')
  moves = []
})

afterEach(() => directory.remove())

/** Files that note how they are moved, and answer unbuffered moves with `refusal`. Memory serves where no disk does. */
function watched(files: WholeFiles, refusal?: string): WholeFiles {
  const plain = (way: FileWay): FileWay => {
    moves.push(way.isDirect)
    if (way.isDirect && refusal !== undefined) throw Object.assign(new Error(refusal), { code: refusal })
    return { ...way, isDirect: false }
  }
  return {
    create: async (file, memory, name, way) => files.create(file, memory, name, plain(way)),
    overwrite: async (file, memory, name, way) => files.overwrite(file, memory, name, plain(way)),
    read: async (file, memory, way) => files.read(file, memory, plain(way)),
  }
}

function pieces(bytes = LARGE, fill = 7): Buffer[] {
  return [pageMemory(PAGE_BYTES).fill(1), pageMemory(bytes).fill(fill), pageMemory(PAGE_BYTES)]
}

describe('page memory', () => {
  it.each([1, PAGE_BYTES, 3 * PAGE_BYTES])('of %i bytes starts on a page', (bytes) => {
    const memory = pageMemory(bytes)
    expect(memory.length).toBe(bytes)
    expect(isWholePages(memory)).toBe(bytes % PAGE_BYTES === 0)
    expect(isWholePages(memory.subarray(1))).toBe(false)
    expect(isWholePages(memory.subarray(0, 0))).toBe(false)
  })
})

describe.each(FILE_WAYS)('record I/O, through %s,', (name) => {
  const open = async (context: TestContext, isSynced: boolean, isDirect: boolean) =>
    new RecordIo(await wholeFilesOf(name, context), fsPromises, isSynced, isDirect)
  const openWatched = async (context: TestContext, isSynced: boolean, isDirect: boolean, refusal?: string) =>
    new RecordIo(watched(await wholeFilesOf(name, context), refusal), fsPromises, isSynced, isDirect)

  it('goes past the page cache for whole pages, and gives back what was written', async (context) => {
    const io = await openWatched(context, true, true)
    await io.create(path, pieces().slice(0, 2), null)
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces()[1]!)).toBe(true)
    expect(moves).toEqual([true, true])
  })

  it.for<[string, (whole: Buffer[]) => Uint8Array[]]>([
    ['small', () => pieces(LARGE - PAGE_BYTES).slice(0, 2)],
    ['no whole number of pages', () => pieces(LARGE + 100).slice(0, 2)],
    ['not on a page', ([header]) => [header!, pageMemory(LARGE + PAGE_BYTES).subarray(8, 8 + LARGE)]],
  ])('goes through the page cache for bytes that are %s', async ([_what, make], context) => {
    const io = await openWatched(context, false, true)
    const made = make(pieces())
    await io.create(path, made, null)
    expect(await io.read(path, [...made, pageMemory(PAGE_BYTES)])).toBe(PAGE_BYTES + made[1]!.length)
    expect(moves).toEqual([false, false])
  })

  it('goes through it when told so', async (context) => {
    await (await openWatched(context, false, false)).create(path, pieces(), null)
    expect(moves).toEqual([false])
  })

  it.for(['EINVAL', 'ENOTSUP'])('goes through it for good where the file system answers %s', async (code, context) => {
    const io = await openWatched(context, true, true, code)
    await io.create(path, pieces().slice(0, 2), null)
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces()[1]!)).toBe(true)
    expect(moves).toEqual([true, false, false])
  })

  it('reports any other error, and tries again the next time', async (context) => {
    const io = await openWatched(context, true, true, 'EIO')
    await expect(io.create(path, pieces(), null)).rejects.toMatchObject({ code: 'EIO' })
    await expect(io.read(path, pieces())).rejects.toMatchObject({ code: 'EIO' })
    expect(moves).toEqual([true, true])
  })

  it.for([true, false])('writes over a file of the same length (past the cache: %s)', async (isDirect, context) => {
    const io = await open(context, true, isDirect)
    await io.create(path, pieces().slice(0, 2), null)
    const { ino } = statSync(path)
    await io.replace(path, pieces(LARGE, 9).slice(0, 2), null)
    expect(statSync(path).ino).toBe(ino)
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces(LARGE, 9)[1]!)).toBe(true)
  })

  it.for(['longer', 'shorter', 'also linked elsewhere'])('makes a file anew that is %s', async (what, context) => {
    const io = await open(context, false, true)
    await io.create(path, pieces().slice(0, 2), null)
    const kept = `${path}-kept`
    if (what === 'also linked elsewhere') linkSync(path, kept)
    else truncateSync(path, what === 'longer' ? 3 * LARGE : LARGE)
    await io.replace(path, pieces(LARGE, 9).slice(0, 2), null)
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces(LARGE, 9)[1]!)).toBe(true)
    if (what !== 'also linked elsewhere') return
    expect(await io.read(kept, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces()[1]!)).toBe(true)
  })

  it('writes over a file through the cache where the file system does not do it past it', async (context) => {
    await (await open(context, false, false)).create(path, pieces().slice(0, 2), null)
    const io = await openWatched(context, true, true, 'EINVAL')
    await io.replace(path, pieces(LARGE, 9).slice(0, 2), null)
    expect(moves).toEqual([true, false])
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces(LARGE, 9)[1]!)).toBe(true)
  })

  it.for([true, false])(
    'says how long a file is that is cut short or goes on (past the cache: %s)',
    async (isDirect, context) => {
      const io = await open(context, false, isDirect)
      await io.create(path, pieces().slice(0, 2), null)
      for (const bytes of [0, 100, PAGE_BYTES, PAGE_BYTES + LARGE - 1]) {
        await io.create(`${path}-${bytes}`, pieces().slice(0, 2), null)
        truncateSync(`${path}-${bytes}`, bytes)
        expect(await io.read(`${path}-${bytes}`, pieces())).toBe(bytes)
      }
      writeFileSync(path, Buffer.alloc(3 * LARGE))
      expect(await io.read(path, pieces())).toBeGreaterThan(PAGE_BYTES + LARGE)
    },
  )
})
