import { describe, expect, it } from 'vitest'
import { BlockTable } from '../../src/l0/block-table.ts'
import { FAST, H100_PCIE5 } from '../../src/l0/device-profiles.ts'
import { chainOf } from '../support/l0.ts'
import { type CopyOutcome, makeCopier, outcomeOf, slotsOf } from '../support/l0-l1.ts'
import { random } from '../support/random.ts'

const SETUP = { profile: FAST, capacityBytes: 2048, chunkTokens: 40, hostBytes: 8192, inFlightBytes: 100 }

/** Six stores and six loads of one chunk each, all pending at once. */
function startMany(made: ReturnType<typeof makeCopier>): CopyOutcome[] {
  const readable = made.allocate(1, 2, 3, 4, 5, 6)
  made.blocks.publish(readable, 0, 6)
  const filling = made.allocate(11, 12, 13, 14, 15, 16)
  const outcomes: CopyOutcome[] = []
  for (let i = 0; i < 6; i += 1) {
    const [down, up] = [outcomeOf(), outcomeOf()]
    made.copier.store(readable, slotsOf(40, [[i, i * 40]]), down.done)
    made.copier.load(filling, slotsOf(40, [[i, 4000 + i * 40]]), up.done)
    outcomes.push(down.outcome, up.outcome)
  }
  made.blocks.release(readable)
  made.blocks.release(filling)
  return outcomes
}

function expectAtRest({ copier, blocks, copies }: ReturnType<typeof makeCopier>, outcomes: CopyOutcome[]): void {
  expect(outcomes.map(({ ended }) => ended)).toEqual(outcomes.map(() => 1))
  for (const direction of ['store', 'load'] as const) {
    expect(copier.pending(direction)).toBe(0)
    expect(copier.inFlightBytes(direction)).toBe(0)
  }
  const moved = outcomes.reduce((sum, { error, bytes }) => sum + (error === null ? bytes : 0), 0)
  expect(copies.sum('storeBytes') + copies.sum('loadBytes')).toBe(moved)
  expect(blocks.freeBlocks + blocks.cachedBlocks).toBe(blocks.capacityBlocks)
  blocks.verify()
}

describe('a device fault', () => {
  it.each([1, 2, 3, 4])('at submit %i fails one batch, and the others arrive', (atSubmit) => {
    const made = makeCopier(SETUP)
    made.device.inject({ atSubmit, kind: 'once' })
    const outcomes = startMany(made)
    made.clock.advance(1000)
    expectAtRest(made, outcomes)
    const failed = outcomes.filter(({ error }) => error !== null)
    expect(failed).toHaveLength(1)
    expect(failed[0]!.error).toMatchObject({ code: 'DEVICE_FAULT' })
  })

  it.each([1, 3, 7])('that loses the device at submit %i fails all that is pending and all that comes', (atSubmit) => {
    const made = makeCopier(SETUP)
    made.device.inject({ atSubmit, kind: 'lost' })
    const outcomes = startMany(made)
    made.clock.advance(1000)
    expect(made.device.state).toBe('lost')
    expectAtRest(made, outcomes)
    const late = startMany(made)
    made.clock.advance(1000)
    expectAtRest(made, [...outcomes, ...late])
    expect(late.every(({ error }) => error !== null)).toBe(true)
  })

  it('by closing fails everything too', () => {
    const made = makeCopier(SETUP)
    const outcomes = startMany(made)
    made.device.close()
    made.clock.advance(1000)
    expectAtRest(made, outcomes)
    expect(outcomes.every(({ error }) => error !== null)).toBe(true)
  })

  it('of a load leaves chunks that are never published, and can be loaded again', () => {
    const { allocate, blocks, clock, copier, device, host, read } = makeCopier(SETUP)
    host.fill(77, 0, 40)
    const table = allocate(1)
    device.inject({ atSubmit: 1, kind: 'once' })
    const [first, second] = [outcomeOf(), outcomeOf()]
    copier.load(table, slotsOf(40, [[0, 0]]), first.done)
    clock.advance(10)
    expect(first.outcome.error).not.toBeNull()
    expect(blocks.needsFill(table, 0)).toBe(true)
    copier.load(table, slotsOf(40, [[0, 0]]), second.done)
    clock.advance(10)
    expect(second.outcome.error).toBeNull()
    expect(read(table, 0).every((byte) => byte === 77)).toBe(true)
  })
})

const contentOf = (name: number) => Uint8Array.from({ length: 40 }, (_, i) => (name * 37 + i * 11) % 256)

// Oracle: a chunk's bytes follow from its name, so every resident chunk and every stored slot can be checked.
it.each([1, 2, 3, 4])('bytes survive random stores, loads, evictions and faults (seed %i)', (seed) => {
  const next = random(seed)
  const made = makeCopier({ ...SETUP, profile: seed % 2 === 0 ? H100_PCIE5 : FAST, capacityBytes: 640 })
  const { blocks, clock, copier, device, host } = made
  const stored = new Set<number>() // names whose slot, at name x 40, is whole
  const outcomes: CopyOutcome[] = []
  let compared = 0
  for (let step = 0; step < 3000; step += 1) {
    const family = next(5) * 20
    const names = Array.from({ length: 1 + next(5) }, (_, i) => 1 + family + i)
    const table = new BlockTable(0)
    if (next(25) === 0) device.inject({ atSubmit: 1 + next(4), kind: 'once' })
    if (blocks.allocate(table, chainOf(...names), 0, names.length)) {
      const missing = names.flatMap((_, i) => (blocks.needsFill(table, i) ? [i] : []))
      for (const [i, name] of names.entries()) {
        if (missing.includes(i)) continue
        expect(made.read(table, i)).toEqual(contentOf(name))
        compared += 1
      }
      const loaded = missing.filter((i) => stored.has(names[i]!))
      for (const i of missing) if (!loaded.includes(i)) made.compute(table, i, contentOf(names[i]!))
      const finish = () => {
        const isAll = missing.every((i) => !loaded.includes(i))
        if (isAll) blocks.publish(table, 0, names.length)
        const fresh = names.flatMap((name, i) => (!stored.has(name) && !blocks.needsFill(table, i) ? [i] : []))
        if (fresh.length > 0) {
          const down = outcomeOf(() => {
            if (down.outcome.error !== null) return
            for (const i of fresh) {
              const name = names[i]!
              expect(host.slice(name * 40, name * 40 + 40)).toEqual(contentOf(name))
              stored.add(name)
            }
          })
          outcomes.push(down.outcome)
          const rows = fresh.map((i) => [i, names[i]! * 40] as const)
          copier.store(table, slotsOf(40, rows), down.done)
        }
        blocks.release(table)
      }
      if (loaded.length === 0) finish()
      else {
        const up = outcomeOf(() => {
          if (up.outcome.error === null) loaded.splice(0)
          finish()
        })
        outcomes.push(up.outcome)
        const rows = loaded.map((i) => [i, names[i]! * 40] as const)
        copier.load(table, slotsOf(40, rows), up.done)
      }
    }
    if (next(2) === 0) clock.advance(next(60) / 1000)
    if (next(40) === 0) stored.delete(1 + next(100))
    blocks.verify()
  }
  clock.advance(1000)
  expectAtRest(made, outcomes)
  expect(outcomes.some(({ error }) => error !== null)).toBe(true)
  expect(compared).toBeGreaterThan(500)
})
