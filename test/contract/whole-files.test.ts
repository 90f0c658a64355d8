import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { pageMemory } from '../../src/native/page-memory.ts'
import { openSegment } from '../../src/native/shared-memory.ts'
import type { FileWay } from '../../src/native/whole-files.ts'
import { temporaryDirectory } from '../support/l2-objects.ts'
import { random } from '../support/random.ts'
import { smallDisk } from '../support/small-disk.ts'
import { FILE_WAYS, wholeFilesOf } from '../support/whole-files.ts'

const PLAIN: FileWay = { isDirect: false, isSynced: false }
const SYNCED: FileWay = { isDirect: false, isSynced: true }

let directory: ReturnType<typeof temporaryDirectory>

beforeEach(() => {
  directory = temporaryDirectory()
})

afterEach(() => directory.remove())

const at = (name: string) => join(directory.path, name)

/** What a call is refused with: code, number, and whether it is an Error that names the call. */
async function refusal(call: Promise<unknown>) {
  const error: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(Error)
  const { code, errno, syscall, message } = error as NodeJS.ErrnoException
  expect(message).toMatch(new RegExp(`^${code}: [a-z].*, ${syscall}`))
  return { code, errno, syscall }
}

describe.each(FILE_WAYS)('whole files, moved by %s:', (way) => {
  it.for([PLAIN, SYNCED])('a file is made of its pieces and gets its name (%o)', async (how, context) => {
    const files = await wholeFilesOf(way, context)
    await files.create(at('new'), [Buffer.from('one'), Buffer.alloc(0), Buffer.from('two')], at('named'), how)
    expect(readdirSync(directory.path)).toEqual(['named'])
    expect(readFileSync(at('named'), 'utf8')).toBe('onetwo')
    expect(statSync(at('named')).mode & 0o777).toBe(0o600)
    await files.create(at('kept'), [Buffer.from('three')], null, how)
    expect(readFileSync(at('kept'), 'utf8')).toBe('three')
  })

  it('its name takes the place of a file that has it', async (context) => {
    const files = await wholeFilesOf(way, context)
    writeFileSync(at('named'), 'what was there')
    await files.create(at('new'), [Buffer.from('one')], at('named'), PLAIN)
    expect(readFileSync(at('named'), 'utf8')).toBe('one')
  })

  it('a path may have any letters', async (context) => {
    const files = await wholeFilesOf(way, context)
    await files.create(at('new'), [Buffer.from('one')], at('Käse 芝士 🧀'), PLAIN)
    const read = Buffer.alloc(3)
    expect(await files.read(at('Käse 芝士 🧀'), [read], PLAIN)).toBe(3)
    expect(read.toString()).toBe('one')
    await expect(files.create(at('a\0b'), [read], null, PLAIN)).rejects.toThrow()
    await expect(files.create(at('new'), [read], at('a\0b'), PLAIN)).rejects.toThrow()
    expect(readdirSync(directory.path)).not.toContain('a')
  })

  it.for([PLAIN, SYNCED])(
    'a file of the same length is written over, and stays the same file (%o)',
    async (how, context) => {
      const files = await wholeFilesOf(way, context)
      writeFileSync(at('old'), 'before')
      const { ino } = statSync(at('old'))
      expect(await files.overwrite(at('old'), [Buffer.from('aft'), Buffer.from('er!')], at('named'), how)).toBe(true)
      expect(readFileSync(at('named'), 'utf8')).toBe('after!')
      expect(readdirSync(directory.path)).toEqual(['named'])
      expect(statSync(at('named')).ino).toBe(ino)
      expect(await files.overwrite(at('named'), [Buffer.from('again!')], null, how)).toBe(true)
      expect(readFileSync(at('named'), 'utf8')).toBe('again!')
    },
  )

  it('a file of another length, or with another name, is left as it is', async (context) => {
    const files = await wholeFilesOf(way, context)
    for (const text of ['', 'shorte', 'a longer one']) {
      writeFileSync(at('old'), text)
      expect(await files.overwrite(at('old'), [Buffer.from('written')], at('named'), PLAIN)).toBe(false)
      expect(readFileSync(at('old'), 'utf8')).toBe(text)
    }
    writeFileSync(at('old'), 'written')
    linkSync(at('old'), at('twin'))
    expect(await files.overwrite(at('old'), [Buffer.from('changed')], at('named'), PLAIN)).toBe(false)
    expect(readFileSync(at('twin'), 'utf8')).toBe('written')
    expect(readdirSync(directory.path).sort()).toEqual(['old', 'twin'])
  })

  it('a file is read from its start, as far as it and the pieces go', async (context) => {
    const files = await wholeFilesOf(way, context)
    for (const [text, expected] of [
      ['', '........'],
      ['ab', 'ab......'],
      ['abc', 'abc.....'],
      ['abcdefg', 'abcdefg.'],
      ['abcdefgh', 'abcdefgh'],
      ['abcdefghi', 'abcdefgh'],
    ] as const) {
      writeFileSync(at('file'), text)
      const memory = Buffer.alloc(8, '.')
      const pieces = [memory.subarray(0, 3), memory.subarray(3, 3), memory.subarray(3, 7), memory.subarray(7)]
      expect(await files.read(at('file'), pieces, PLAIN)).toBe(Math.min(8, text.length))
      expect(memory.toString()).toBe(expected)
    }
  })

  it('calls that fail say why as the system does, and leave what is there', async (context) => {
    const files = await wholeFilesOf(way, context)
    mkdirSync(at('folder'))
    writeFileSync(at('file'), 'whole')
    symlinkSync(at('loop'), at('loop'))
    const piece = [Buffer.from('other')]
    const long = at('x'.repeat(256))
    const open = { syscall: 'open' }
    expect(await refusal(files.create(at('file'), piece, null, PLAIN))).toMatchObject({
      code: 'EEXIST',
      errno: -17,
      ...open,
    })
    expect(await refusal(files.create(at('no/file'), piece, null, PLAIN))).toMatchObject({
      code: 'ENOENT',
      errno: -2,
      ...open,
    })
    expect(await refusal(files.create(at('file/x'), piece, null, PLAIN))).toMatchObject({ code: 'ENOTDIR', ...open })
    expect(await refusal(files.create(long, piece, null, PLAIN))).toMatchObject({ code: 'ENAMETOOLONG', ...open })
    expect(await refusal(files.overwrite(at('none'), piece, null, PLAIN))).toMatchObject({ code: 'ENOENT', ...open })
    expect(await refusal(files.overwrite(at('folder'), piece, null, PLAIN))).toMatchObject({ code: 'EISDIR', ...open })
    expect(await refusal(files.read(at('none'), piece, PLAIN))).toMatchObject({ code: 'ENOENT', ...open })
    expect(await refusal(files.read(at('loop'), piece, PLAIN))).toMatchObject({ code: 'ELOOP', ...open })
    expect(await refusal(files.read(at('folder'), piece, PLAIN))).toMatchObject({ code: 'EISDIR', syscall: 'read' })
    expect(await refusal(files.create(at('new'), piece, at('folder'), PLAIN))).toMatchObject({
      code: 'EISDIR',
      syscall: 'rename',
    })
    expect(readFileSync(at('file'), 'utf8')).toBe('whole')
    expect(readdirSync(directory.path).sort()).toEqual(['file', 'folder', 'loop', 'new'])
  })

  it('a file that nobody may read is not read', async (context) => {
    if (process.getuid?.() === 0) context.skip('root reads everything')
    const files = await wholeFilesOf(way, context)
    writeFileSync(at('file'), 'secret')
    chmodSync(at('file'), 0)
    expect(await refusal(files.read(at('file'), [Buffer.alloc(6)], PLAIN))).toMatchObject({
      code: 'EACCES',
      syscall: 'open',
    })
  })

  it('a disk that is full says so, and is used again when there is room', async (context) => {
    const files = await wholeFilesOf(way, context)
    const disk = smallDisk(1 << 20)
    if (disk === undefined) return context.skip('needs the right to mount a small tmpfs')
    try {
      const [path, named] = [join(disk.path, 'new'), join(disk.path, 'named')]
      const large = [Buffer.alloc(4096, 1), Buffer.alloc(1 << 20, 2)]
      expect(await refusal(files.create(path, large, named, SYNCED))).toMatchObject({
        code: 'ENOSPC',
        syscall: 'write',
      })
      expect(readdirSync(disk.path)).toEqual(['new'])
      const small = [Buffer.alloc(1000, 3)]
      await files.create(join(disk.path, 'small'), small, null, SYNCED).catch(() => undefined)
      expect(await files.overwrite(path, small, named, SYNCED)).toBe(false)
    } finally {
      disk.remove()
    }
  })

  it('pages move past the page cache, from and to shared memory', async (context) => {
    const files = await wholeFilesOf(way, context)
    const segment = await openSegment({ name: `kvtier-files-${process.pid}`, bytes: 1 << 20 })
    try {
      const payload = segment.memory.subarray(8192, 8192 + (512 << 10)).fill(2)
      payload[payload.length - 1] = 3
      const from = [pageMemory(4096).fill(9), payload]
      const expected = Buffer.concat(from)
      const direct: FileWay = { isDirect: true, isSynced: true }
      try {
        await files.create(at('new'), from, at('named'), direct)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EINVAL') context.skip('this file system has a page cache only')
        throw error
      }
      expect(readFileSync(at('named')).equals(expected)).toBe(true)
      payload.fill(0)
      expect(await files.read(at('named'), [from[0]!.fill(0), payload, pageMemory(4096)], direct)).toBe(expected.length)
      expect(Buffer.concat(from).equals(expected)).toBe(true)
      expect(await files.overwrite(at('named'), from, null, direct)).toBe(true)
    } finally {
      segment.unlink()
      segment.close()
    }
  })

  it.for([1, 2])('any pieces, any number of files at once, come back as they were (seed %i)', async (seed, context) => {
    const files = await wholeFilesOf(way, context)
    const next = random(seed)
    const memory = Buffer.from(Array.from({ length: 5000 }, () => next(256)))
    const cut = (from: Buffer): Buffer[] => {
      const places = [0, from.length, ...Array.from({ length: next(4) }, () => next(from.length + 1))]
      places.sort((a, b) => a - b)
      return places.slice(1).map((end, piece) => from.subarray(places[piece], end))
    }
    const move = async (number: number) => {
      const start = next(2500)
      const bytes = memory.subarray(start, start + next(2500))
      const path = at(String(number))
      await files.create(`${path}-new`, cut(bytes), path, next(4) === 0 ? SYNCED : PLAIN)
      if (next(2) === 0) expect(await files.overwrite(path, cut(bytes), null, PLAIN)).toBe(true)
      const read = Buffer.alloc(next(3000))
      expect(await files.read(path, cut(read), PLAIN)).toBe(Math.min(read.length, bytes.length))
      const expected = Buffer.alloc(read.length)
      bytes.copy(expected)
      expect(read.equals(expected)).toBe(true)
    }
    await Promise.all(Array.from({ length: 60 }, (_, number) => move(number)))
    expect(readdirSync(directory.path)).toHaveLength(60)
  })
})
