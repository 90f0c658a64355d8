import { beforeAll, describe, expect, it } from 'vitest'
import { loadMooncakeTrace } from '../../src/replay/mooncake-trace.ts'
import { type PrefixTrace, prefixTraceOf } from '../../src/replay/prefix-nodes.ts'
import { referenceLru } from '../../src/replay/reference-lru.ts'
import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { CONVERSATION_TRACE, withConversationTrace } from '../support/public-trace.ts'
import { replayOnL1 } from '../support/replay-run.ts'
import { chats, deepChain, scans, tenants } from '../support/trace-shapes.ts'

/** Half a point. */
const TOLERANCE = 0.005

async function expectNearExact(batch: TraceBatch, trace: PrefixTrace, l1Chunks: number): Promise<number> {
  const { counts, cells } = await replayOnL1(batch, l1Chunks)
  const exact = referenceLru(trace, l1Chunks)
  expect(counts.blockRefs).toBe(exact.blockRefs)
  expect(Math.abs(counts.hitRatio - exact.hitRatio), `at ${l1Chunks} chunks`).toBeLessThan(TOLERANCE)
  if (l1Chunks < trace.distinct * 0.9) {
    expect(cells.l1.get(0, 'loopTriggered'), `trims at ${l1Chunks} chunks`).toBeGreaterThan(0)
  }
  return counts.hitRatio
}

const SHAPES = [
  { name: 'chats that grow turn by turn', shape: chats, requests: 4_000 },
  { name: 'many tenants with system prompts', shape: tenants, requests: 5_000 },
  { name: 'a hot set among prompts that come once', shape: scans, requests: 5_000 },
  { name: 'one deep chain', shape: deepChain, requests: 150 },
]
const cases = SHAPES.flatMap((shape) => [1, 2].map((seed) => ({ ...shape, seed })))

describe('the engine with its default options hits what exact leaf-first LRU hits, within half a point', () => {
  it.each(cases)('on $name (seed $seed)', async ({ shape, requests, seed }) => {
    const batch = shape(seed, requests)
    const trace = prefixTraceOf(batch)
    for (const ratio of [0.03, 0.1, 0.25, 0.5, 0.8]) {
      await expectNearExact(batch, trace, Math.ceil(trace.distinct * ratio))
    }
  })
})

describe('the engine on the Mooncake conversation trace', withConversationTrace, () => {
  let batch: TraceBatch
  let trace: PrefixTrace
  beforeAll(async () => {
    batch = await loadMooncakeTrace(CONVERSATION_TRACE, { partialBlocks: 'count' })
    trace = prefixTraceOf(batch)
  })

  it.each([
    [9_139, 0.1958],
    [18_279, 0.2789],
    [45_697, 0.3535],
    [200_000, 0.3664], // more than there are
  ])('hits what exact LRU hits at %i blocks, within half a point', async (l1Chunks, published) => {
    const hitRatio = await expectNearExact(batch, trace, l1Chunks)
    expect(Math.abs(hitRatio - published)).toBeLessThan(TOLERANCE)
  })
})
