import { describe, expect, it } from 'vitest'
import type { Overview } from '../../../../src/web/overview.ts'
import { HISTORY_MS, History } from '../../../../src/web/page/history.js'

const PATH = { bytes: 0, busy_seconds: 0 }
const ZERO: Overview = {
  version: '0',
  started_at: '2026-01-01T00:00:00.000Z',
  time_ms: 0,
  device: null,
  tokens: { lookups: 0, requested: 0, hit: 0, hit_l0: 0, hit_l1: 0, hit_l2: 0 },
  l1: {
    capacity_bytes: 1000,
    usage_bytes: 250,
    quarantined_bytes: 0,
    read_chunks: 0,
    written_chunks: 0,
    evicted_chunks: 0,
  },
  paths: { l0_l1_store: PATH, l0_l1_load: PATH, l2_store: PATH, l2_load: PATH },
  adapters: [],
  would_hit: { asked_chunks: 0, points: [] },
  tenants: [],
  tenants_total: 0,
}

/** An engine that asks for 100 tokens a second and hits 40 of them, half in L1 and half in L2. */
function at(seconds: number, over: Partial<Overview> = {}): Overview {
  return {
    ...ZERO,
    time_ms: seconds * 1000,
    tokens: {
      lookups: seconds,
      requested: seconds * 100,
      hit: seconds * 40,
      hit_l0: 0,
      hit_l1: seconds * 20,
      hit_l2: seconds * 20,
    },
    l1: { ...ZERO.l1, written_chunks: seconds * 3, evicted_chunks: seconds * 2 },
    paths: { ...ZERO.paths, l2_store: { bytes: seconds * 5000, busy_seconds: seconds } },
    ...over,
  }
}

describe('rates', () => {
  it('are differences over the time between', () => {
    const history = new History()
    for (let seconds = 0; seconds <= 60; seconds += 2) history.add(at(seconds), seconds * 1000)
    expect(history.ratesOver(10_000)).toEqual({
      hit: 0.4,
      hitL0: 0,
      hitL1: 0.2,
      hitL2: 0.2,
      fill: 0.25,
      written: 3,
      evicted: 2,
      l0l1Store: 0,
      l0l1Load: 0,
      l2Store: 5000,
      l2Load: 0,
    })
    expect(history.ratesOver(60_000)).toEqual(history.ratesOver(10_000))
  })

  it('cannot be told from one reading, nor a hit rate without traffic', () => {
    const history = new History()
    history.add(at(5), 5000)
    expect(history.ratesOver(10_000)).toMatchObject({ hit: null, written: null, l2Store: null, fill: 0.25 })
    history.add(at(5, { time_ms: 9000 }), 9000)
    expect(history.ratesOver(10_000)).toMatchObject({ hit: null, written: 0, l2Store: 0 })
  })

  it('start again with another process', () => {
    const history = new History()
    history.add(at(1000), 0)
    history.add(at(1002), 2000)
    const started_at = '2026-01-02T00:00:00.000Z'
    history.add(at(1, { started_at }), 4000)
    expect(history.ratesOver(10_000)).toMatchObject({ hit: null, written: null })
    history.add(at(3, { started_at }), 6000)
    expect(history.ratesOver(10_000)).toMatchObject({ hit: 0.4, written: 3 })
    expect(history.series.written).toEqual([null, 3, null, 3])
  })

  it('are not taken over a long silence', () => {
    const history = new History()
    history.add(at(0), 0)
    history.add(at(1000), 1_000_000)
    expect(history.ratesOver(10_000)).toMatchObject({ hit: null, written: null })
  })
})

describe('points', () => {
  it('are kept for a quarter of an hour, one value of each series for each time', () => {
    const history = new History()
    for (let seconds = 0; seconds <= 2000; seconds += 2) history.add(at(seconds), seconds * 1000)
    expect(history.times[0]).toBe(2000 - HISTORY_MS / 1000)
    expect(history.times.at(-1)).toBe(2000)
    for (const values of Object.values(history.series)) expect(values).toHaveLength(history.times.length)
  })

  it('have a hole where the page or the engine was away', () => {
    const history = new History()
    for (const seconds of [0, 2, 4, 34, 36]) history.add(at(seconds), seconds * 1000)
    expect(history.times).toEqual([0, 2, 4, 5, 34, 36])
    expect(history.series.written).toEqual([null, 3, 3, null, 3, 3])
  })
})
