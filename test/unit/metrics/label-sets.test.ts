import fc from 'fast-check'
import { expect, it } from 'vitest'
import { NameTable, NO_ROW, OTHER, TenantTable } from '../../../src/metrics/label-sets.ts'
import { labelText } from '../../../src/metrics/label-text.ts'

const HOSTILE = [
  '',
  '"',
  ',',
  '\n',
  'a,b:c',
  ',b:',
  '\\',
  '\ud800',
  '\udc00',
  '\ufffd',
  '\ufffdd800',
  'a\0b',
  'x'.repeat(128),
]

it('gives each pair one row, in order of first sight', () => {
  const table = TenantTable.create({ maxTenants: 3 })
  expect([table.tenantOf('m', ''), table.tenantOf('m', 's'), table.tenantOf('m', '')]).toEqual([0, 1, 0])
  expect(table.rows).toBe(4)
  expect(table.size()).toBe(2)
  expect(table.labels(1)).toEqual({ model: 'm', salt: 's' })
  expect(table.labels(2)).toBeUndefined()
})

it('folds pairs past the limit into the last row and counts them', () => {
  const table = TenantTable.create({ maxTenants: 2 })
  for (const salt of ['a', 'b']) table.tenantOf('m', salt)
  expect(table.overflow()).toBe(0)
  expect(table.tenantOf('m', 'c')).toBe(2)
  expect(table.tenantOf('n', 'd')).toBe(2)
  expect(table.tenantOf('m', 'a')).toBe(0)
  expect(table.overflow()).toBe(2)
  expect(table.labels(2)).toEqual({ model: OTHER, salt: OTHER })
})

it('gives the name of the fold no second row', () => {
  const table = TenantTable.create({ maxTenants: 2 })
  expect(table.tenantOf(OTHER, OTHER)).toBe(table.fold)
  expect(table.tenantOf('m', OTHER)).toBe(0)
})

it('folds a pair that is too long for what is left of the log', () => {
  const table = TenantTable.create({ maxTenants: 2 })
  expect(table.tenantOf('m'.repeat(100_000), 's')).toBe(table.fold)
  expect(table.tenantOf('m', 's')).toBe(0)
})

it('keeps hostile pairs apart, here and in a reading thread', () => {
  const table = TenantTable.create({ maxTenants: 200 })
  const reader = TenantTable.attach(table.buffer)
  const seen = new Set<string>()
  for (const model of HOSTILE) {
    for (const salt of HOSTILE) {
      const row = table.tenantOf(model, salt)
      expect(reader.labels(row)).toEqual({ model: labelText(model), salt: labelText(salt) })
      seen.add(JSON.stringify(reader.labels(row)))
    }
  }
  expect(seen.size).toBe(HOSTILE.length ** 2)
  expect(reader.size()).toBe(HOSTILE.length ** 2)
})

it('maps label values one to one onto well-formed text, and leaves ordinary text alone', () => {
  const anyString = fc
    .string({ unit: 'binary' })
    .map((text) => text.replaceAll('!', '\ud801').replaceAll('0', '\ufffd'))
  fc.assert(
    fc.property(anyString, anyString, (a, b) => {
      expect(labelText(a).isWellFormed()).toBe(true)
      expect(labelText(a) === labelText(b)).toBe(a === b)
      if (a.isWellFormed() && !/[\ufffd\0]/.test(a)) expect(labelText(a)).toBe(a)
    }),
    { seed: 7, numRuns: 2000 },
  )
  expect(new Set(HOSTILE.map(labelText)).size).toBe(HOSTILE.length)
})

it('keeps the row of a name when it comes back, and gives it to no other', () => {
  const table = NameTable.create({ rows: 2 })
  const reader = NameTable.attach(table.buffer)
  const disk = table.rowOf('disk,"1"')
  expect(reader.isAttached(disk)).toBe(true)
  table.detach(disk)
  expect(reader.isAttached(disk)).toBe(false)
  expect(table.rowOf('peer')).toBe(1)
  expect(table.rowOf('disk,"1"')).toBe(disk)
  expect(reader.isAttached(disk)).toBe(true)
  expect(table.rowOf('third')).toBe(NO_ROW)
  expect([reader.label(0), reader.label(1), reader.label(2)]).toEqual(['disk,"1"', 'peer', undefined])
})
