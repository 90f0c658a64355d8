import { expect, it } from 'vitest'
import { ChunkRefs } from '../../../src/l1/chunk-refs.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { chainOf, makeL1, openSpace } from '../../support/l1.ts'

it('names as many chunks as are wanted, those that leave first at first, and no leased one', () => {
  const { cache } = makeL1()
  const space = openSpace(cache)
  for (const name of [1, 2, 3, 4]) {
    cache.commit(cache.reserve(space, 0, chainOf([name]), 0, 1, 1, 1000, 'store', new SlotList()))
  }
  cache.lease(space, chainOf([2]), 0, 1, 'read', 1, 1000)
  const named = (countMax: number) => {
    const refs = new ChunkRefs()
    cache.order.oldest(countMax, refs)
    return Array.from({ length: refs.count }, (_, at) => cache.queries.hashWord(refs.id[at]!, 0))
  }
  const wordOf = (name: number) => chainOf([name]).words[0]
  expect(named(0)).toEqual([])
  expect(named(2)).toEqual([wordOf(1), wordOf(3)])
  expect(named(9)).toEqual([wordOf(1), wordOf(3), wordOf(4)])
})
