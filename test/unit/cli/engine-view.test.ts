import { expect, it } from 'vitest'
import { type EngineStatus, engineRates, engineView } from '../../../src/cli/engine-view.ts'

const IDLE: EngineStatus = {
  version: '0.1.0',
  pid: 7,
  startedAt: '2026-01-01T00:00:00.000Z',
  l1: { capacityBytes: 2 ** 30, usageBytes: 2 ** 28, usageRatio: 0.25, quarantinedBytes: 0, openLeases: 0 },
  l2: { adapters: [{ name: 'disk', type: 'filesystem', state: 'active' }], queuedStores: 0, inflightStores: 0 },
  lookups: { pending: 0, prefetchJobs: 0, sessions: 0 },
  tenants: [],
  totals: { requestedTokens: 0, hitTokens: 0, hitTokensL0: 0, hitTokensL1: 0, hitTokensL2: 0, l1EvictedChunks: 0 },
}
const BUSY: EngineStatus = {
  ...IDLE,
  tenants: [{ model: 'm', salt: '', l1UsageBytes: 2 ** 28 }],
  totals: { ...IDLE.totals, requestedTokens: 4000, hitTokens: 1000, hitTokensL1: 1000, l1EvictedChunks: 3 },
}

it('rates are changes a second, and none before the second reading', () => {
  expect(engineRates(undefined, BUSY, 0)).toMatchObject({ requestedTokens: 0, hitTokens: 0 })
  expect(engineRates(IDLE, BUSY, 2)).toMatchObject({ requestedTokens: 2000, hitTokens: 500, l1EvictedChunks: 1.5 })
})

it('shows hit rates now and since the start, and what L1 holds', () => {
  const rates = engineRates(IDLE, BUSY, 2)
  const view = engineView({ ...BUSY, totals: { ...BUSY.totals, hitTokens: 2000 } }, rates)
  expect(view).toMatch(/all tiers +25\.0 % +50\.0 %/)
  expect(view).toMatch(/tokens asked for +2\.00k\/s +4\.00k/)
  expect(view).toMatch(/chunks evicted of L1 +1\.50\/s +3\n/)
  expect(view).toContain('256 MiB of 1.00 GiB (25.0 %)')
  expect(view).toMatch(/\nm +- +256 MiB$/)
})

it('says of an idle engine that it holds nothing, and shows no rate of nothing', () => {
  const view = engineView(IDLE, engineRates(undefined, IDLE, 0))
  expect(view).toMatch(/all tiers +- +-/)
  expect(view).toMatch(/tokens asked for +0\/s +0\n/)
  expect(view).toMatch(/L1 holds nothing of any model\.$/)
})
