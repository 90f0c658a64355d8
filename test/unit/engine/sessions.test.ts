import { expect, it } from 'vitest'
import type { SpaceId } from '../../../src/core/ids.ts'
import { SessionTable } from '../../../src/engine/sessions.ts'

const [ONE, OTHER] = [0, 1] as [SpaceId, SpaceId]

function setUp(capacity = 2) {
  const closed: string[] = []
  const table = new SessionTable(capacity, ({ key }) => void closed.push(key))
  return { table, closed }
}

it('knows a request by its id within a space, and gives each an owner of its own', () => {
  const { table } = setUp()
  const first = table.open(ONE, 'r')
  const second = table.open(OTHER, 'r')
  expect(second.owner).not.toBe(first.owner)
  expect([table.open(ONE, 'r'), table.find(OTHER, 'r'), table.find(ONE, 'x')]).toEqual([first, second, undefined])
  expect(table.count).toBe(2)
})

it('closes the one used longest ago for a new one, and all at the end', () => {
  const { table, closed } = setUp()
  table.open(ONE, 'a')
  table.open(ONE, 'b')
  table.open(ONE, 'a')
  table.open(ONE, 'c')
  expect(closed).toEqual(['0:b'])
  expect([table.close(ONE, 'a'), table.close(ONE, 'a')]).toEqual([true, false])
  table.closeAll()
  expect([closed, table.count]).toEqual([['0:b', '0:a', '0:c'], 0])
})

it('gives no owner number twice, nor one of an earlier engine', () => {
  const { table } = setUp()
  table.startOwnersAfter(100)
  const first = table.nextOwner()
  table.startOwnersAfter(50)
  expect([first, table.nextOwner(), table.open(ONE, 'r').owner]).toEqual([101, 102, 103])
})
