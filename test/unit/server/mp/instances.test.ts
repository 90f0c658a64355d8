import { expect, it } from 'vitest'
import type { LeaseId, SpaceId } from '../../../../src/core/ids.ts'
import { InstanceTable, type StoreTransfer } from '../../../../src/server/mp/instances.ts'
import { layoutOf } from '../../../../src/server/mp/shard-layout.ts'
import { makeL1 } from '../../../support/l1.ts'
import { contextOf } from '../../../support/mp.ts'

const layout = layoutOf(contextOf(1n), 16)

function setUp(limit = 4) {
  const table = new InstanceTable(limit, makeL1().cache.copies, () => {})
  const add = (id: bigint) => table.add({ id, model: 'm', worldSize: 1, layout, owner: Number(id) }, 0)
  return { table, add }
}

const transfer: StoreTransfer = { space: 0 as SpaceId, rank: 0, lease: 1 as LeaseId, shards: 3, startMs: 0 }

it('takes only so many transfers of one worker, in each direction', () => {
  const { table, add } = setUp()
  const instance = add(1n)
  const hold = { endCopy() {}, isQuarantined: () => false, leasesOf: () => [1] } as never
  for (let count = 0; count < 1024; count += 1) {
    expect(instance.canStore(`${count}`)).toBe(true)
    instance.addStore(`${count}`, transfer)
    instance.addRetrieve('always the same', { hold, rank: 0, from: 0, to: 1, startMs: 0 })
  }
  expect(instance.canStore('1024')).toBe(false)
  expect(instance.canRetrieve).toBe(false)
  expect(instance.openTransfers).toBe(2048)
  expect(table.heldBytes).toBe(1024 * 3 * layout.shardBytes)
  instance.takeStore('7')
  instance.takeRetrieve('always the same')
  expect(instance.canStore('1024')).toBe(true)
  expect(instance.canStore('8')).toBe(false)
  expect(instance.canRetrieve).toBe(true)
  instance.end(makeL1().cache)
  expect([instance.openTransfers, table.heldBytes]).toEqual([0, 0])
})

it('releases the transfers that have expired, whatever their key, and leaves the others', () => {
  const { add } = setUp()
  const instance = add(1n)
  const expired = new Set([1, 3, 5])
  const l1 = { isQuarantined: (lease: number) => expired.has(lease), abort: () => true } as never
  const retrieve = (lease: number) => {
    const hold = { endCopy() {}, isQuarantined: () => expired.has(lease), leasesOf: () => [lease] } as never
    return { hold, rank: 0, from: 0, to: 1, startMs: lease }
  }
  instance.addStore('store', { ...transfer, lease: 1 as LeaseId })
  for (const lease of [2, 3, 4]) instance.addRetrieve('thrice', retrieve(lease))
  for (const lease of [5, 6]) instance.addRetrieve('twice', retrieve(lease))
  instance.releaseLate(l1)
  expect(instance.openTransfers).toBe(3)
  expect(instance.canStore('store')).toBe(true)
  const takes = (key: string) => instance.takeRetrieve(key)?.startMs
  expect([takes('thrice'), takes('thrice'), takes('thrice')]).toEqual([2, 4, undefined])
  expect([takes('twice'), takes('twice')]).toEqual([6, undefined])
  expect(instance.openTransfers).toBe(0)
})

it('is full at its limit, and keeps a dead worker only while that may still copy', () => {
  const { table, add } = setUp(2)
  const [first, second] = [add(1n), add(2n)]
  expect(table.isFull).toBe(true)
  second.addStore('a', transfer)
  for (const instance of [first, second]) {
    instance.reap(makeL1().cache)
    table.forgetIfDone(instance)
  }
  expect([table.find(1n), table.find(2n), table.liveCount]).toEqual([undefined, second, 0])
  expect(table.heard(2n, 1)).toBeUndefined()
  second.takeStore('a')
  table.forgetIfDone(second)
  expect(table.find(2n)).toBeUndefined()
})
