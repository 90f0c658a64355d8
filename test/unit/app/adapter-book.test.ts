import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { AdapterFileBook } from '../../../src/app/adapter-book.ts'
import { loadConfig } from '../../../src/config/load-config.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { TEST_MACHINE } from '../../support/machine.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-book-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

/** The book of an engine that is started on the directory. */
function open(...flags: string[]): AdapterFileBook {
  const argv = ['--data-dir', directory, '--l2', 'name=disk,type=memory,capacity=1GiB', ...flags]
  const { options } = loadConfig({ argv, env: {}, machine: TEST_MACHINE, readFile: () => '' })
  const make = () => new MemoryAdapter(MEMORY_DEFAULT)
  return new AdapterFileBook({ config: options, directory, env: () => undefined, make })
}

async function add(book: AdapterFileBook, given: Record<string, unknown>): Promise<void> {
  await book.keep(book.read(given), given)
}

const path = () => join(directory, 'l2-adapters.json')
const fast = { name: 'fast', type: 'memory', capacity: '1MiB' }
const slow = { name: 'slow', type: 'filesystem', path: '/srv/slow', capacity: '1GiB' }

it('keeps what was added, in order and as it was written, until it is forgotten', async () => {
  const book = open()
  expect(await book.load()).toEqual([])
  await add(book, fast)
  await add(book, slow)
  expect(statSync(path()).mode & 0o777).toBe(0o600)
  const next = open()
  expect(await next.load()).toEqual([fast, slow])
  next.adopt(next.read(fast))
  await next.forget('fast')
  expect(await open().load()).toEqual([slow])
})

it('writes every one of many changes at once', async () => {
  const book = open()
  const names = Array.from({ length: 20 }, (_, number) => `fast-${number}`)
  await Promise.all(names.map((name) => add(book, { ...fast, name })))
  await Promise.all(names.slice(1).map((name) => book.forget(name)))
  expect(await open().load()).toEqual([{ ...fast, name: 'fast-0' }])
})

it('does not keep what is named like an adapter of the configuration, which wins at a start', async () => {
  const book = open()
  expect([book.originOf('disk'), book.isConfigured('disk')]).toEqual(['config', true])
  await book.forget('disk')
  await add(book, { ...fast, name: 'disk' })
  expect([book.originOf('disk'), book.isConfigured('disk')]).toEqual(['runtime', true])
  expect(await open().load()).toEqual([])
})

it('keeps entries that this version cannot read', async () => {
  const strange = { name: 'later', type: 'quantum' }
  writeFileSync(path(), JSON.stringify({ version: 1, adapters: [strange] }))
  const book = open()
  const [entry] = await book.load()
  expect(() => book.read(entry!)).toThrow(expect.objectContaining({ code: 'BAD_REQUEST' }))
  await add(book, fast)
  expect(JSON.parse(readFileSync(path(), 'utf8')).adapters).toEqual([strange, fast])
})

it.each(['', '{', '[]', '{"version":2,"adapters":[]}'])('refuses to start on a file that holds %j', async (text) => {
  writeFileSync(path(), text)
  await expect(open().load()).rejects.toMatchObject({ code: 'DATA_DIR_UNWRITABLE' })
})

it('takes a change back that cannot be written', async () => {
  const book = open()
  await add(book, fast)
  rmSync(directory, { recursive: true })
  await expect(add(book, slow)).rejects.toMatchObject({ code: 'DATA_DIR_UNWRITABLE' })
  mkdirSync(directory)
  await add(book, { ...fast, name: 'third' })
  expect(JSON.parse(readFileSync(path(), 'utf8')).adapters.map(({ name }: { name: string }) => name)).toEqual([
    'fast',
    'third',
  ])
})

it('shows options without secrets', async () => {
  const book = open()
  await add(book, { name: 'cache', type: 'redis', url: 'redis://user:swordfish@127.0.0.1:6379', capacity: '1GiB' })
  expect(book.shownOptions('cache')).toMatchObject({ type: 'redis', password: '***' })
  expect(JSON.stringify(book.shownOptions('cache'))).not.toContain('swordfish')
})
