import { describe, expect, it } from 'vitest'
import {
  CHILDREN,
  CHUNK_WORDS,
  ChunkTable,
  FIRST_SHARD,
  HOLDS,
  LIVE,
  META,
  NO_CHUNK,
  PARENT,
  STATE_MASK,
} from '../../src/l1/chunk-table.ts'
import { HoldTree } from '../../src/l1/holds.ts'
import { L1_POLICIES, type L1PolicyName } from '../../src/l1/options.ts'
import { makePolicy } from '../../src/l1/policies/make-policy.ts'
import { chainOf } from '../support/l1.ts'
import { random } from '../support/random.ts'

/** The least that a policy needs around it: records, holds, and who is whose child. */
class Driver {
  readonly table: ChunkTable
  readonly policy
  readonly holds: HoldTree
  readonly limit: number
  live = 0
  evicted: number[] = []

  constructor(name: L1PolicyName, limit: number) {
    this.limit = limit
    this.table = new ChunkTable(limit * 2, [1, 2])
    this.policy = makePolicy(name, this.table)
    this.holds = new HoldTree(this.table, this.policy, () => {
      throw new Error('a chunk with a shard left by itself')
    })
  }

  /** As the engine: holds what is there, makes room for and adds the rest, lets go tail first. */
  request(path: number[]): void {
    const chain = chainOf(path)
    const ids: number[] = []
    for (let index = 0; index < chain.count; index += 1) {
      const found = this.table.find(0, chain.words, index * 8)
      if (found !== NO_CHUNK) {
        this.holds.hold(found)
        this.policy.touch(found)
        ids.push(found)
        continue
      }
      if (this.live === this.limit && !this.evict()) break
      const id = this.table.insert(0, chain.words, index * 8)
      const parent = ids.at(-1) ?? NO_CHUNK
      this.table.words[id * CHUNK_WORDS + FIRST_SHARD] = 1
      this.holds.bear(id, parent)
      this.table.words[parent * CHUNK_WORDS + CHILDREN]! += parent === NO_CHUNK ? 0 : 1
      this.live += 1
      ids.push(id)
    }
    for (const id of ids.reverse()) this.holds.drop(id)
  }

  find(path: number[]): number {
    return this.table.find(0, chainOf(path).words, (path.length - 1) * 8)
  }

  evict(): boolean {
    const words = this.table.words
    const id = this.policy.victim()
    if (id === NO_CHUNK) return false
    expect(this.policy.victim()).toBe(id)
    expect(words[id * CHUNK_WORDS + META]! & STATE_MASK).toBe(LIVE)
    expect([words[id * CHUNK_WORDS + HOLDS], words[id * CHUNK_WORDS + CHILDREN]]).toEqual([0, 0])
    const parent = words[id * CHUNK_WORDS + PARENT]!
    this.policy.forget(id, true)
    this.table.unhash(id)
    this.table.free(id)
    this.live -= 1
    this.evicted.push(id)
    if (parent === NO_CHUNK) return true
    words[parent * CHUNK_WORDS + CHILDREN]! -= 1
    if (words[parent * CHUNK_WORDS + CHILDREN] === 0 && words[parent * CHUNK_WORDS + HOLDS] === 0) {
      this.policy.ripen(parent)
    }
    return true
  }

  /** Free chunks without children: what a policy may choose from. */
  candidates(): number {
    let count = 0
    for (let id = this.table.firstId; id < this.table.endId; id += 1) {
      const record = id * CHUNK_WORDS
      const isLive = (this.table.words[record + META]! & STATE_MASK) === LIVE
      count += isLive && this.table.words[record + HOLDS] === 0 && this.table.words[record + CHILDREN] === 0 ? 1 : 0
    }
    return count
  }
}

describe.each(L1_POLICIES)('policy %s', (name) => {
  it.each([1, 2, 3])('names a free chunk without children whenever there is one (seed %i)', (seed) => {
    const driver = new Driver(name, 60)
    const next = random(seed)
    const held: number[] = []
    for (let step = 0; step < 3000; step += 1) {
      const path = Array.from({ length: 1 + next(6) }, () => next(4))
      const action = next(4)
      if (action < 2) driver.request(path)
      else if (action === 2) {
        const id = driver.find(path)
        if (id !== NO_CHUNK && next(2) === 0) {
          driver.holds.hold(id)
          held.push(id)
        } else if (held.length > 0) driver.holds.drop(held.splice(next(held.length), 1)[0]!)
      } else if (next(3) === 0) driver.holds.touch(driver.find(path))
      else {
        const isPossible = driver.candidates() > 0
        expect(driver.evict()).toBe(isPossible)
      }
      driver.policy.verify()
      driver.table.verify()
    }
    for (const id of held) driver.holds.drop(id)
    while (driver.evict()) driver.policy.verify()
    expect(driver.live).toBe(0)
  })

  it('drains long chains in time that grows with their length, not with its square', () => {
    const driver = new Driver(name, 200_000)
    for (let chain = 0; chain < 20; chain += 1) {
      driver.request(Array.from({ length: 10_000 }, (_, index) => (index === 0 ? chain : 0)))
    }
    for (let evicted = 0; evicted < 200_000; evicted += 1) {
      const id = driver.policy.victim()
      const parent = driver.table.words[id * CHUNK_WORDS + PARENT]!
      driver.policy.forget(id, true)
      driver.table.unhash(id)
      driver.table.free(id)
      if (parent === NO_CHUNK) continue
      driver.table.words[parent * CHUNK_WORDS + CHILDREN] = 0
      driver.policy.ripen(parent)
    }
    expect(driver.policy.victim()).toBe(NO_CHUNK)
  })
})

it.each(['lru', 's3-fifo', 'arc'] as const)('%s keeps no more than twelve bytes a chunk beyond the table', (name) => {
  const { policy, table } = new Driver(name, 10_000)
  expect(policy.bytes / table.capacity).toBeLessThan(12)
})

it('adaptive keeps no more than twelve bytes a chunk beyond the table, and 256 KiB that do not grow', () => {
  const [small, large] = [new Driver('adaptive', 1_000), new Driver('adaptive', 101_000)]
  const grown = large.table.capacity - small.table.capacity
  expect((large.policy.bytes - small.policy.bytes) / grown).toBeLessThan(12)
  expect(small.policy.bytes - 12 * small.table.capacity).toBeLessThan(256 * 1024)
})

it.each(['s3-fifo', 'arc'] as const)('%s keeps what was asked for again through a scan of strangers', (name) => {
  const driver = new Driver(name, 100)
  const hot = Array.from({ length: 40 }, (_, index) => [index])
  for (let round = 0; round < 3; round += 1) for (const path of hot) driver.request(path)
  for (let stranger = 1000; stranger < 1500; stranger += 1) driver.request([stranger])
  expect(hot.filter((path) => driver.find(path) !== NO_CHUNK)).toHaveLength(40)
})

it('lru loses it', () => {
  const driver = new Driver('lru', 100)
  for (let round = 0; round < 3; round += 1) for (let index = 0; index < 40; index += 1) driver.request([index])
  for (let stranger = 1000; stranger < 1500; stranger += 1) driver.request([stranger])
  expect(driver.find([0])).toBe(NO_CHUNK)
})

it.each(['s3-fifo', 'arc'] as const)('%s prefers a chunk that it remembers having evicted', (name) => {
  const driver = new Driver(name, 100)
  for (let index = 0; index < 150; index += 1) driver.request([index])
  expect(driver.find([10])).toBe(NO_CHUNK)
  driver.request([10])
  for (let stranger = 1000; stranger < 1200; stranger += 1) driver.request([stranger])
  expect(driver.find([10])).not.toBe(NO_CHUNK)
})
