import { expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import type { TenantId } from '../../../src/core/ids.ts'
import { KeySpaces } from '../../../src/l1/key-spaces.ts'

const SPEC = { model: 'm', salt: 's', ranks: 2, shardBytes: 64, chunkTokens: 16, layout: 'x', tenant: 0 as TenantId }

function codeOf(work: () => void): string {
  try {
    work()
  } catch (error) {
    return (error as CacheError).code
  }
  return 'none'
}

it('opens a space once', () => {
  const spaces = new KeySpaces()
  const id = spaces.open(SPEC)
  expect(spaces.open({ ...SPEC })).toBe(id)
  expect(spaces.count).toBe(1)
  expect(spaces.find('m', 's', 2)).toBe(id)
  expect(spaces.find('m', 's', 1)).toBe(-1)
  expect(spaces.spec(id)).toEqual({ ...SPEC, saltRow: 0, part: 0 })
})

it('keeps pairs apart whatever the strings hold', () => {
  const spaces = new KeySpaces()
  const names = ['', 'a', ':', '1:a', '\0', 'a\0', '\n']
  const ids = names.flatMap((model) => names.map((salt) => spaces.open({ ...SPEC, model, salt })))
  expect(new Set(ids).size).toBe(names.length ** 2)
})

it.each([{ shardBytes: 65 }, { chunkTokens: 32 }, { layout: 'y' }])(
  'refuses another layout of a model: %o',
  (other) => {
    const spaces = new KeySpaces()
    spaces.open(SPEC)
    expect(codeOf(() => spaces.open({ ...SPEC, ...other }))).toBe('LAYOUT_MISMATCH')
    expect(codeOf(() => spaces.open({ ...SPEC, ...other, salt: 'another' }))).toBe('LAYOUT_MISMATCH')
    expect(codeOf(() => spaces.open({ ...SPEC, ...other, ranks: 1 }))).toBe('none')
    expect(spaces.count).toBe(2)
  },
)

it.each([{ ranks: 0 }, { ranks: 256 }, { ranks: 1.5 }, { shardBytes: 0 }, { shardBytes: -1 }, { chunkTokens: 0 }])(
  'refuses sizes out of range: %o',
  (bad) => {
    const spaces = new KeySpaces()
    expect(codeOf(() => spaces.open({ ...SPEC, ...bad }))).toBe('BAD_REQUEST')
    expect(spaces.count).toBe(0)
  },
)

it('has a limit', () => {
  const spaces = new KeySpaces(2)
  spaces.open(SPEC)
  spaces.open({ ...SPEC, salt: 'b' })
  expect(codeOf(() => spaces.open({ ...SPEC, salt: 'c' }))).toBe('NO_ROOM')
  expect(() => spaces.open(SPEC)).not.toThrow(CacheError)
})
