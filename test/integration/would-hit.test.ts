import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/core/clock.ts'
import type { MetricCells } from '../../src/metrics/cells.ts'
import { READINGS } from '../../src/metrics/readings.ts'
import { Recorder } from '../../src/metrics/recorder.ts'
import { loadMooncakeTrace } from '../../src/replay/mooncake-trace.ts'
import { prefixTraceOf } from '../../src/replay/prefix-nodes.ts'
import { referenceLru } from '../../src/replay/reference-lru.ts'
import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { CONVERSATION_TRACE, withConversationTrace } from '../support/public-trace.ts'
import { replayOnL1 } from '../support/replay-run.ts'
import { chats, deepChain, scans, tenants } from '../support/trace-shapes.ts'

/** One point. */
const TOLERANCE = 0.01
const EVENTS_MAX = 2 ** 16

/** Replays a trace with the recorder's default history, drained between requests, as the service thread does. */
async function estimates(batch: TraceBatch, l1Chunks: number) {
  let recorder: Recorder | undefined
  const onTurn = (cells: MetricCells) => {
    recorder ??= new Recorder(cells)
    while (recorder.drain(EVENTS_MAX) === EVENTS_MAX);
  }
  const { cells } = await replayOnL1(batch, l1Chunks, onTurn)
  expect(cells.bus.dropped()).toBe(0)
  const context = { cells, recorder: recorder!, clock: new ManualClock(), facts: {} }
  return { recorder: recorder!, rows: READINGS.wouldHitRatio(context) }
}

async function expectTrue(batch: TraceBatch, l1Chunks: number): Promise<Recorder> {
  const trace = prefixTraceOf(batch)
  const { recorder, rows } = await estimates(batch, l1Chunks)
  expect(rows.map(([[scale]]) => scale)).toEqual(['0.5', '1', '2', '4'])
  for (const [[scale], ratio] of rows) {
    const exact = referenceLru(trace, Math.floor(l1Chunks * Number(scale))).hitRatio
    expect(Math.abs(ratio - exact), `at ${scale} times ${l1Chunks} chunks`).toBeLessThan(TOLERANCE)
  }
  return recorder
}

const SHAPES = [
  { name: 'chats that grow turn by turn', shape: chats, requests: 4_000 },
  { name: 'many tenants with system prompts', shape: tenants, requests: 8_000 },
  { name: 'a hot set among prompts that come once', shape: scans, requests: 5_000 },
  { name: 'one deep chain', shape: deepChain, requests: 100 },
]

describe('l1_would_hit_ratio is what exact LRU of that size hits, within a point', () => {
  it.each(SHAPES)('on $name (seed 1)', async ({ shape, requests }) => {
    await expectTrue(shape(1, requests), 3_000)
  })

  it('on prompts of more chunks than the history follows (seed 2)', async () => {
    const { distances } = (await expectTrue(scans(2, 10_000), 8_000)).wouldHit
    expect(distances.rate).toBeLessThan(0.5)
    expect(distances.dropped).toBeGreaterThan(0)
  })

  it('on the Mooncake conversation trace', withConversationTrace, async () => {
    const batch = await loadMooncakeTrace(CONVERSATION_TRACE, { partialBlocks: 'count' })
    await expectTrue(batch, 18_279)
    await expectTrue(batch, 9_139)
  })
})
