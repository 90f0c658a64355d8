import { expect, it } from 'vitest'
import { CounterTable } from '../../../src/core/counters.ts'
import type { TenantId } from '../../../src/core/ids.ts'
import { L0_BLOCK_EVICTED, L0_BLOCK_REUSED } from '../../../src/events/catalogue.ts'
import { L0_FIELDS, L0_TENANT_FIELDS } from '../../../src/events/counters.ts'
import { ObservedL0 } from '../../../src/l0/observed-l0.ts'
import { L0_DEFAULTS } from '../../../src/l0/options.ts'
import { recordingSink } from '../../support/l0.ts'

const BLOCK = 4
const TENANT = 1 as TenantId

/** One server with blocks of 4 tokens; `tell` reports for a request, times in seconds. */
function observed(observedBlocksMax = 4096) {
  const sink = recordingSink()
  const tenants = new CounterTable(L0_TENANT_FIELDS, 4)
  const totals = new CounterTable(L0_FIELDS, 1)
  const l0 = new ObservedL0({ ...L0_DEFAULTS, observedBlocksMax }, { events: sink, tenants, totals })
  const reporter = { peer: {}, instanceId: 7n, model: 'm' }
  const blocks = l0.of(reporter)
  const tell = (atSeconds: number, request: string, ids: number[], tokens: number[], tenant = TENANT) => {
    blocks.report(request, tenant, Uint32Array.from(ids), Uint32Array.from(tokens), BLOCK, atSeconds * 1000)
    l0.verify()
  }
  const end = (atSeconds: number, request: string) => {
    l0.endRequest(reporter.peer, request, atSeconds * 1000)
    l0.verify()
  }
  const counts = (tenant = TENANT) =>
    (['allocatedBlocks', 'reusedBlocks', 'evictedBlocks'] as const).map((field) => tenants.get(tenant, field))
  return { l0, reporter, blocks, sink, totals, tell, end, counts }
}

/** `count` tokens from `first`. */
const run = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index)

it('tells the lifetime and the idle time of a block whose id is given to other tokens', () => {
  const { tell, end, sink, counts } = observed()
  tell(10, 'a', [1], run(0, 4))
  end(25, 'a')
  tell(40, 'b', [1], run(100, 4))
  expect(sink.published).toEqual([{ type: L0_BLOCK_EVICTED, tenant: TENANT, a: 30, b: 15, c: 1 }])
  expect(counts()).toEqual([2, 0, 1])
})

it('counts the leading blocks that are reported with the same tokens as reused, since the last request ended', () => {
  const { tell, end, sink, counts } = observed()
  tell(0, 'a', [1, 2, 3], run(0, 12))
  end(5, 'a')
  tell(7, 'b', [1, 2, 9], [...run(0, 8), ...run(50, 4)])
  expect(sink.published).toEqual([1, 2].map(() => ({ type: L0_BLOCK_REUSED, tenant: TENANT, a: 2, b: 1, c: 0 })))
  expect(counts()).toEqual([4, 2, 0])
})

it('counts a block that several requests share as reused, and as used until the last of them ends', () => {
  const { tell, end, totals, counts, blocks } = observed()
  tell(0, 'a', [1], run(0, 4))
  tell(1, 'b', [1], run(0, 4))
  expect(counts()).toEqual([1, 1, 0])
  end(2, 'a')
  expect(blocks.usedBlocks).toBe(1)
  end(3, 'b')
  expect([totals.get(0, 'observedBlocks'), totals.get(0, 'observedUsedBlocks')]).toEqual([1, 0])
})

it('finds nothing behind the first block that is new, whatever its tokens', () => {
  const { tell, end, counts } = observed()
  tell(0, 'a', [1, 2], run(0, 8))
  end(1, 'a')
  tell(2, 'b', [1, 2], [...run(90, 4), ...run(4, 4)])
  expect(counts()).toEqual([4, 0, 2])
})

it('knows a block again that was filled after it was reported', () => {
  const { tell, end, counts } = observed()
  tell(0, 'a', [1, 2], run(0, 5)) // block 2: one token so far
  end(9, 'a')
  tell(10, 'b', [1, 2], run(0, 8))
  expect(counts()).toEqual([2, 2, 0])
  end(11, 'b')
  tell(12, 'c', [1, 2], [...run(0, 5), 1, 2, 3]) // not what it was filled with
  expect(counts()).toEqual([3, 3, 1])
})

it('takes a block in part, or one of which nothing was known, for a new one', () => {
  const { tell, end, counts } = observed()
  tell(0, 'a', [1, 2], run(0, 4)) // of block 2 no token is known
  tell(1, 'b', [3], [5])
  end(2, 'a')
  end(2, 'b')
  tell(3, 'c', [1, 2], run(0, 8))
  tell(3, 'd', [3], [5])
  expect(counts()).toEqual([5, 1, 2])
})

it('goes on with a request block by block, and starts it again after a preemption', () => {
  const { tell, end, counts, blocks } = observed()
  tell(0, 'a', [1, 2], run(0, 8))
  tell(1, 'a', [3], run(8, 4))
  expect(counts()).toEqual([3, 0, 0])
  tell(2, 'b', [3], run(70, 4)) // taken from the preempted request
  expect(counts()).toEqual([4, 0, 1])
  tell(3, 'a', [1, 2, 4], run(0, 12))
  expect(counts()).toEqual([5, 2, 1])
  expect(blocks.usedBlocks).toBe(4)
  end(4, 'a')
  expect(blocks.usedBlocks).toBe(1)
})

it('tells an eviction under the tenant that the block was allocated for', () => {
  const { tell, counts, sink } = observed()
  tell(0, 'a', [1], run(0, 4), 2 as TenantId)
  tell(1, 'b', [1], run(9, 4))
  expect(sink.published).toMatchObject([{ type: L0_BLOCK_EVICTED, tenant: 2 }])
  expect(counts(2 as TenantId)).toEqual([1, 0, 1])
  expect(counts()).toEqual([1, 0, 0])
})

it('leaves out the placeholder block', () => {
  const { tell, counts } = observed()
  tell(0, 'a', [0, 0, 1], run(0, 12))
  tell(1, 'b', [0, 0, 1], [...run(50, 8), ...run(8, 4)])
  expect(counts()).toEqual([1, 1, 0])
})

it('refuses ids past its limit, and counts them', () => {
  const { tell, l0, counts } = observed(100)
  tell(0, 'a', [1, 99, 100, 2 ** 32 - 1], run(0, 16))
  expect(l0.status()).toMatchObject({ blocks: 2, refusedBlocks: 2 })
  expect(counts()).toEqual([2, 0, 0])
})

it('evicts nothing when a server goes away, and gives its room to others', () => {
  const { tell, l0, reporter, sink, totals } = observed(1024)
  tell(0, 'a', [1000], run(0, 4))
  const other = { peer: {}, instanceId: 7n, model: 'm' }
  const report = () => l0.of(other).report('r', TENANT, Uint32Array.of(3), Uint32Array.from(run(0, 4)), BLOCK, 0)
  report()
  expect(l0.status()).toMatchObject({ servers: 2, blocks: 1, refusedBlocks: 1 })
  l0.peerGone(reporter.peer)
  report()
  l0.verify()
  expect(l0.status()).toMatchObject({ servers: 1, blocks: 1, refusedBlocks: 1, forgottenServers: 1 })
  expect(totals.get(0, 'observedBlocks')).toBe(1)
  expect(sink.published).toEqual([])
  l0.instanceGone(7n)
  expect(l0.status()).toMatchObject({ servers: 0, blocks: 0, usedBlocks: 0, requests: 0 })
})

it('keeps two schedulers of one process number apart', () => {
  const { tell, l0, counts } = observed()
  tell(0, 'a', [1], run(0, 4))
  const twin = l0.of({ peer: {}, instanceId: 7n, model: 'm' })
  twin.report('a', TENANT, Uint32Array.of(1), Uint32Array.from(run(50, 4)), BLOCK, 0)
  expect(counts()).toEqual([2, 0, 0])
})

it('forgets the server that reported longest ago for a 65th', () => {
  const { tell, l0, reporter } = observed(65 * 1024)
  tell(0, 'a', [1], run(0, 4))
  for (let server = 0; server < 63; server += 1) l0.of({ peer: {}, instanceId: BigInt(server), model: 'm' })
  l0.of(reporter)
  l0.of({ peer: {}, instanceId: 64n, model: 'm' })
  expect(l0.status()).toMatchObject({ servers: 64, blocks: 1, forgottenServers: 1 })
})

it('lets go of the oldest of more requests than it remembers', () => {
  const { blocks, l0 } = observed(8192)
  for (let request = 0; request < 5000; request += 1) {
    blocks.report(`${request}`, TENANT, Uint32Array.of(request + 1), new Uint32Array(4).fill(request), BLOCK, 0)
  }
  l0.verify()
  expect(l0.status()).toMatchObject({ blocks: 5000, usedBlocks: 4096, requests: 4096 })
})
