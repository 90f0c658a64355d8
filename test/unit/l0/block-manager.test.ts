import { describe, expect, it } from 'vitest'
import { L0_BLOCK_EVICTED, L0_BLOCK_REUSED } from '../../../src/events/catalogue.ts'
import type { BlockManager } from '../../../src/l0/block-manager.ts'
import { BlockTable } from '../../../src/l0/block-table.ts'
import { heapGrowthBytes } from '../../support/heap.ts'
import { byteSpace, chainOf, makeBlocks, recordingSink } from '../../support/l0.ts'

const SPACE = 0

/** Computes a whole prompt into L0 and lets go of it. */
function cache(blocks: BlockManager, names: number[], space = SPACE): void {
  const table = new BlockTable(space)
  expect(blocks.allocate(table, chainOf(...names), 0, names.length)).toBe(true)
  blocks.publish(table, 0, names.length)
  blocks.release(table)
  blocks.verify()
}

/** 16 blocks of 16 bytes; chunks of space 0 take two. */
function makeCache(options = {}, events = recordingSink()) {
  const made = makeBlocks(options, events)
  made.blocks.registerSpace(SPACE, byteSpace(32))
  return made
}

describe('BlockManager', () => {
  it('finds the leading run of what was published, and nothing that is still being filled', () => {
    const { blocks } = makeCache()
    const table = new BlockTable(SPACE)
    const chain = chainOf(1, 2, 3)
    blocks.allocate(table, chain, 0, 3)
    expect(blocks.residentRun(SPACE, chain, 0, 3)).toBe(0)
    expect(blocks.publish(table, 0, 2)).toBe(2)
    expect(blocks.residentRun(SPACE, chain, 0, 3)).toBe(2)
    expect(blocks.residentRun(SPACE, chain, 1, 3)).toBe(1)
    expect(blocks.needsFill(table, 1)).toBe(false)
    expect(blocks.needsFill(table, 2)).toBe(true)
    blocks.release(table)
    expect(blocks.freeBlocks).toBe(12)
    blocks.verify()
  })

  it('evicts the least recently released prompt from its tail', () => {
    const { blocks } = makeCache()
    cache(blocks, [1, 2, 3, 4])
    cache(blocks, [5, 6, 7, 8])
    cache(blocks, [9])
    expect(blocks.residentRun(SPACE, chainOf(1, 2, 3, 4), 0, 4)).toBe(3)
    expect(blocks.residentRun(SPACE, chainOf(5, 6, 7, 8), 0, 4)).toBe(4)
  })

  it('counts a reuse as recent', () => {
    const { blocks } = makeCache()
    cache(blocks, [1, 2, 3, 4])
    cache(blocks, [5, 6, 7, 8])
    const table = new BlockTable(SPACE)
    expect(blocks.acquire(table, chainOf(1, 2, 3, 4), 0, 4)).toBe(true)
    blocks.release(table)
    cache(blocks, [9])
    expect(blocks.residentRun(SPACE, chainOf(1, 2, 3, 4), 0, 4)).toBe(4)
    expect(blocks.residentRun(SPACE, chainOf(5, 6, 7, 8), 0, 4)).toBe(3)
  })

  it('refuses what would need room from held chunks, and changes nothing', () => {
    const { blocks, tenants, events } = makeCache()
    cache(blocks, [1, 2])
    const holder = new BlockTable(SPACE)
    blocks.allocate(holder, chainOf(11, 12, 13, 14, 15), 0, 5)
    const table = new BlockTable(SPACE)
    // 6 blocks are free or evictable, but the two chunks that are there would be held by the request itself.
    expect(blocks.allocate(table, chainOf(1, 2, 3, 4), 0, 4)).toBe(false)
    expect(table.isEmpty).toBe(true)
    expect(events.published).toEqual([])
    expect(tenants.get(0, 'allocationFailures')).toBe(1)
    expect(tenants.get(0, 'reusedBlocks')).toBe(0)
    expect(blocks.residentRun(SPACE, chainOf(1, 2), 0, 2)).toBe(2)
    expect(blocks.allocate(table, chainOf(1, 2, 3), 0, 3)).toBe(true)
    expect(tenants.get(0, 'reusedBlocks')).toBe(4)
    blocks.verify()
  })

  it('takes no reference at all when one chunk of the range is absent', () => {
    const { blocks, tenants } = makeCache()
    cache(blocks, [1, 2])
    const table = new BlockTable(SPACE)
    expect(blocks.acquire(table, chainOf(1, 2, 3), 0, 3)).toBe(false)
    expect(table.isEmpty).toBe(true)
    expect(tenants.get(0, 'reusedBlocks')).toBe(0)
    blocks.verify()
  })

  it('keeps one copy of a chunk that two requests computed at the same time', () => {
    const { blocks } = makeCache()
    const [first, second] = [new BlockTable(SPACE), new BlockTable(SPACE)]
    blocks.allocate(first, chainOf(1), 0, 1)
    blocks.allocate(second, chainOf(1), 0, 1)
    expect(blocks.publish(first, 0, 1)).toBe(1)
    expect(blocks.publish(second, 0, 1)).toBe(0)
    expect(blocks.needsFill(second, 0)).toBe(false)
    blocks.verify()
    blocks.release(second)
    blocks.release(first)
    expect(blocks.cachedBlocks).toBe(2)
    expect(blocks.freeBlocks).toBe(14)
  })

  it('shares a chunk between requests and keeps it while one of them holds it', () => {
    const { blocks } = makeCache()
    cache(blocks, [1])
    const [first, second] = [new BlockTable(SPACE), new BlockTable(SPACE)]
    blocks.acquire(first, chainOf(1), 0, 1)
    blocks.acquire(second, chainOf(1), 0, 1)
    expect(first.runOf(0)).toBe(second.runOf(0))
    blocks.release(first)
    blocks.release(first)
    cache(blocks, [2, 3, 4, 5, 6, 7, 8])
    cache(blocks, [12, 13, 14, 15, 16, 17, 18])
    expect(blocks.residentRun(SPACE, chainOf(1), 0, 1)).toBe(1)
  })

  it('keeps a tail without identity for its holder alone', () => {
    const { blocks } = makeCache()
    const table = new BlockTable(SPACE)
    blocks.allocate(table, chainOf(1), 0, 1)
    expect(blocks.allocateTail(table, 17)).toBe(true)
    const numbers = new Int32Array(16)
    expect(blocks.blocksOf(table, numbers)).toBe(4)
    expect(new Set(numbers.subarray(0, 4)).size).toBe(4)
    blocks.release(table)
    expect(blocks.freeBlocks).toBe(16)
    blocks.verify()
  })

  it('serves spaces of different block bytes from one pool, in one recency order', () => {
    const { blocks } = makeCache()
    blocks.registerSpace(1, byteSpace(90, 1))
    expect(blocks.blocksPerChunk(1)).toBe(6)
    cache(blocks, [1, 2, 3, 4])
    cache(blocks, [1], 1)
    cache(blocks, [2], 1)
    expect(blocks.residentRun(1, chainOf(1), 0, 1)).toBe(1)
    expect(blocks.residentRun(SPACE, chainOf(1, 2, 3, 4), 0, 4)).toBe(2)
    cache(blocks, [3], 1)
    expect(blocks.residentRun(SPACE, chainOf(1), 0, 1)).toBe(0)
    expect(blocks.residentRun(1, chainOf(2), 0, 1)).toBe(1)
  })

  it('cuts the pool by the first model, within the bound on blocks', () => {
    const { blocks, totals } = makeBlocks({ blockBytes: 0, blockTokens: 16, capacityBytes: 6400 })
    expect(blocks.capacityBlocks).toBe(0)
    blocks.registerSpace(0, { ...byteSpace(64), chunkBytes: 256 })
    expect(blocks.blockBytes).toBe(64)
    expect(totals.get(0, 'capacityBlocks')).toBe(100)
    blocks.registerSpace(1, byteSpace(256, 1))
    expect(blocks.capacityBlocks).toBe(100)
    const coarse = makeBlocks({ blockBytes: 1, blocksMax: 8 }).blocks
    coarse.registerSpace(0, byteSpace(64))
    expect(coarse.capacityBlocks).toBe(8)
  })

  it('forgets a removed space at once and frees held chunks with their last hold', () => {
    const { blocks, tenants, events } = makeCache()
    blocks.registerSpace(1, byteSpace(32, 1))
    cache(blocks, [1, 2])
    cache(blocks, [3], 1)
    const [reader, filler] = [new BlockTable(SPACE), new BlockTable(SPACE)]
    blocks.acquire(reader, chainOf(1), 0, 1)
    blocks.allocate(filler, chainOf(9), 0, 1)
    expect(blocks.removeSpace(SPACE)).toBe(4)
    blocks.verify()
    expect(blocks.residentRun(SPACE, chainOf(1, 2), 0, 2)).toBe(0)
    expect(blocks.residentRun(1, chainOf(3), 0, 1)).toBe(1)
    expect(blocks.publish(filler, 0, 1)).toBe(0)
    expect(blocks.residentRun(SPACE, chainOf(9), 0, 1)).toBe(0)
    blocks.release(reader)
    blocks.release(filler)
    expect(blocks.freeBlocks).toBe(14)
    expect(blocks.clear()).toBe(2)
    expect(blocks.freeBlocks).toBe(16)
    expect(tenants.sum('evictedBlocks')).toBe(0)
    expect(events.published.filter(({ type }) => type === L0_BLOCK_EVICTED)).toEqual([])
    blocks.verify()
  })

  it('holds nothing and breaks nothing with a pool smaller than one block', () => {
    const { blocks } = makeCache({ capacityBytes: 8 })
    const table = new BlockTable(SPACE)
    expect(blocks.allocate(table, chainOf(1), 0, 1)).toBe(false)
    expect(blocks.residentRun(SPACE, chainOf(1), 0, 1)).toBe(0)
    expect(blocks.clear()).toBe(0)
    blocks.verify()
  })
})

it('a request allocates no memory of the host for its blocks and chunks', () => {
  const silent = { published: [], publish: () => {} }
  const { blocks } = makeCache({ capacityBytes: 64 * 1024 }, silent)
  const chains = Array.from({ length: 40 }, (_, i) => chainOf(...Array.from({ length: 64 }, (_, at) => i * 64 + at)))
  const table = new BlockTable(SPACE)
  const request = (round: number) => {
    const chain = chains[(round * 7) % chains.length]!
    const to = blocks.residentRun(SPACE, chain, 0, 64)
    blocks.acquire(table, chain, 0, to)
    blocks.allocate(table, chain, to, 64)
    blocks.publish(table, to, 64)
    blocks.release(table)
  }
  const rounds = () => {
    for (let round = 0; round < 2000; round += 1) request(round)
  }
  for (let turn = 0; turn < 5; turn += 1) rounds() // the compiler works in the background
  expect(heapGrowthBytes(rounds)).toBeLessThan(256 * 1024) // 128,000 chunks, 256,000 blocks
})

describe('the lives of blocks', () => {
  it('are told in an event for the blocks of a chunk, with the seconds since the access before', () => {
    const { blocks, clock, events, tenants } = makeCache()
    cache(blocks, [1])
    clock.advance(3000)
    const table = new BlockTable(SPACE)
    blocks.acquire(table, chainOf(1), 0, 1)
    clock.advance(2000)
    blocks.release(table)
    clock.advance(5000)
    cache(blocks, [2, 3, 4, 5, 6, 7, 8, 9])
    expect(events.published).toEqual([
      { type: L0_BLOCK_REUSED, tenant: 0, a: 3, b: 2, c: 0 },
      { type: L0_BLOCK_EVICTED, tenant: 0, a: 10, b: 7, c: 2 },
    ])
    expect(tenants.get(0, 'allocatedBlocks')).toBe(18)
    expect(tenants.get(0, 'reusedBlocks')).toBe(2)
    expect(tenants.get(0, 'evictedBlocks')).toBe(2)
  })

  it('are told for a sample of chunks, and counted for all', () => {
    const { blocks, events, tenants } = makeCache({ lifecycleSampleEvery: 4 })
    for (let name = 1; name <= 808; name += 1) cache(blocks, [name])
    expect(tenants.get(0, 'evictedBlocks')).toBe(1600)
    expect(events.published.length).toBeGreaterThan(200)
    expect(events.published.length).toBeLessThan(600)
  })
})

describe('a block with a transfer in flight', () => {
  it('is neither evicted nor freed before its fence, though its request is gone', () => {
    const { blocks } = makeCache()
    const table = new BlockTable(SPACE)
    blocks.allocate(table, chainOf(1), 0, 1)
    blocks.publish(table, 0, 1)
    const run = table.runOf(0)
    blocks.holdForTransfer(run, 'store')
    blocks.release(table)
    cache(blocks, [2, 3, 4, 5, 6, 7, 8])
    cache(blocks, [12, 13, 14, 15, 16, 17, 18])
    expect(blocks.residentRun(SPACE, chainOf(1), 0, 1)).toBe(1)
    blocks.settleTransfer(run, 'store')
    blocks.verify()
    cache(blocks, [21, 22, 23, 24, 25, 26, 27, 28])
    expect(blocks.residentRun(SPACE, chainOf(1), 0, 1)).toBe(0)
  })

  it('of an abandoned load comes back only when the load has ended', () => {
    const { blocks } = makeCache()
    const table = new BlockTable(SPACE)
    blocks.allocate(table, chainOf(1), 0, 1)
    const run = table.runOf(0)
    blocks.holdForTransfer(run, 'load')
    blocks.release(table)
    expect(blocks.freeBlocks).toBe(14)
    blocks.settleTransfer(run, 'load')
    expect(blocks.freeBlocks).toBe(16)
    blocks.verify()
  })

  it('is never read and written at once', () => {
    const { blocks } = makeCache()
    const table = new BlockTable(SPACE)
    blocks.allocate(table, chainOf(1), 0, 1)
    const run = table.runOf(0)
    expect(() => blocks.holdForTransfer(run, 'store')).toThrow('wrong direction')
    blocks.holdForTransfer(run, 'load')
    expect(() => blocks.publish(table, 0, 1)).toThrow('load is in flight')
    blocks.settleTransfer(run, 'load')
    blocks.publish(table, 0, 1)
    expect(() => blocks.holdForTransfer(run, 'load')).toThrow('wrong direction')
  })
})
