import { expect, it } from 'vitest'
import type { LeaseId } from '../../../src/core/ids.ts'
import { heapLeases } from '../../../src/l1/l1-tables.ts'
import { EXPIRED_READ, Leases, NO_LEASE_ROW, READ, WRITE } from '../../../src/l1/leases.ts'

function open(leases: Leases, expiryMs: number, ...references: number[]): number {
  const row = leases.open(READ, 0, 0, 0, 1, expiryMs)
  for (const reference of references) leases.append(row, reference)
  return row
}

it('never gives an ended id to another lease', () => {
  const leases = new Leases(4, 16)
  const seen = new Set<LeaseId>()
  for (let round = 0; round < 1000; round += 1) {
    const row = open(leases, 1, 7)
    const id = leases.idOf(row)
    expect(seen.has(id)).toBe(false)
    seen.add(id)
    expect(leases.rowOf(id)).toBe(row)
    leases.close(row)
    expect(leases.rowOf(id)).toBe(NO_LEASE_ROW)
  }
  leases.verify()
})

it('gives safe integers, and knows no stranger', () => {
  const leases = new Leases(2 ** 20, 1)
  const id = leases.idOf(open(leases, 1))
  expect(Number.isSafeInteger(id)).toBe(true)
  for (const stranger of [0, id + 1, id - 1, id + 2 ** 20, -1, 0.5, Number.NaN, 2 ** 53]) {
    expect(leases.rowOf(stranger as LeaseId)).toBe(NO_LEASE_ROW)
  }
})

it('keeps entries in order, and gives them all back', () => {
  const leases = new Leases(4, 8)
  const one = open(leases, 1, 10, 11, 12)
  const two = open(leases, 1, 20, 21)
  leases.append(one, 13)
  const out = new Uint32Array(8)
  expect([...out.subarray(0, leases.entries(one, out))]).toEqual([10, 11, 12, 13])
  leases.close(one)
  expect(leases.freeEntries).toBe(6)
  expect([...out.subarray(0, leases.entries(two, out))]).toEqual([20, 21])
  leases.close(two)
  open(leases, 1, 1, 2, 3, 4, 5, 6, 7, 8)
  expect(leases.freeEntries).toBe(0)
  leases.verify()
})

it('keeps a run in one entry, and counts each reference of it', () => {
  const leases = new Leases(4, 10)
  const one = open(leases, 1, 5)
  leases.appendRun(one, 30, 4)
  leases.appendRun(one, 9, 1)
  leases.appendRun(one, 10, 2)
  const out = new Uint32Array(10)
  expect([...out.subarray(0, leases.entries(one, out))]).toEqual([5, 30, 31, 32, 33, 9, 10, 11])
  expect([leases.count[one], leases.freeEntries]).toEqual([8, 2])
  const two = open(leases, 1, 7, 8)
  expect(leases.freeEntries).toBe(0)
  leases.verify()
  leases.close(one)
  expect(leases.freeEntries).toBe(8)
  expect([...out.subarray(0, leases.entries(two, out))]).toEqual([7, 8])
  leases.verify()
})

it('takes over the runs of an earlier engine', () => {
  const columns = heapLeases(4, 10)
  const before = new Leases(4, 10, columns)
  open(before, 1, 1, 2)
  const kept = open(before, 1, 5)
  before.appendRun(kept, 30, 4)
  const after = new Leases(4, 10, columns)
  const kinds = new Uint8Array(4)
  kinds[kept] = EXPIRED_READ
  after.restore(kinds, () => true)
  const out = new Uint32Array(10)
  expect([...out.subarray(0, after.entries(kept, out))]).toEqual([5, 30, 31, 32, 33])
  expect(after.freeEntries).toBe(5)
  open(after, 1, 1, 2, 3, 4, 5)
  expect(after.freeEntries).toBe(0)
  after.verify()
  expect([...out.subarray(0, after.entries(kept, out))]).toEqual([5, 30, 31, 32, 33])
})

it('is full at its capacity', () => {
  const leases = new Leases(3, 3)
  for (let row = 0; row < 3; row += 1) expect(leases.open(WRITE, 0, 0, 0, 1, 1)).toBe(row)
  expect(leases.hasFreeRow).toBe(false)
  expect(leases.open(WRITE, 0, 0, 0, 1, 1)).toBe(NO_LEASE_ROW)
  leases.close(1)
  expect(leases.open(WRITE, 0, 0, 0, 1, 1)).toBe(1)
})

it('finds what is due, in pieces when that is much, and what was renewed not at all', () => {
  const leases = new Leases(8, 8)
  const rows = [10, 20, 30, 30, 30].map((expiry) => open(leases, expiry))
  const out = new Uint32Array(2)
  expect(leases.due(9, out)).toBe(0)
  expect([leases.due(10, out), out[0]]).toEqual([1, rows[0]])
  leases.close(rows[0]!)
  leases.setExpiry(rows[1]!, 100)
  expect(leases.due(29, out)).toBe(0)
  expect(leases.due(30, out)).toBe(2)
  for (const row of out) leases.close(row)
  expect(leases.due(30, out)).toBe(1)
  leases.close(out[0]!)
  expect(leases.due(99, out)).toBe(0)
  expect(leases.due(100, out)).toBe(1)
})
