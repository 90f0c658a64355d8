import { expect, it } from 'vitest'
import { ChunkTable } from '../../../../src/l1/chunk-table.ts'
import { UsePrints } from '../../../../src/l1/policies/use-prints.ts'
import { chainOf } from '../../../support/l1.ts'

const CHUNKS = 2_000

function chunks(): { table: ChunkTable; ids: number[] } {
  const table = new ChunkTable(CHUNKS, [1, 2])
  const ids = Array.from({ length: CHUNKS }, (_, index) => table.insert(0, chainOf([index]).words, 0))
  return { table, ids }
}

it('remembers a count once', () => {
  const { table, ids } = chunks()
  const prints = new UsePrints(table.words, 1000)
  prints.add(ids[0]!, 3)
  prints.add(ids[1]!, 1)
  expect([prints.take(ids[1]!), prints.take(ids[0]!), prints.take(ids[0]!)]).toEqual([1, 3, 0])
})

it('takes few strangers for what it remembers, and keeps most of what it has room for', () => {
  const { table, ids } = chunks()
  const prints = new UsePrints(table.words, CHUNKS)
  for (const id of ids.slice(0, CHUNKS / 2)) prints.add(id, 2)
  expect(ids.slice(CHUNKS / 2).filter((id) => prints.take(id) !== 0).length).toBeLessThan(10)
  expect(ids.slice(0, CHUNKS / 2).filter((id) => prints.take(id) === 2).length).toBeGreaterThan(0.9 * (CHUNKS / 2))
})

it('forgets the oldest first when there is no room', () => {
  const { table, ids } = chunks()
  const prints = new UsePrints(table.words, 8)
  for (const id of ids.slice(0, 12)) prints.add(id, 1)
  expect(ids.slice(0, 12).map((id) => prints.take(id))).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
})
