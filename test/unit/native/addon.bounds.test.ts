import { expect, it } from 'vitest'
import type { Addon } from '../../../src/native/addon.ts'
import { addonOf } from '../../support/addon.ts'
import { random } from '../../support/random.ts'

type Call = (...args: unknown[]) => unknown

/** Arguments that are right, for each function that takes any. */
const RIGHT: Readonly<Partial<Record<keyof Addon, () => unknown[]>>> = {
  crc32: () => [new Uint8Array(10), 0],
  hashChunks: () => [new Uint8Array(32), new Uint32Array(20), 10, new Uint8Array(64)],
  readWords: () => [new Uint8Array(10), 0, new Uint32Array(4), 0],
  copyRanges: () => [
    new Uint8Array(100),
    new Uint8Array(100),
    Float64Array.of(0, 50),
    Float64Array.of(50, 0),
    Float64Array.of(50, 50),
    2,
    2,
  ],
}

const WRONG: readonly unknown[] = [
  undefined,
  null,
  -1,
  0.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2 ** 60,
  1n,
  '0',
  {},
  [],
  new ArrayBuffer(8),
  new DataView(new ArrayBuffer(8)),
  () => 0,
  Symbol('one'),
]

/** What a call throws: the name and the code of the error. */
function thrown(call: () => unknown): string {
  try {
    call()
    return 'nothing'
  } catch (error) {
    return `${(error as Error).name} ${(error as NodeJS.ErrnoException).code}`
  }
}

const REFUSED = /^(?:RangeError ERR_OUT_OF_RANGE|TypeError ERR_INVALID_ARG_TYPE)$/

it.for(Object.keys(RIGHT) as (keyof Addon)[])('%s refuses what is no argument of it', async (name, context) => {
  const call = (await addonOf(context))[name] as Call
  expect(thrown(() => call(...RIGHT[name]!()))).toBe('nothing')
  expect(thrown(() => call())).toMatch(REFUSED)
  for (const at of RIGHT[name]!().keys()) {
    expect(thrown(() => call(...RIGHT[name]!().slice(0, at)))).toMatch(REFUSED)
    for (const wrong of WRONG) {
      const args = RIGHT[name]!()
      args[at] = wrong
      expect(
        thrown(() => call(...args)),
        `argument ${at}: ${String(wrong)}`,
      ).toMatch(REFUSED)
    }
  }
})

it('a range outside of its memory is refused, and then nothing is copied', async (context) => {
  const { copyRanges } = await addonOf(context)
  const target = new Uint8Array(100)
  const source = new Uint8Array(100).fill(1)
  const copy = (to: number, from: number, length: number) => () =>
    copyRanges(target, source, Float64Array.of(0, to), Float64Array.of(0, from), Float64Array.of(10, length), 2, 1)
  const places = [-1, 0.5, 101, 2 ** 53, 2 ** 64, Number.NaN, Number.NEGATIVE_INFINITY, 1e300]
  for (const wrong of places) {
    expect(copy(wrong, 0, 1)).toThrow(RangeError)
    expect(copy(0, wrong, 1)).toThrow(RangeError)
    expect(copy(0, 0, wrong)).toThrow(RangeError)
  }
  expect(copy(100, 0, 1)).toThrow(RangeError)
  expect(copy(1, 0, 100)).toThrow(RangeError)
  expect(copy(0, 91, 10)).toThrow(RangeError)
  expect(Math.max(...target)).toBe(0)
  expect(copy(100, 100, 0)).not.toThrow()
})

it('hashes are refused for which there is no room', async (context) => {
  const { hashChunks } = await addonOf(context)
  const hash = (parent: number, tokens: number, chunk: number, hashes: number) => () =>
    hashChunks(new Uint8Array(parent), new Uint32Array(tokens), chunk, new Uint8Array(hashes))
  for (const wrong of [hash(31, 10, 5, 64), hash(33, 10, 5, 64), hash(32, 10, 5, 63), hash(32, 10, 0, 640)]) {
    expect(wrong).toThrow(RangeError)
  }
  expect(hash(32, 9, 10, 0)).not.toThrow()
})

it('memory that was given away has no bytes', async (context) => {
  const { crc32, copyRanges } = await addonOf(context)
  const gone = new Uint8Array(100)
  gone.buffer.transfer()
  expect(crc32(gone, 7)).toBe(7)
  const [to, from, length] = [Float64Array.of(0), Float64Array.of(0), Float64Array.of(1)]
  expect(() => copyRanges(gone, new Uint8Array(1), to, from, length, 1, 1)).toThrow(RangeError)
  expect(() => copyRanges(new Uint8Array(1), gone, to, from, length, 1, 1)).toThrow(RangeError)
})

it.for([1, 2])('random arguments never do more than throw (seed %i)', async (seed, context) => {
  const addon = await addonOf(context)
  const next = random(seed)
  const views = [Uint8Array, Uint16Array, Uint32Array, Float64Array, BigInt64Array, Int8Array]
  const value = (): unknown => {
    if (next(3) === 0) return WRONG[next(WRONG.length)]
    if (next(2) === 0) return next(200)
    const bytes = 8 * next(40)
    const View = views[next(views.length)]!
    return new View(new ArrayBuffer(bytes), 0, bytes / View.BYTES_PER_ELEMENT)
  }
  for (let step = 0; step < 20_000; step += 1) {
    const names = Object.keys(RIGHT) as (keyof Addon)[]
    const name = names[next(names.length)]!
    const args = RIGHT[name]!().map((right) => (next(3) === 0 ? value() : right))
    expect(thrown(() => (addon[name] as Call)(...args))).toMatch(/^(?:nothing|RangeError .*|TypeError .*)$/)
  }
})
