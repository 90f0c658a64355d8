import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { addonOf } from '../../support/addon.ts'
import { temporaryDirectory } from '../../support/l2-objects.ts'

const [CREATE, OVERWRITE, READ] = [0, 1, 2]

let directory: ReturnType<typeof temporaryDirectory>

beforeEach(() => {
  directory = temporaryDirectory()
})

afterEach(() => directory.remove())

it('a move refuses what is no argument of it, and then touches no file', async (context) => {
  const { moveFile } = await addonOf(context)
  const call = moveFile as (...args: unknown[]) => unknown
  const path = join(directory.path, 'file')
  const right = (): unknown[] => [CREATE, 0, path, '', new Uint8Array(10)]
  const wrong: readonly unknown[] = [
    undefined,
    null,
    -1,
    0.5,
    Number.NaN,
    4,
    2 ** 60,
    1n,
    {},
    [],
    () => 0,
    Symbol('one'),
  ]
  const expected = /^(?:RangeError ERR_OUT_OF_RANGE|TypeError ERR_INVALID_ARG_TYPE)$/
  const thrown = (args: readonly unknown[]) => {
    try {
      call(...args)
      return 'nothing'
    } catch (error) {
      return `${(error as Error).name} ${(error as NodeJS.ErrnoException).code}`
    }
  }
  for (let at = 0; at < 5; at += 1) {
    expect(thrown(right().slice(0, at))).toMatch(expected)
    for (const value of [...wrong, ...(at === 2 ? ['', 'a\0b'] : at === 3 ? ['a\0b'] : ['0', new ArrayBuffer(8)])]) {
      const args = right()
      args[at] = value
      expect(thrown(args), `argument ${at}: ${String(value)}`).toMatch(expected)
    }
  }
  expect(thrown([...right(), ...Array.from({ length: 4 }, () => new Uint8Array(1))])).toMatch(expected)
  expect(thrown([...right(), ...Array.from({ length: 40 }, () => new Uint8Array(1))])).toMatch(expected)
  expect(readdirSync(directory.path)).toEqual([])
})

it('memory that was given away has no bytes, and what is held is not given back meanwhile', async (context) => {
  const { moveFile } = await addonOf(context)
  const path = join(directory.path, 'file')
  const gone = new Uint8Array(100)
  gone.buffer.transfer()
  expect(await moveFile(CREATE, 0, path, '', gone, Uint8Array.of(1, 2))).toBe(2)
  expect(await moveFile(OVERWRITE, 0, path, '', Uint8Array.of(3, 4))).toBe(2)
  const read = new Float64Array(1)
  expect(await moveFile(READ, 0, path, '', new Uint8Array(read.buffer))).toBe(2)
  expect(new Uint8Array(read.buffer).slice(0, 3)).toEqual(Uint8Array.of(3, 4, 0))
})

it('a thread may end while its moves are under way: they end first, and others go on', async (context) => {
  await addonOf(context)
  const module = new URL('../../../src/native/addon.ts', import.meta.url).href
  const text = `
    import(${JSON.stringify(module)}).then(({ loadAddon }) => {
      const { moveFile } = loadAddon()
      const folder = ${JSON.stringify(directory.path)}
      for (let at = 0; at < 30; at += 1) void moveFile(0, 2, folder + '/' + at, '', new Uint8Array(100_000).fill(at))
      process.exit()
    })`
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  new Worker(text, { eval: true }).on('exit', resolve).on('error', reject)
  expect(await promise).toBe(0)
  const { moveFile } = await addonOf(context)
  for (let at = 0; at < 30; at += 1) {
    const bytes = new Uint8Array(100_001)
    expect(await moveFile(READ, 0, join(directory.path, String(at)), '', bytes)).toBe(100_000)
    expect(new Set(bytes.subarray(0, 100_000))).toEqual(new Set([at]))
  }
  writeFileSync(join(directory.path, 'more'), 'text')
  expect(await moveFile(READ, 0, join(directory.path, 'more'), '', new Uint8Array(9))).toBe(4)
})
