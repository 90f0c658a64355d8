import { expect, it } from 'vitest'
import {
  CHUNK_WORDS,
  ChunkTable,
  GHOST,
  LIVE,
  META,
  NO_CHUNK,
  STATE_MASK,
  USE_KNOWN,
} from '../../../src/l1/chunk-table.ts'
import { chainOf } from '../../support/l1.ts'
import { random } from '../../support/random.ts'

const KEY = [0x1234_5678, 0x9abc_def1] as const

/** A hash whose eight words are given; the rest are 0. */
function hashOf(...words: number[]): Uint32Array {
  const hash = new Uint32Array(8)
  hash.set(words)
  return hash
}

it('tells chunks apart that differ in one word of the hash, or in the space only', () => {
  const table = new ChunkTable(64, KEY)
  const ids = new Set<number>()
  for (let word = 0; word < 8; word += 1) {
    const hash = hashOf(7, 7, 7, 7, 7, 7, 7, 7)
    hash[word] = 8
    ids.add(table.insert(0, hash, 0))
  }
  ids.add(table.insert(1, hashOf(8, 7, 7, 7, 7, 7, 7, 7), 0))
  expect(ids.size).toBe(9)
  expect(table.find(2, hashOf(8, 7, 7, 7, 7, 7, 7, 7), 0)).toBe(NO_CHUNK)
  table.verify()
})

it.each([1, 2, 3])('finds what a Map finds under inserts, deletes and ghosts (seed %i)', (seed) => {
  const table = new ChunkTable(100, KEY)
  const oracle = new Map<number, { id: number; state: number }>()
  const next = random(seed)
  const guess = random(seed + 100)
  for (let step = 0; step < 5000; step += 1) {
    const name = next(160)
    const hash = chainOf([name]).words
    const known = oracle.get(name)
    expect(table.find(0, hash, 0)).toBe(known?.id ?? NO_CHUNK)
    expect(table.findNear(table.firstId + guess(110), 0, hash, 0)).toBe(known?.id ?? NO_CHUNK)
    if (known !== undefined) expect(table.findNear(known.id, 0, hash, 0)).toBe(known.id)
    if (known === undefined) {
      const id = table.insert(0, hash, 0)
      expect(id === NO_CHUNK).toBe(oracle.size === 100)
      if (id !== NO_CHUNK) oracle.set(name, { id, state: LIVE })
    } else if (known.state === GHOST) {
      if (next(2) === 0) {
        table.fromGhost(known.id)
        known.state = LIVE
      } else {
        table.dropGhost(known.id)
        oracle.delete(name)
      }
    } else if (next(2) === 0) {
      table.toGhost(known.id, step, false)
      known.state = GHOST
    } else {
      table.unhash(known.id)
      table.free(known.id)
      oracle.delete(name)
    }
    table.verify()
    expect(table.freeCount).toBe(100 - oracle.size)
  }
})

it('forgets ghosts in the order of their eviction, and keeps the last use through one', () => {
  const table = new ChunkTable(8, KEY)
  const ids = [1, 2, 3].map((name) => table.insert(0, chainOf([name]).words, 0))
  table.words[ids[1]! * CHUNK_WORDS + META]! |= USE_KNOWN
  for (const id of ids) table.toGhost(id, 0, false)
  expect(table.oldestGhost()).toBe(ids[0])
  table.fromGhost(ids[1]!)
  expect(table.words[ids[1]! * CHUNK_WORDS + META]! & (STATE_MASK | USE_KNOWN)).toBe(LIVE | USE_KNOWN)
  table.dropGhost(ids[0]!)
  expect(table.oldestGhost()).toBe(ids[2])
})

it('spreads hashes that share most of their words over the buckets', () => {
  for (const word of [0, 1, 6, 7]) {
    const table = new ChunkTable(1 << 16, KEY)
    for (let value = 0; value < 1 << 16; value += 1) {
      const hash = new Uint32Array(8)
      hash[word] = value
      table.insert(3, hash, 0)
      if (table.find(3, hash, 0) === NO_CHUNK) throw new Error('lost')
    }
    expect(table.longestBucket()).toBeLessThan(16)
  }
})

it('takes 76 bytes a chunk and at most 8 for its bucket', () => {
  for (const capacity of [10_000, 65_537, 1_000_000]) {
    expect(new ChunkTable(capacity, KEY).bytes / capacity).toBeLessThan(76 + 8 + 0.1)
  }
})
