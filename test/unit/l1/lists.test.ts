import { expect, it } from 'vitest'
import { ChunkRefs } from '../../../src/l1/chunk-refs.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'

it('a slot list grows and keeps its rows', () => {
  const list = new SlotList(2)
  for (let row = 0; row < 100; row += 1) list.push(row, row % 3, row * 2 ** 33, 5)
  expect(list.count).toBe(100)
  expect([list.chainIndex[99], list.rank[99], list.offset[99]]).toEqual([99, 0, 99 * 2 ** 33])
  expect(list.totalBytes()).toBe(500)
  list.reverseFrom(98)
  expect([list.chainIndex[97], list.chainIndex[98], list.chainIndex[99]]).toEqual([97, 99, 98])
  list.clear()
  expect(list.totalBytes()).toBe(0)
})

it('a list of references grows and keeps its rows', () => {
  const refs = new ChunkRefs(0)
  for (let row = 0; row < 100; row += 1) refs.push(row, row + 1)
  expect([refs.count, refs.id[99], refs.generation[99]]).toEqual([100, 99, 100])
  refs.clear()
  expect(refs.count).toBe(0)
})
