import { expect, it } from 'vitest'
import { CHUNK_WORDS, FIRST_SHARD } from '../../../src/l1/chunk-table.ts'
import { ALL_RANKS, EXPIRED_READ, Leases, PIN, READ } from '../../../src/l1/leases.ts'
import { ReadSlots } from '../../../src/l1/read-slots.ts'
import { NEXT_SHARD, SHARD_WORDS, SLOT } from '../../../src/l1/shard-table.ts'
import { random } from '../../support/random.ts'

const CHUNKS = 20

/** Chunks 1..20 of two shards each: chunk c has slots 2c and 2c + 1. */
function scene() {
  const chunks = new Uint32Array((CHUNKS + 1) * CHUNK_WORDS)
  const shards = new Uint32Array((2 * CHUNKS + 2) * SHARD_WORDS)
  for (let id = 1; id <= CHUNKS; id += 1) {
    chunks[id * CHUNK_WORDS + FIRST_SHARD] = 2 * id
    shards[2 * id * SHARD_WORDS + NEXT_SHARD] = 2 * id + 1
    for (const shard of [2 * id, 2 * id + 1]) shards[shard * SHARD_WORDS + SLOT] = shard
  }
  const leases = new Leases(16, 128)
  const slots = new ReadSlots(leases, chunks, shards)
  const holds = new Map<number, number>()
  slots.holdIn({
    hold: (slot) => holds.set(slot, (holds.get(slot) ?? 0) + 1),
    unhold: (slot) => {
      const left = (holds.get(slot) ?? 0) - 1
      expect(left).toBeGreaterThanOrEqual(0)
      if (left > 0) holds.set(slot, left)
      else holds.delete(slot)
    },
  })
  const open = (kind: number, ids: number[]) => {
    if (kind === READ) slots.noteRead(ids.length)
    const lease = leases.open(kind, 0, ALL_RANKS, 0, 1, 1)
    for (const id of ids) leases.append(lease, id)
    slots.begin(kind, Uint32Array.from(ids), ids.length)
    return lease
  }
  const close = (lease: number) => {
    const ids = new Uint32Array(leases.entryCapacity)
    const count = leases.entries(lease, ids)
    const kind = leases.kind[lease]!
    leases.close(lease)
    slots.end(kind, ids, count)
  }
  return { leases, slots, holds, open, close }
}

it('holds slots under read leases once it is asked, and lets them go when it has not been for long', () => {
  const { slots, holds, open, close } = scene()
  const one = open(READ, [1, 2])
  expect([...holds]).toEqual([])
  expect([slots.count(), slots.count()]).toEqual([true, false])
  const two = open(READ, [2])
  expect(Object.fromEntries(holds)).toEqual({ 2: 1, 3: 1, 4: 2, 5: 2 })
  close(one)
  expect(Object.fromEntries(holds)).toEqual({ 4: 1, 5: 1 })
  for (let round = 0; round < 40; round += 1) close(open(READ, [3, 4]))
  expect([...holds]).toEqual([])
  close(two)
  expect(slots.count()).toBe(true)
})

// Oracle: the slots of every open lease, counted anew.
it.each([1, 2, 3])('holds what is leased while holds are counted, and else what lasts (seed %i)', (seed) => {
  const { leases, slots, holds, open, close } = scene()
  const next = random(seed)
  const live = new Map<number, number[]>()
  let turns = 0
  for (let step = 0; step < 3000; step += 1) {
    const wasCounted = slots.isCounted
    const choice = next(20)
    if (next(300) === 0) {
      expect(slots.count()).toBe(!wasCounted)
      expect(slots.isCounted).toBe(true)
    } else if (choice < 11 && leases.hasFreeRow) {
      const ids = Array.from({ length: 1 + next(6) }, () => 1 + next(CHUNKS))
      live.set(open(next(6) === 0 ? PIN : READ, ids), ids)
      if (wasCounted && !slots.isCounted) turns += 1
    } else if (live.size > 0) {
      const lease = [...live.keys()][next(live.size)]!
      if (choice === 11 && leases.kind[lease] === READ) leases.kind[lease] = EXPIRED_READ
      else {
        close(lease)
        live.delete(lease)
      }
    }
    const expected = new Map<number, number>()
    for (const [lease, ids] of live) {
      if (leases.kind[lease] !== PIN && !slots.isCounted) continue
      for (const slot of ids.flatMap((id) => [2 * id, 2 * id + 1])) expected.set(slot, (expected.get(slot) ?? 0) + 1)
    }
    expect(isSame(holds, expected)).toBe(true)
  }
  expect(turns).toBeGreaterThan(0)
})

function isSame(one: ReadonlyMap<number, number>, two: ReadonlyMap<number, number>): boolean {
  return one.size === two.size && [...one].every(([slot, count]) => two.get(slot) === count)
}
