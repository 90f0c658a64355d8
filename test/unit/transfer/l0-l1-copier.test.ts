import { describe, expect, it } from 'vitest'
import { L0_L1_LOADED, L0_L1_STORED } from '../../../src/events/catalogue.ts'
import type { CopyBatch } from '../../../src/l0/device.ts'
import { FAST, INSTANT } from '../../../src/l0/device-profiles.ts'
import { SlotList } from '../../../src/l1/slot-list.ts'
import { makeCopier, outcomeOf, slotsOf } from '../../support/l0-l1.ts'

const SMALL = { profile: FAST, capacityBytes: 1024, chunkTokens: 48, hostBytes: 4096 }

const pattern = (seed: number, length: number) => Uint8Array.from({ length }, (_, i) => (seed * 31 + i) % 251)

/** Watches the batches that reach the device. */
function watch(device: { submit: (stream: number, batch: CopyBatch, done: never) => void }): CopyBatch[] {
  const batches: CopyBatch[] = []
  const submit = device.submit.bind(device)
  device.submit = (stream, batch, done) => {
    const { direction, count, deviceOffsets, hostOffsets, lengths } = batch
    const copy = (values: Float64Array) => values.slice(0, count)
    const [of, to, by] = [copy(deviceOffsets), copy(hostOffsets), copy(lengths)]
    batches.push({ direction, count, deviceOffsets: of, hostOffsets: to, lengths: by })
    submit(stream, batch, done)
  }
  return batches
}

describe('L0L1Copier', () => {
  it('brings back into other blocks what it stored', () => {
    const { allocate, blocks, clock, compute, copier, read } = makeCopier(SMALL)
    const table = allocate(1, 2, 3)
    for (const index of [0, 1, 2]) compute(table, index, pattern(index, 48))
    blocks.publish(table, 0, 3)
    const down = outcomeOf()
    const rows = [
      [2, 100],
      [0, 1000],
      [1, 3000],
    ] as const
    copier.store(table, slotsOf(48, rows), down.done)
    clock.advance(10)
    expect(down.outcome).toEqual({ ended: 1, error: null, bytes: 144 })
    blocks.release(table)
    blocks.clear()
    allocate(7)
    const again = allocate(1, 2, 3)
    const up = outcomeOf(() => blocks.publish(again, 0, 3))
    copier.load(again, slotsOf(48, rows), up.done)
    expect(blocks.needsFill(again, 0)).toBe(true)
    clock.advance(10)
    expect(up.outcome).toEqual({ ended: 1, error: null, bytes: 144 })
    for (const index of [0, 1, 2]) expect(read(again, index)).toEqual(pattern(index, 48))
    blocks.verify()
  })

  it('lays the shards of a chunk one after another, also where they end inside a block', () => {
    const { allocate, blocks, clock, compute, copier, host } = makeCopier({ ...SMALL, chunkTokens: 80, ranks: 2 })
    const table = allocate(1)
    compute(table, 0, pattern(5, 80))
    blocks.publish(table, 0, 1)
    const slots = new SlotList()
    slots.push(0, 1, 500, 40)
    slots.push(0, 0, 200, 40)
    copier.store(table, slots, outcomeOf().done)
    clock.advance(10)
    expect(host.slice(200, 240)).toEqual(pattern(5, 80).slice(0, 40))
    expect(host.slice(500, 540)).toEqual(pattern(5, 80).slice(40))
  })

  it('takes the shard of any rank as its own when the device holds one rank', () => {
    const { allocate, blocks, clock, compute, copier, host } = makeCopier(SMALL)
    const table = allocate(1)
    compute(table, 0, pattern(5, 48))
    blocks.publish(table, 0, 1)
    copier.store(table, slotsOf(48, [[0, 64]], 3), outcomeOf().done)
    clock.advance(10)
    expect(host.slice(64, 112)).toEqual(pattern(5, 48))
  })

  it('submits one batch a call, with copies merged where both sides go on', () => {
    const { allocate, blocks, copier, device } = makeCopier(SMALL)
    const batches = watch(device as never)
    const table = allocate(1, 2, 3)
    blocks.publish(table, 0, 3)
    const rows = [
      [0, 0],
      [1, 48],
      [2, 1000],
    ] as const
    copier.store(table, slotsOf(48, rows), outcomeOf().done)
    expect(batches).toHaveLength(1)
    expect([...batches[0]!.lengths]).toEqual([96, 48])
    expect([...batches[0]!.deviceOffsets]).toEqual([0, 96])
    expect([...batches[0]!.hostOffsets]).toEqual([0, 1000])
  })

  it('keeps the bytes in flight of each direction under the bound, in order', () => {
    const { allocate, blocks, clock, copier } = makeCopier({ ...SMALL, inFlightBytes: 100 })
    const table = allocate(1, 2, 3)
    blocks.publish(table, 0, 3)
    const ended: number[] = []
    const offsets = [0, 1, 2, 3, 4]
    for (const i of offsets) {
      copier.store(table, slotsOf(48, [[i % 3, i * 48]]), () => ended.push(i))
      expect(copier.inFlightBytes('store')).toBeLessThanOrEqual(96)
    }
    const filling = allocate(9)
    copier.load(filling, slotsOf(48, [[0, 2000]]), () => ended.push(9))
    expect(copier.inFlightBytes('load')).toBe(48)
    expect(copier.pending('store')).toBe(5)
    blocks.release(table)
    while (clock.nextDueMs() < Number.POSITIVE_INFINITY) {
      clock.advanceTo(clock.nextDueMs())
      expect(copier.inFlightBytes('store')).toBeLessThanOrEqual(96)
    }
    expect(ended.filter((i) => i !== 9)).toEqual(offsets)
    expect(ended).toContain(9)
    expect(copier.pending('store') + copier.pending('load')).toBe(0)
    expect(blocks.cachedBlocks).toBe(9)
    blocks.verify()
  })

  it('sends a batch larger than the bound alone', () => {
    const { allocate, blocks, clock, copier } = makeCopier({ ...SMALL, inFlightBytes: 10 })
    const table = allocate(1, 2)
    blocks.publish(table, 0, 2)
    const [first, second] = [outcomeOf(), outcomeOf()]
    copier.store(table, slotsOf(48, [[0, 0]]), first.done)
    copier.store(table, slotsOf(48, [[1, 48]]), second.done)
    expect(copier.inFlightBytes('store')).toBe(48)
    clock.advance(10)
    expect([first.outcome.ended, second.outcome.ended]).toEqual([1, 1])
  })

  it('counts bytes and busy seconds of the tenant, and tells of each batch once', () => {
    const { allocate, blocks, clock, copier, copies, events } = makeCopier(SMALL)
    const table = allocate(1, 2)
    const rows = [
      [0, 0],
      [1, 1000],
    ] as const
    copier.load(table, slotsOf(48, rows), () => blocks.publish(table, 0, 2))
    clock.advance(10)
    copier.store(table, slotsOf(48, rows), outcomeOf().done)
    clock.advance(10)
    const busySeconds = 10e-6 + 2 * (1e-6 + 48 / 100e9)
    for (const way of ['load', 'store'] as const) {
      expect(copies.get(1, `${way}Bytes`)).toBe(96)
      expect(copies.get(1, `${way}BusySeconds`)).toBeCloseTo(busySeconds, 9)
    }
    expect(events.published.map(({ type, tenant, a }) => ({ type, tenant, a }))).toEqual([
      { type: L0_L1_LOADED, tenant: 1, a: 96 },
      { type: L0_L1_STORED, tenant: 1, a: 96 },
    ])
    expect(events.published[0]!.b).toBeCloseTo(busySeconds, 9)
  })

  it('does the same without bytes, and samples no throughput of a device that costs nothing', () => {
    const { allocate, blocks, clock, copier, copies, device, events } = makeCopier({
      ...SMALL,
      profile: INSTANT,
      hostBytes: 0,
    })
    expect(device.memory).toBeNull()
    const table = allocate(1)
    const { outcome, done } = outcomeOf(() => blocks.publish(table, 0, 1))
    copier.load(table, slotsOf(48, [[0, 2 ** 40]]), done)
    expect(outcome.ended).toBe(0)
    clock.advance(0)
    expect(outcome).toEqual({ ended: 1, error: null, bytes: 48 })
    expect(copies.get(1, 'loadBytes')).toBe(48)
    expect(events.published).toEqual([])
  })

  it('reads the slot list before it returns and lets the table go at once', () => {
    const { allocate, blocks, clock, compute, copier, host } = makeCopier({ ...SMALL, inFlightBytes: 48 })
    const table = allocate(1, 2)
    compute(table, 1, pattern(3, 48))
    blocks.publish(table, 0, 2)
    const slots = slotsOf(48, [[0, 0]])
    copier.store(table, slots, outcomeOf().done)
    slots.clear()
    slots.push(1, 0, 512, 48)
    copier.store(table, slots, outcomeOf().done)
    slots.clear()
    blocks.release(table)
    expect(() => allocate(...Array.from({ length: 21 }, (_, i) => 100 + i))).toThrow('no room')
    clock.advance(10)
    expect(host.slice(512, 560)).toEqual(pattern(3, 48))
    expect(blocks.cachedBlocks).toBe(6)
  })
})
