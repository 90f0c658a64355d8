import { constants, linkSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import * as fsPromises from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Disk } from '../../../../src/l2/adapters/disk.ts'
import { RecordIo } from '../../../../src/l2/adapters/record-io.ts'
import { isWholePages, PAGE_BYTES, pageMemory } from '../../../../src/native/page-memory.ts'
import { temporaryDirectory } from '../../../support/l2-objects.ts'

const LARGE = 256 * 1024
const { O_DIRECT } = constants

let directory: ReturnType<typeof temporaryDirectory>
let path: string
/** Of each open: whether it asked for unbuffered I/O. */
let opened: boolean[]

beforeEach(() => {
  directory = temporaryDirectory()
  path = join(directory.path, 'record')
  opened = []
})

afterEach(() => directory.remove())

/** @param refusal code with which the file system answers unbuffered opens. */
function disk(refusal?: string): Disk {
  return {
    ...fsPromises,
    open: async (file: string, flags: number, mode?: number) => {
      const isDirect = (flags & O_DIRECT) !== 0
      opened.push(isDirect)
      if (isDirect && refusal !== undefined) throw Object.assign(new Error(refusal), { code: refusal })
      return fsPromises.open(file, isDirect ? flags & ~O_DIRECT : flags, mode)
    },
  } as Disk
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

describe('record I/O', () => {
  it('goes past the page cache for whole pages, and gives back what was written', async () => {
    const io = new RecordIo(disk(), true, true)
    await io.create(path, pieces().slice(0, 2))
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces()[1]!)).toBe(true)
    expect(opened).toEqual([true, true])
  })

  it.each<[string, (whole: Buffer[]) => Uint8Array[]]>([
    ['small', () => pieces(LARGE - PAGE_BYTES).slice(0, 2)],
    ['no whole number of pages', () => pieces(LARGE + 100).slice(0, 2)],
    ['not on a page', ([header]) => [header!, pageMemory(LARGE + PAGE_BYTES).subarray(8, 8 + LARGE)]],
  ])('goes through the page cache for bytes that are %s', async (_what, make) => {
    const io = new RecordIo(disk(), false, true)
    const made = make(pieces())
    await io.create(path, made)
    expect(await io.read(path, [...made, pageMemory(PAGE_BYTES)])).toBe(PAGE_BYTES + made[1]!.length)
    expect(opened).toEqual([false, false])
  })

  it('goes through it when told so', async () => {
    await new RecordIo(disk(), false, false).create(path, pieces())
    expect(opened).toEqual([false])
  })

  it.each(['EINVAL', 'ENOTSUP'])('goes through it for good where the file system answers %s', async (code) => {
    const io = new RecordIo(disk(code), true, true)
    await io.create(path, pieces().slice(0, 2))
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces()[1]!)).toBe(true)
    expect(opened).toEqual([true, false, false])
  })

  it('reports any other error, and tries again the next time', async () => {
    const io = new RecordIo(disk('EIO'), true, true)
    await expect(io.create(path, pieces())).rejects.toMatchObject({ code: 'EIO' })
    await expect(io.read(path, pieces())).rejects.toMatchObject({ code: 'EIO' })
    expect(opened).toEqual([true, true])
  })

  it.each([true, false])('writes over a file of the same length (past the cache: %s)', async (isDirect) => {
    const io = new RecordIo(fsPromises, true, isDirect)
    await io.create(path, pieces().slice(0, 2))
    const { ino } = statSync(path)
    await io.replace(path, pieces(LARGE, 9).slice(0, 2))
    expect(statSync(path).ino).toBe(ino)
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces(LARGE, 9)[1]!)).toBe(true)
  })

  it.each(['longer', 'shorter', 'also linked elsewhere'])('makes a file anew that is %s', async (what) => {
    const io = new RecordIo(fsPromises, false, true)
    await io.create(path, pieces().slice(0, 2))
    const kept = `${path}-kept`
    if (what === 'also linked elsewhere') linkSync(path, kept)
    else truncateSync(path, what === 'longer' ? 3 * LARGE : LARGE)
    await io.replace(path, pieces(LARGE, 9).slice(0, 2))
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces(LARGE, 9)[1]!)).toBe(true)
    if (what !== 'also linked elsewhere') return
    expect(await io.read(kept, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces()[1]!)).toBe(true)
  })

  it('writes over a file through the cache where the file system does not do it past it', async () => {
    await new RecordIo(fsPromises, false, false).create(path, pieces().slice(0, 2))
    const io = new RecordIo(disk('EINVAL'), true, true)
    await io.replace(path, pieces(LARGE, 9).slice(0, 2))
    expect(opened).toEqual([true, false])
    const read = pieces(LARGE, 0)
    expect(await io.read(path, read)).toBe(PAGE_BYTES + LARGE)
    expect(read[1]!.equals(pieces(LARGE, 9)[1]!)).toBe(true)
  })

  it.each([true, false])(
    'says how long a file is that is cut short or goes on (past the cache: %s)',
    async (isDirect) => {
      const io = new RecordIo(fsPromises, false, isDirect)
      await io.create(path, pieces().slice(0, 2))
      for (const bytes of [0, 100, PAGE_BYTES, PAGE_BYTES + LARGE - 1]) {
        await io.create(`${path}-${bytes}`, pieces().slice(0, 2))
        truncateSync(`${path}-${bytes}`, bytes)
        expect(await io.read(`${path}-${bytes}`, pieces())).toBe(bytes)
      }
      writeFileSync(path, Buffer.alloc(3 * LARGE))
      expect(await io.read(path, pieces())).toBeGreaterThan(PAGE_BYTES + LARGE)
    },
  )
})
