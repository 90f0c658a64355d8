import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { chunkTag } from '../../../src/events/chunk-tag.ts'
import { StackDistance } from '../../../src/metrics/reuse-distance.ts'
import { WouldHit } from '../../../src/metrics/would-hit.ts'
import { CONVERSATION_TRACE, withConversationTrace } from '../../support/public-trace.ts'
import { random } from '../../support/random.ts'

/** Tells the estimator of a prompt as the engine does. @returns chunks asked for so far. */
function ask(estimate: WouldHit, prompt: readonly number[], bytes: number, askedBefore: number): number {
  for (const id of [...prompt].reverse()) estimate.asked(chunkTag(id, 0, 0), bytes, askedBefore)
  return askedBefore + prompt.length
}

/** Oracle: an exact LRU of n chunks over whole prompts, prefix semantics, touched tail first. */
function exactHits(prompts: readonly (readonly number[])[], capacity: number): number {
  const cache = new Set<number>() // least recent first
  let hits = 0
  for (const prompt of prompts) {
    const miss = prompt.findIndex((id) => !cache.has(id))
    hits += miss < 0 ? prompt.length : miss
    for (const id of [...prompt].reverse()) {
      cache.delete(id)
      cache.add(id)
    }
    for (const oldest of cache) {
      if (cache.size <= capacity) break
      cache.delete(oldest)
    }
  }
  return hits
}

function treePrompts(seed: number, count: number): number[][] {
  const next = random(seed)
  return Array.from({ length: count }, () => {
    const prompt: number[] = []
    for (let depth = 0, node = 1; depth < 2 + next(10); depth += 1) {
      node = node * 3 + (next(4) === 0 ? next(3) : 0)
      prompt.push(node)
    }
    return prompt
  })
}

it.each([1, 2, 3])('agrees with an exact cache of each size while the history has room (seed %i)', (seed) => {
  const prompts = treePrompts(seed, 3_000)
  const estimate = new WouldHit(new StackDistance(32_768))
  let asked = 0
  for (const prompt of prompts) asked = ask(estimate, prompt, 1000, asked)
  expect(estimate.total).toBe(asked)
  for (const capacity of [10, 50, 200, 1_000]) {
    const exact = exactHits(prompts, capacity) / asked
    expect(Math.abs(estimate.ratioAtChunks(capacity) - exact)).toBeLessThan(0.005) // bins are 2 % wide
    expect(Math.abs(estimate.ratioAtBytes(capacity * 1000) - exact)).toBeLessThan(0.005)
  }
})

it('knows nothing before the first lookup and counts first sights as misses', () => {
  const estimate = new WouldHit(new StackDistance(32_768))
  expect([estimate.total, estimate.ratioAtBytes(1e12)]).toEqual([0, 0])
  ask(estimate, [1, 2, 3], 10, 500)
  expect([estimate.total, estimate.ratioAtBytes(1e12)]).toEqual([3, 0])
  ask(estimate, [1, 2, 3], 10, 503)
  expect([estimate.total, estimate.ratioAtBytes(30), estimate.ratioAtBytes(1)]).toEqual([6, 0.5, 0])
})

it('grows with the size', () => {
  const estimate = new WouldHit(new StackDistance(256))
  let asked = 0
  for (const prompt of treePrompts(9, 2_000)) asked = ask(estimate, prompt, 7, asked)
  const curve = estimate.curve([7, 70, 700, 7_000, 70_000])
  expect([...curve].sort((a, b) => a - b)).toEqual(curve)
})

it('stops correcting by the chunks asked for once events were lost', () => {
  const estimate = new WouldHit(new StackDistance(32_768))
  ask(estimate, [1, 2], 10, 0)
  estimate.noteLoss()
  ask(estimate, [1, 2], 10, 1_000_000)
  expect(estimate.total).toBe(4)
  expect(estimate.ratioAtChunks(2)).toBe(0.5)
})

it('estimates the hit ratios of the public conversation trace within a point', withConversationTrace, () => {
  const estimate = new WouldHit(new StackDistance(32_768))
  let asked = 0
  for (const line of readFileSync(CONVERSATION_TRACE, 'utf8').split('\n')) {
    if (line === '') continue
    const { hash_ids: prompt } = JSON.parse(line) as { hash_ids: number[] }
    asked = ask(estimate, prompt, 4096, asked)
  }
  const found = [9_139, 18_279, 45_697].map((chunks) => 100 * estimate.ratioAtChunks(chunks))
  const expected = [19.58, 27.89, 35.35]
  for (const [i, percent] of expected.entries()) expect(Math.abs(found[i]! - percent)).toBeLessThan(1)
  expect(estimate.distances.rate).toBeLessThan(1)
})
