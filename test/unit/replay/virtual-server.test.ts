import { describe, expect, it } from 'vitest'
import { SystemClock } from '../../../src/core/clock.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT, MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { belady } from '../../../src/replay/belady.ts'
import { ChunkChecker } from '../../../src/replay/chunk-checker.ts'
import { ClientPath } from '../../../src/replay/client-path.ts'
import { GpuPath } from '../../../src/replay/gpu-path.ts'
import { prefixTraceOf } from '../../../src/replay/prefix-nodes.ts'
import { referenceLru } from '../../../src/replay/reference-lru.ts'
import { ReplayCounts } from '../../../src/replay/replay-counts.ts'
import { VirtualPace } from '../../../src/replay/replay-pace.ts'
import { TraceBatch } from '../../../src/replay/trace-batch.ts'
import { VirtualServer } from '../../../src/replay/virtual-server.ts'
import { KIB, makeEngine } from '../../support/engine.ts'
import { random } from '../../support/random.ts'

const CHUNK_TOKENS = 16
const CHUNK_BYTES = KIB

interface Setup {
  readonly l1Chunks?: number
  readonly l0Chunks?: number
  readonly hasL2?: boolean
  readonly hasBytes?: boolean
  readonly isSequential?: boolean
}

/** A virtual server on a whole engine of small tiers. */
async function makeServer({ l1Chunks = 64, l0Chunks = 0, hasL2 = false, hasBytes = true, isSequential = true }: Setup) {
  const capacityBytes = l1Chunks * CHUNK_BYTES
  const l1 = { capacityBytes, extentBytes: CHUNK_BYTES, evictionHighRatio: 1, evictionLowRatio: 1 }
  const made = makeEngine({ seed: 1, l1, l0Bytes: l0Chunks * CHUNK_BYTES, l0BlockTokens: CHUNK_TOKENS, hasBytes })
  const { engine, clock, memory, device } = made
  if (hasL2) {
    await engine.adapters.add(
      'memory',
      new MemoryAdapter({ ...MEMORY_DEFAULT, keepBytes: hasBytes }),
      ADAPTER_LIMITS_DEFAULT,
    )
  }
  const space = engine.openSpace({ model: 'm', salt: '', ranks: 1, shardBytes: CHUNK_BYTES, layout: 'l' })
  made.start()
  const counts = new ReplayCounts()
  const checker = new ChunkChecker(hasBytes ? 1 : 0, CHUNK_BYTES, counts)
  const common = { engine, chunkBytes: CHUNK_BYTES, counts, checker }
  const path =
    engine.device === null
      ? new ClientPath({ ...common, arena: memory })
      : new GpuPath({ ...common, device: engine.device, memory: device!.memory })
  const isStoragePending = () => engine.pendingLookups > 0 || engine.stores.inflightBatches > 0
  const pace = new VirtualPace(clock, new SystemClock(), isSequential, isStoragePending)
  const options = {
    blockTokens: CHUNK_TOKENS,
    prefillTokensPerSecond: 1000,
    decodeTokensPerSecond: 100,
    tiers: { l0: l0Chunks > 0, l1: true, l2: hasL2 },
  }
  const server = new VirtualServer(options, { engine, space, pace, path, counts })
  return { ...made, server, counts }
}

function traceOf(...requests: readonly (readonly [timestampMs: number, ids: readonly number[]])[]): TraceBatch {
  const batch = new TraceBatch()
  for (const [timestampMs, ids] of requests) batch.push(timestampMs, ids.length * CHUNK_TOKENS + 3, 10, ids, ids.length)
  return batch
}

/** Prompts that share prefixes: each goes down a small tree, biased to the left. */
function randomTrace(seed: number, requests: number): TraceBatch {
  const next = random(seed)
  const batch = new TraceBatch()
  let timestampMs = 0
  for (let request = 0; request < requests; request += 1) {
    const ids = Array.from({ length: 1 + next(8) }, (_, depth) => depth * 100 + Math.min(next(4), next(4)))
    timestampMs += next(200)
    batch.push(timestampMs, ids.length * CHUNK_TOKENS, 5, ids, ids.length)
  }
  return batch
}

describe('a virtual server on L1 alone', () => {
  it('stores what it computes, hits it again, and counts the tokens that it saved', async () => {
    const { server, counts, engine } = await makeServer({})
    await server.run(traceOf([0, [1, 2, 3]], [10, [1, 2, 4]], [20, [5]]))
    await server.finish()
    expect(counts).toMatchObject({ requests: 3, blockRefs: 7, hitL1: 2, storedChunks: 5, unstoredChunks: 0 })
    expect(counts).toMatchObject({ verifiedChunks: 2, corruptChunks: 0, promptTokens: 7 * 16 + 9, savedTokens: 32 })
    expect(counts.writtenBytes).toBe(5 * CHUNK_BYTES)
    expect(counts.fetchedBytes).toBe(2 * CHUNK_BYTES)
    expect(counts.traceSeconds).toBeCloseTo(0.02, 5)
    engine.l1.verify()
  })

  it('finds the chunk whose bytes are wrong', async () => {
    const { server, counts, memory } = await makeServer({})
    await server.run(traceOf([0, [1]]))
    memory!.fill(0, 100, 101)
    await server.run(traceOf([1, [1]]))
    expect(counts).toMatchObject({ verifiedChunks: 1, corruptChunks: 1 })
  })

  it('shows its traffic in the counters of the engine', async () => {
    const { server, cells } = await makeServer({})
    await server.run(traceOf([0, [1, 2]], [1, [1, 2]]))
    expect(cells.engineTenants.sum('requestedTokens')).toBe(4 * CHUNK_TOKENS)
    expect(cells.engineTenants.sum('hitTokens')).toBe(2 * CHUNK_TOKENS)
    expect(cells.l1Tenants.sum('readShards')).toBe(2)
    expect(cells.l1Tenants.sum('writeShards')).toBe(2)
  })

  it('begins no request after stop', async () => {
    const { server, counts } = await makeServer({})
    server.stop()
    await server.run(traceOf([0, [1]]))
    await server.finish()
    expect(counts.requests).toBe(0)
  })

  it.each([1, 2, 3, 4])('hits what exact LRU hits, within what eviction on demand costs (seed %i)', async (seed) => {
    const trace = randomTrace(seed, 400)
    const prefixes = prefixTraceOf(trace)
    for (const l1Chunks of [16, 64, 512]) {
      const { server, counts, engine } = await makeServer({ l1Chunks, hasBytes: false })
      await server.run(trace)
      await server.finish()
      engine.l1.verify()
      const exact = referenceLru(prefixes, l1Chunks).hitRatio
      expect(counts.hitRatio, `${l1Chunks} chunks`).toBeLessThanOrEqual(belady(prefixes, l1Chunks).hitRatio)
      expect(Math.abs(counts.hitRatio - exact), `${l1Chunks} chunks`).toBeLessThan(0.02)
    }
  })
})

describe('a virtual server on several tiers', () => {
  it('takes chunks from L0 first, and each is counted under one tier', async () => {
    const { server, counts, engine } = await makeServer({ l0Chunks: 64 })
    await server.run(traceOf([0, [1, 2, 3]], [10, [1, 2, 4]]))
    await server.finish()
    expect(counts).toMatchObject({ hitL0: 2, hitL1: 0, storedChunks: 4, verifiedChunks: 2, corruptChunks: 0 })
    engine.device!.blocks.verify()
  })

  it('gets back from L2 what L1 evicted', async () => {
    const { server, counts } = await makeServer({ l1Chunks: 16, hasL2: true })
    const ids = (from: number) => Array.from({ length: 12 }, (_, index) => from + index)
    await server.run(traceOf([0, ids(0)], [10, ids(100)], [20, ids(0)]))
    await server.finish()
    expect(counts.hitL1 + counts.hitL2).toBe(12)
    expect(counts.hitL2).toBeGreaterThan(0)
    expect(counts).toMatchObject({ verifiedChunks: 12, corruptChunks: 0 })
  })

  it.each([1, 2, 3])('keeps its books and every byte over L0, L1 and L2 (seed %i)', async (seed) => {
    const setup = { l1Chunks: 48, l0Chunks: 24, hasL2: true }
    for (const isSequential of [true, false]) {
      const { server, counts, engine, errors } = await makeServer({ ...setup, isSequential })
      const trace = randomTrace(seed, 150)
      await server.run(trace)
      await server.finish()
      expect(errors).toEqual([])
      expect(counts.requests).toBe(150)
      expect(counts.blockRefs).toBe(trace.idCount)
      expect(counts.corruptChunks).toBe(0)
      expect(counts.verifiedChunks + counts.unfetchedChunks + counts.expiredChunks).toBe(counts.blockHits)
      engine.l1.verify()
      engine.device!.blocks.verify()
    }
  })
})

describe('requests that overlap', () => {
  it('both miss what neither has stored yet, and one of them stores it', async () => {
    const { server, counts } = await makeServer({ isSequential: false })
    await server.run(traceOf([0, [1, 2]], [1, [1, 2]]))
    await server.finish()
    expect(counts).toMatchObject({ blockHits: 0, storedChunks: 2, unstoredChunks: 2 })
  })

  it('take the time of prefill and decode', async () => {
    const { server, counts } = await makeServer({ isSequential: false })
    await server.run(traceOf([0, [1, 2]]))
    await server.finish()
    // 35 tokens at 1,000 a second, then 10 tokens at 100 a second.
    expect(counts.traceSeconds).toBeGreaterThanOrEqual(0.135)
    expect(counts.traceSeconds).toBeLessThan(0.3)
  })

  it('hit what an earlier one has stored by then', async () => {
    const { server, counts } = await makeServer({ isSequential: false })
    await server.run(traceOf([0, [1, 2]], [1000, [1, 2]]))
    await server.finish()
    expect(counts.blockHits).toBe(2)
  })
})
