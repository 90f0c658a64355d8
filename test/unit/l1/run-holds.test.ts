import { expect, it } from 'vitest'
import { CHUNK_WORDS, ChunkTable, FIRST_SHARD, HOLDS, META, NO_CHUNK, READY_ONE } from '../../../src/l1/chunk-table.ts'
import { HoldTree } from '../../../src/l1/holds.ts'
import { LruPolicy } from '../../../src/l1/policies/lru.ts'
import { RunHolds } from '../../../src/l1/run-holds.ts'

/** Chains of free chunks, one under each length. */
function chains(...lengths: number[]) {
  const table = new ChunkTable(64, [1, 1])
  const lru = new LruPolicy(table)
  const left: number[] = []
  const tree = new HoldTree(table, lru, (id) => left.push(id))
  const hash = new Uint32Array(8)
  const made = lengths.map((length) => {
    const ids: number[] = []
    for (let depth = 0; depth < length; depth += 1) {
      hash[0]! += 1
      const id = table.insert(0, hash, 0)
      tree.bear(id, ids.at(-1) ?? NO_CHUNK)
      table.words[id * CHUNK_WORDS + META]! += READY_ONE
      table.words[id * CHUNK_WORDS + FIRST_SHARD] = 1
      ids.push(id)
    }
    return ids
  })
  for (const ids of made) for (const id of ids.toReversed()) tree.drop(id)
  const order = () => {
    const ids: number[] = []
    for (let id = lru.next(NO_CHUNK); id !== NO_CHUNK; id = lru.next(id)) ids.push(id)
    return ids
  }
  const holds = (ids: number[]) => ids.map((id) => table.words[id * CHUNK_WORDS + HOLDS])
  return { table, made, order, holds, left, runs: new RunHolds(table.words, tree) }
}

it('holds a run by its last chunk, and lets it go leaf first, as the newest', () => {
  const { made, order, holds, runs } = chains(4, 2)
  const [one, two] = made as [number[], number[]]
  expect(order()).toEqual([...one.toReversed(), ...two.toReversed()])
  runs.hold(Uint32Array.from(one), 4)
  expect([holds(one), order()]).toEqual([[1, 1, 1, 1], two.toReversed()])
  runs.drop(Uint32Array.from(one), 4)
  expect([holds(one), order()]).toEqual([
    [0, 0, 0, 0],
    [...two.toReversed(), ...one.toReversed()],
  ])
})

it('holds a prefix once more where two runs share it', () => {
  const { made, order, holds, runs } = chains(4)
  const [ids] = made as [number[]]
  runs.hold(Uint32Array.from(ids), 4)
  runs.hold(Uint32Array.from(ids), 2)
  expect(holds(ids)).toEqual([1, 2, 1, 1])
  runs.drop(Uint32Array.from(ids), 4)
  expect([holds(ids), order()]).toEqual([
    [1, 1, 0, 0],
    [ids[3], ids[2]],
  ])
  runs.drop(Uint32Array.from(ids), 2)
  expect(holds(ids)).toEqual([0, 0, 0, 0])
})

it('holds each chunk that the one behind it does not hold', () => {
  const { made, holds, runs } = chains(3, 2, 1)
  const ids = made.flat()
  runs.hold(Uint32Array.from(ids), ids.length)
  expect(holds(ids)).toEqual([1, 1, 1, 1, 1, 1])
  const reversed = Uint32Array.from(ids.toReversed())
  runs.hold(reversed, ids.length)
  runs.drop(Uint32Array.from(ids), ids.length)
  expect(holds(ids)).toEqual([2, 2, 1, 2, 1, 1])
  runs.drop(reversed, ids.length)
  expect(holds(ids)).toEqual([0, 0, 0, 0, 0, 0])
})
