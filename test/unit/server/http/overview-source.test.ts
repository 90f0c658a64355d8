import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { MetricCells } from '../../../../src/metrics/cells.ts'
import { StackDistance } from '../../../../src/metrics/reuse-distance.ts'
import { WouldHit } from '../../../../src/metrics/would-hit.ts'
import { OverviewSource, TENANTS_SHOWN } from '../../../../src/server/http/overview-source.ts'

function rig() {
  const cells = MetricCells.create({ maxTenants: 16, busCapacityEvents: 64 })
  const wouldHit = new WouldHit(new StackDistance(1024))
  const clock = new ManualClock()
  const facts = { version: '1', startedAt: '2026-01-01T00:00:00.000Z', device: null }
  return { cells, wouldHit, clock, source: new OverviewSource({ cells, wouldHit, clock, ...facts }) }
}

describe('an overview', () => {
  it('of an engine that did nothing yet is all zeros', () => {
    const { source, clock } = rig()
    expect(source.read()).toMatchObject({
      version: '1',
      time_ms: clock.nowMs(),
      device: null,
      tokens: { lookups: 0, requested: 0, hit: 0 },
      adapters: [],
      would_hit: { asked_chunks: 0, points: [] },
      tenants: [],
      tenants_total: 0,
    })
  })

  it('adds up tenants, and the fold with them', () => {
    const { source, cells } = rig()
    for (const row of [cells.tenants.tenantOf('a', ''), cells.tenants.tenantOf('b', 's'), cells.tenants.fold]) {
      cells.engineTenants.add(row, 'requestedTokens', 100)
      cells.engineTenants.add(row, 'hitTokens', 30)
      cells.engineTenants.add(row, 'hitTokensL1', 20)
      cells.engineTenants.add(row, 'hitTokensL2', 10)
      cells.l1Tenants.add(row, 'evictedShards', 2)
      cells.copyTenants.add(row, 'storeBytes', 5)
      cells.l2Tenants.add(row, 'loadBytes', 7)
    }
    expect(source.read()).toMatchObject({
      tokens: { requested: 300, hit: 90, hit_l0: 0, hit_l1: 60, hit_l2: 30 },
      l1: { evicted_chunks: 6 },
      paths: { l0_l1_store: { bytes: 15 }, l2_load: { bytes: 21 }, l2_store: { bytes: 0 } },
      tenants_total: 3,
    })
  })

  it('tells attached adapters with their state, and what all tenants did there', () => {
    const { source, cells } = rig()
    const [gone, disk] = [cells.adapters.rowOf('gone'), cells.adapters.rowOf('disk')]
    cells.adapters.detach(gone)
    const tenants = [cells.tenants.tenantOf('a', ''), cells.tenants.tenantOf('b', '')]
    for (const tenant of tenants) {
      const row = disk * cells.tenants.rows + tenant
      cells.l2Tenants.add(row, 'storeCompletedObjects', 3)
      cells.l2Tenants.add(row, 'storeFailedFull', 1)
      cells.l2Tenants.add(row, 'failureCorrupt', 1)
    }
    cells.l2.set(disk, 'state', 1)
    cells.l2.set(disk, 'circuitState', 2)
    cells.l2.set(disk, 'inflightStores', 4)
    expect(source.read().adapters).toEqual([
      expect.objectContaining({
        name: 'disk',
        state: 'draining',
        circuit: 'open',
        inflight_stores: 4,
        inflight_loads: 0,
        stored_objects: 6,
        loaded_objects: 0,
        failed_objects: 4,
      }),
    ])
  })

  it('lists the largest tenants first, and only those that did something', () => {
    const { source, cells } = rig()
    for (let n = 0; n < 14; n += 1) {
      cells.engineTenants.add(cells.tenants.tenantOf(`m${n}`, ''), 'requestedTokens', n * 10)
    }
    const { tenants, tenants_total: total } = source.read()
    expect(tenants.map(({ model }) => model)).toEqual(
      Array.from({ length: TENANTS_SHOWN }, (_, place) => `m${13 - place}`),
    )
    expect(total).toBe(13)
  })

  it('has a reuse curve around the size of L1, which never falls', () => {
    const { source, cells, wouldHit } = rig()
    const chunkBytes = 1024
    cells.l1.set(0, 'capacityBytes', 16 * chunkBytes)
    // 40 chunks, asked for in turn, three times: an L1 of 40 chunks holds them all.
    for (let asked = 0; asked < 120; asked += 1) wouldHit.asked(1 + (asked % 40), chunkBytes, asked)
    const { asked_chunks: asked, points } = source.read().would_hit
    expect(asked).toBe(120)
    expect(points.map((point) => point.l1_bytes)).toContain(16 * chunkBytes)
    expect([points[0]!.l1_bytes, points.at(-1)!.l1_bytes]).toEqual([2 * chunkBytes, 128 * chunkBytes])
    const ratios = points.map((point) => point.ratio)
    expect(ratios.toSorted((a, b) => a - b)).toEqual(ratios)
    expect(points.find((point) => point.l1_bytes === 32 * chunkBytes)!.ratio).toBe(0)
    expect(points.find((point) => point.l1_bytes === 64 * chunkBytes)!.ratio).toBeCloseTo(80 / 120, 2)
  })
})
