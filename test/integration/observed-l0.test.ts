import { afterEach, expect, it } from 'vitest'
import type { MpClient } from '../../src/client/mp-client.ts'
import { engineStatus } from '../../src/engine/status.ts'
import { renderPieces } from '../../src/metrics/prometheus.ts'
import { SnapshotReader } from '../../src/metrics/snapshot.ts'
import { KIB } from '../support/engine.ts'
import { contextOf, found, keyOf, type Mp, type MpSetup, promptOf, startMp } from '../support/mp.ts'

let mp: Mp
afterEach(() => {
  mp.engine.observed.verify()
  expect(mp.bugs).toEqual([])
  expect(mp.errors).toEqual([])
  mp.close()
})

const WORKER = 2n ** 62n + 1n
const SCHEDULER = 4242n
/** Tokens of a block of `contextOf`. */
const BLOCK = 4
const FACTS = { version: '0', pid: 1, startedAt: '', nodeVersion: '', segmentName: null, simulated: [] }

async function served(setup: MpSetup = {}) {
  mp = await startMp(setup)
  const scheduler = mp.connect()
  const worker = mp.connect()
  await scheduler.chunkTokens()
  await worker.chunkTokens()
  await worker.register(contextOf(WORKER))
  return { scheduler, worker }
}

/** Reports blocks `first`.. for the whole of a prompt. */
function report(scheduler: MpClient, requestId: string, first: number, tokens: Uint32Array, model = 'm') {
  const blockIds = Uint32Array.from({ length: Math.ceil(tokens.length / BLOCK) }, (_, index) => first + index)
  return scheduler.reportBlocks(SCHEDULER, model, [{ requestId, blockIds, tokens }])
}

/** Samples of L0 on a metrics page, without buckets and zeros. */
function l0Samples(): string[] {
  mp.recorder.drain(100_000)
  const { cells, recorder, clock } = mp
  const reader = new SnapshotReader({ cells, recorder, clock, facts: {} })
  const page = Buffer.concat([...renderPieces(reader.take(), 'text')]).toString()
  const isWanted = (line: string) => /^cache_mp_l0_(block|observed|reused|evicted|allocated)/.test(line)
  return page.split('\n').filter((line) => isWanted(line) && !line.includes('_bucket') && !line.endsWith(' 0'))
}

const status = () => engineStatus(mp.engine, FACTS).l0

it('shows the lives of reported blocks on the metrics page, under the tenant of the request', async () => {
  const { scheduler } = await served()
  const prompt = promptOf(1, 2)
  const key = keyOf(prompt, { salt: 'team', requestId: 'a' })
  await found(scheduler, key)
  await report(scheduler, 'a', 1, prompt)
  expect(status()).toMatchObject({ kind: 'observed', observed: { servers: 1, blocks: 8, usedBlocks: 8, requests: 1 } })
  mp.clock.advance(10_000)
  await scheduler.endSession('a')
  mp.clock.advance(5_000)
  await found(scheduler, { ...key, requestId: 'b' })
  await report(scheduler, 'b', 1, prompt)
  await scheduler.endSession('b')
  mp.clock.advance(20_000)
  await report(scheduler, 'no lookup', 1, promptOf(2, 2))
  const team = '{model_name="m",cache_salt="team"}'
  const none = '{model_name="m",cache_salt=""}'
  expect(l0Samples().sort()).toEqual(
    [
      `cache_mp_l0_allocated_blocks_total${team} 8`,
      `cache_mp_l0_allocated_blocks_total${none} 8`,
      `cache_mp_l0_reused_blocks_total${team} 8`,
      `cache_mp_l0_evicted_blocks_total${team} 8`,
      `cache_mp_l0_block_lifetime_seconds_count${team} 8`,
      `cache_mp_l0_block_lifetime_seconds_sum${team} ${8 * 35}`,
      `cache_mp_l0_block_idle_before_evict_seconds_count${team} 8`,
      `cache_mp_l0_block_idle_before_evict_seconds_sum${team} ${8 * 20}`,
      `cache_mp_l0_block_reuse_gap_seconds_count${team} 8`,
      `cache_mp_l0_block_reuse_gap_seconds_sum${team} ${8 * 5}`,
      'cache_mp_l0_observed_blocks 8',
      'cache_mp_l0_observed_used_blocks 8',
    ].sort(),
  )
})

it('refuses reports about a model without a worker, and of more tokens than the blocks hold', async () => {
  const { scheduler } = await served()
  await report(scheduler, 'a', 1, promptOf(1, 1), 'unknown')
  await scheduler.reportBlocks(SCHEDULER, 'm', [
    { requestId: 'b', blockIds: Uint32Array.of(1), tokens: new Uint32Array(BLOCK + 1) },
    { requestId: 'c', blockIds: new Uint32Array(0), tokens: new Uint32Array(0) },
  ])
  expect(status()).toMatchObject({ observed: { blocks: 0, refusedRecords: 2 } })
  expect(mp.engine.cells.tenants.size()).toBe(0)
  expect(mp.server.status().blockRecords).toBe(3)
})

it('lives with block ids and counts that nobody can have', async () => {
  const { scheduler } = await served()
  const blockIds = Uint32Array.of(2 ** 32 - 1, 0, 5, 5, 5)
  const record = { requestId: 'a', blockIds, tokens: new Uint32Array(5 * BLOCK) }
  await scheduler.reportBlocks(2n ** 63n - 1n, 'm', Array(500).fill(record))
  expect(status()).toMatchObject({ observed: { blocks: 1, usedBlocks: 1, refusedBlocks: 500 } })
})

it('forgets the blocks of a scheduler that fell silent, without an eviction', async () => {
  const { scheduler, worker } = await served()
  await scheduler.ping(null)
  await report(scheduler, 'a', 1, promptOf(1, 1))
  mp.clock.advance(100_000)
  expect(await worker.ping(WORKER)).toBe(true)
  mp.clock.advance(100_000)
  expect(status()).toMatchObject({ observed: { servers: 0, blocks: 0, usedBlocks: 0 } })
  expect(mp.engine.cells.l0Tenants.sum('evictedBlocks')).toBe(0)
})

it('forgets the blocks that were reported under the id of a worker, when it unregisters', async () => {
  const { scheduler, worker } = await served()
  const record = { requestId: 'a', blockIds: Uint32Array.of(1), tokens: new Uint32Array(BLOCK) }
  await scheduler.reportBlocks(WORKER, 'm', [record])
  expect(status().kind).toBe('observed')
  await worker.unregister(WORKER)
  expect(status()).toMatchObject({ kind: 'none', observed: { servers: 0 } })
})

it('says that the device of the engine is managed until blocks are reported', async () => {
  const { scheduler } = await served({ l0Bytes: 64 * KIB })
  expect(status()).toMatchObject({ kind: 'managed', device: { kind: 'simulated' } })
  await report(scheduler, 'a', 1, promptOf(1, 1))
  expect(status()).toMatchObject({ kind: 'observed', device: { kind: 'simulated' } })
})
