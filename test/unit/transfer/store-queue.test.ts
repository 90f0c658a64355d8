import { expect, it } from 'vitest'
import { StoreQueue } from '../../../src/transfer/store-queue.ts'
import { random } from '../../support/random.ts'

// Oracle: a plain array, oldest first.
it.each([1, 2, 3])('StoreQueue keeps the order of an array within its bound (seed %i)', (seed) => {
  const next = random(seed)
  const queue = new StoreQueue(16)
  let oracle: { id: number; space: number; rank: number }[] = []
  for (let step = 0; step < 5_000; step += 1) {
    if (next(3) > 0) {
      const entry = { id: step, space: next(2), rank: next(2) }
      const isTaken = queue.push(entry.id, 1, entry.space, entry.rank)
      expect(isTaken).toBe(oracle.length < 16)
      if (isTaken) oracle.push(entry)
    } else if (oracle.length > 0) {
      const limit = 1 + next(6)
      const first = oracle[0]!
      const end = oracle.findIndex(({ space, rank }) => space !== first.space || rank !== first.rank)
      const expected = Math.min(limit, end === -1 ? oracle.length : end)
      expect(queue.leadingBatch(limit)).toBe(expected)
      expect(queue.id[queue.at(expected - 1)]).toBe(oracle[expected - 1]!.id)
      queue.drop(expected)
      oracle = oracle.slice(expected)
    }
    expect(queue.count).toBe(oracle.length)
  }
})
