import { describe, expect, it } from 'vitest'
import type { L1PolicyName } from '../../src/l1/options.ts'
import { belady } from '../../src/replay/belady.ts'
import { prefixTraceOf } from '../../src/replay/prefix-nodes.ts'
import { referenceLru } from '../../src/replay/reference-lru.ts'
import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { replayOnL1 } from '../support/replay-run.ts'
import { chats, loops, phases, popular, scans, sessions, tenants } from '../support/trace-shapes.ts'
import { branches, tides } from '../support/trace-strangers.ts'
import { weather } from '../support/trace-tuning.ts'

/** Points, as a share: what the adaptive policy may lose against LRU on the same engine. */
const LOSS_MAX = 0.003
const SHARES = [0.02, 0.1]

/** What an engine hits by the adaptive policy and by LRU, what exact LRU hits, and what could be hit. */
async function hits(batch: TraceBatch, share: number) {
  const trace = prefixTraceOf(batch)
  const chunks = Math.ceil(trace.distinct * share)
  const ratioBy = async (policy: L1PolicyName) => (await replayOnL1(batch, chunks, () => {}, policy)).counts.hitRatio
  return {
    adaptive: await ratioBy('adaptive'),
    lru: await ratioBy('lru'),
    exact: referenceLru(trace, chunks).hitRatio,
    best: belady(trace, chunks).hitRatio,
  }
}

describe('the adaptive policy', () => {
  it.each([
    { name: 'chats', make: chats, seed: 11 },
    { name: 'sessions that end', make: sessions, seed: 12 },
    { name: 'shifting phases', make: phases, seed: 13 },
    { name: 'scans', make: scans, seed: 14 },
    { name: 'tenants', make: tenants, seed: 15 },
    { name: 'loads that follow each other', make: weather, seed: 16 },
    { name: 'loads that grow and fade', make: tides, seed: 17 },
    { name: 'branching agents', make: branches, seed: 18 },
  ])('loses next to nothing against LRU on $name (seed $seed)', async ({ make, seed }) => {
    for (const share of SHARES) {
      const { adaptive, lru, best } = await hits(make(seed, 4_000), share)
      expect(adaptive, `at ${share}`).toBeGreaterThan(lru - LOSS_MAX)
      expect(adaptive, `at ${share}`).toBeLessThanOrEqual(best)
    }
  })

  it.each([
    { name: 'scans', make: scans, seed: 21 },
    { name: 'popular prompts', make: popular, seed: 22 },
    { name: 'loops', make: loops, seed: 23 },
  ])('closes a quarter of the gap between LRU and Belady on $name (seed $seed)', async ({ make, seed }) => {
    const { adaptive, exact, best } = await hits(make(seed, 6_000), 0.05)
    expect((adaptive - exact) / (best - exact)).toBeGreaterThan(0.25)
  })
})
