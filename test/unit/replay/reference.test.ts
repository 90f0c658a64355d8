import { describe, expect, it } from 'vitest'
import { belady } from '../../../src/replay/belady.ts'
import { loadMooncakeTrace } from '../../../src/replay/mooncake-trace.ts'
import { type PrefixTrace, prefixTraceOf } from '../../../src/replay/prefix-nodes.ts'
import { referenceLru } from '../../../src/replay/reference-lru.ts'
import { TraceBatch } from '../../../src/replay/trace-batch.ts'
import { CONVERSATION_TRACE, hasConversationTrace, withConversationTrace } from '../../support/public-trace.ts'
import { random } from '../../support/random.ts'

function prefixes(...requests: readonly (readonly number[])[]): PrefixTrace {
  const batch = new TraceBatch()
  for (const ids of requests) batch.push(0, ids.length * 512, 1, ids, ids.length)
  return prefixTraceOf(batch)
}

describe('prefixTraceOf', () => {
  it('gives equal prefixes one node, and equal ids behind other parents another', () => {
    const trace = prefixes([7, 8], [9, 8], [7, 8, 8])
    expect([...trace.nodes]).toEqual([0, 1, 2, 3, 0, 1, 4])
    expect(trace.distinct).toBe(5)
  })
})

describe('references on small traces', () => {
  const trace = prefixes([1, 2, 3], [4, 5], [1, 2, 3], [4, 5], [1, 2, 6])

  it('count every repeated prefix when nothing is evicted', () => {
    expect(belady(trace, Number.POSITIVE_INFINITY)).toEqual({ blockRefs: 13, blockHits: 7, hitRatio: 7 / 13 })
    expect(referenceLru(trace, Number.POSITIVE_INFINITY).blockHits).toBe(7)
  })

  it('exact LRU evicts tails first and so keeps heads', () => {
    // Only block 1 survives [4, 5], both times it comes.
    expect(referenceLru(trace, 3).blockHits).toBe(1 + 0 + 1)
    expect(referenceLru(trace, 3, 'head-first').blockHits).toBe(0)
  })

  it("Belady's MIN keeps what is needed soonest", () => {
    // [4, 5] is never kept: the first prompt hits whole, then its two blocks that are needed again.
    expect(belady(trace, 3).blockHits).toBe(3 + 0 + 2)
  })

  it('an empty trace has no hits', () => {
    expect(belady(prefixes(), 3)).toEqual({ blockRefs: 0, blockHits: 0, hitRatio: 0 })
    expect(referenceLru(prefixes([]), 3)).toEqual({ blockRefs: 0, blockHits: 0, hitRatio: 0 })
  })
})

/** The most hits of any sequence of choices: after each request keep any set of whole prefixes that fits. */
function bestPossible(trace: PrefixTrace, parents: ReadonlyMap<number, number>, capacity: number): number {
  const known = new Map<string, number>()
  const best = (request: number, resident: ReadonlySet<number>): number => {
    if (request === trace.requests) return 0
    const key = `${request}:${[...resident].sort((a, b) => a - b)}`
    const before = known.get(key)
    if (before !== undefined) return before
    const nodes = [...trace.nodes.subarray(trace.firstRef[request]!, trace.firstRef[request + 1]!)]
    let hits = 0
    while (hits < nodes.length && resident.has(nodes[hits]!)) hits += 1
    let most = 0
    for (const kept of subsets([...new Set([...resident, ...nodes])], capacity)) {
      const isWhole = [...kept].every((node) => parents.get(node) === undefined || kept.has(parents.get(node)!))
      if (isWhole) most = Math.max(most, best(request + 1, kept))
    }
    known.set(key, hits + most)
    return hits + most
  }
  return best(0, new Set())
}

function subsets(nodes: readonly number[], sizeMax: number): Set<number>[] {
  const sets: Set<number>[] = []
  for (let bits = 0; bits < 2 ** nodes.length; bits += 1) {
    const set = new Set(nodes.filter((_, index) => (bits >> index) & 1))
    if (set.size <= sizeMax) sets.push(set)
  }
  return sets
}

it.each([1, 2, 3, 4, 5, 6])('belady is the best of all possible choices (seed %i)', (seed) => {
  const next = random(seed)
  const requests = Array.from({ length: 7 }, () => {
    const ids = Array.from({ length: 1 + next(3) }, (_, depth) => depth * 10 + next(2))
    return ids
  })
  const trace = prefixes(...requests)
  const parents = new Map<number, number>()
  for (let request = 0; request < trace.requests; request += 1) {
    for (let ref = trace.firstRef[request]! + 1; ref < trace.firstRef[request + 1]!; ref += 1) {
      parents.set(trace.nodes[ref]!, trace.nodes[ref - 1]!)
    }
  }
  for (const capacity of [1, 2, 3]) {
    expect(belady(trace, capacity).blockHits, `capacity ${capacity}`).toBe(bestPossible(trace, parents, capacity))
    expect(referenceLru(trace, capacity).blockHits).toBeLessThanOrEqual(belady(trace, capacity).blockHits)
  }
})

describe('references on the Mooncake conversation trace', withConversationTrace, async () => {
  const trace = hasConversationTrace
    ? prefixTraceOf(await loadMooncakeTrace(CONVERSATION_TRACE, { partialBlocks: 'count' }))
    : prefixes()
  const percent = ({ hitRatio }: { hitRatio: number }): number => Math.round(hitRatio * 10_000) / 100

  it('has the requests and references that are known', () => {
    expect({ requests: trace.requests, refs: trace.nodes.length, distinct: trace.distinct }).toEqual({
      requests: 12_031,
      refs: 288_500,
      distinct: 182_790,
    })
  })

  it.each([
    [9_139, 19.58],
    [18_279, 27.89],
    [45_697, 35.35],
  ])('exact LRU of %i blocks', (blocks, expected) => expect(percent(referenceLru(trace, blocks))).toBe(expected))

  it('naive LRU of 9,139 blocks', () => expect(percent(referenceLru(trace, 9_139, 'head-first'))).toBe(19.54))

  it.each([9_139, Number.POSITIVE_INFINITY])("Belady's MIN of %d blocks", (blocks) => {
    expect(percent(belady(trace, blocks))).toBe(36.64)
  })
})
