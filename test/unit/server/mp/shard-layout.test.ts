import { expect, it } from 'vitest'
import { layoutOf } from '../../../../src/server/mp/shard-layout.ts'
import { contextOf } from '../../../support/mp.ts'

it('counts both planes of keys and values, one plane with MLA', () => {
  expect(layoutOf(contextOf(1n), 16).shardBytes).toBe(2 * 1 * 16 * 16 * 2)
  expect(layoutOf(contextOf(1n, { isMla: true }), 16).shardBytes).toBe(1 * 16 * 16 * 2)
})

it('refuses what it cannot keep, and names the field', () => {
  const fieldOf = (more: Parameters<typeof contextOf>[1]) => {
    try {
      layoutOf(contextOf(1n, more), 16)
      return null
    } catch (error) {
      return (error as { detail: { field: string } }).detail.field
    }
  }
  expect(fieldOf({ dtype: 'pickle' })).toBe('dtype_str')
  expect(fieldOf({ blockTokens: 7 })).toBe('block_size')
  expect(fieldOf({ groups: 2 })).toBe('group_layouts')
  expect(fieldOf({})).toBe(null)
})
