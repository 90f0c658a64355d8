import { expect, it } from 'vitest'
import type { Lookup } from '../../src/engine/lookup.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../support/engine.ts'
import { chainOf, holdsRightBytes, storeChain } from '../support/engine-client.ts'
import { random } from '../support/random.ts'

const CHUNKS = 16
const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }
const CHAINS = Array.from({ length: 12 }, (_, at) => [...'abcdef'].map((letter) => letter + at))
const lettersOf = (chain: readonly string[], length: number) =>
  chain.slice(0, length).map((name) => String.fromCharCode(name.charCodeAt(0) + 100 * Number(name.slice(1))))

/** An engine whose L1 holds 16 chunks and whose L2 holds 12 chains of 6. */
async function setUp(seed: number) {
  const setup = makeEngine({ seed, l1: { capacityBytes: CHUNKS * KIB, extentBytes: KIB } })
  const { engine, clock, memory, cells } = setup
  const adapter = new MemoryAdapter({ type: 'memory', capacityBytes: 0, keepBytes: true })
  await engine.adapters.add('l2', adapter, ADAPTER_LIMITS_DEFAULT)
  setup.start()
  const space = engine.openSpace(SHARD)
  for (const chain of CHAINS) {
    storeChain(engine, memory!, space, chainOf(lettersOf(chain, 6).join('')))
    clock.advance(20)
    await settle(clock)
  }
  engine.l1.remove({ space }, 'clear')
  expect(adapter.usage().objects).toBe(72)
  const look = (chain: number, length = 6): Lookup =>
    engine.lookup(space, chainOf(lettersOf(CHAINS[chain]!, length).join('')), engine.sessions.nextOwner())
  const oom = () => cells.l2Tenants.sum('failureL1Oom')
  return { ...setup, memory: memory!, space, look, oom }
}

it('counts l1_oom only when nothing may be evicted, and loads again as soon as something may', async () => {
  const { engine, clock, cells, look, oom, memory } = await setUp(1)
  const before = cells.l1Tenants.sum('evictedShards')
  const evicted = () => cells.l1Tenants.sum('evictedShards') - before
  const held = [look(0), look(1), look(2, 4)]
  await settle(clock)
  expect(held.map(({ hitL2 }) => hitL2)).toEqual([6, 6, 4])
  expect([engine.l1.usageBytes, oom()]).toEqual([CHUNKS * KIB, 0])
  const starved = look(3)
  await settle(clock)
  expect(starved).toMatchObject({ state: 'final', hitChunks: 0 })
  expect([oom(), evicted()]).toEqual([6, 0])
  expect(cells.l1Tenants.sum('allocationFailureLoad')).toBeGreaterThan(0)
  engine.release(held[2]!)
  const partly = look(3)
  await settle(clock)
  expect(partly).toMatchObject({ state: 'final', hitL2: 4 })
  expect(holdsRightBytes(engine, memory, partly)).toBe(true)
  expect([oom(), evicted()]).toEqual([8, 4])
  engine.release(partly)
  engine.release(held[0]!)
  const whole = look(4)
  await settle(clock)
  expect(whole).toMatchObject({ state: 'final', hitL2: 6 })
  expect(oom()).toBe(8)
  engine.l1.verify()
})

it.each([1, 2, 3, 4, 5])(
  'never deadlocks under leases that fill L1, and misses only what has no room (seed %i)',
  async (seed) => {
    const { engine, clock, cells, look, oom } = await setUp(seed)
    const next = random(seed)
    let held: { lookup: Lookup; chain: number }[] = []
    let wasStarved = 0
    for (let step = 0; step < 150; step += 1) {
      if (held.length > 0 && next(3) === 0) {
        const [gone] = held.splice(next(held.length), 1)
        engine.release(gone!.lookup)
        continue
      }
      if (next(10) === 0) {
        // Several at once: each ends, whoever gets the room.
        const burst = Array.from({ length: 2 + next(4) }, () => next(CHAINS.length)).map((chain) => ({
          chain,
          lookup: look(chain),
        }))
        clock.advance(1)
        await settle(clock)
        for (const { lookup } of burst) expect(lookup.state).toBe('final')
        held.push(...burst)
      } else {
        const chain = next(CHAINS.length)
        const leased = new Map<number, number>()
        for (const one of held) leased.set(one.chain, Math.max(leased.get(one.chain) ?? 0, one.lookup.hitChunks))
        const others = [...leased].reduce((sum, [other, chunks]) => sum + (other === chain ? 0 : chunks), 0)
        const before = oom()
        const lookup = look(chain)
        await settle(clock)
        expect(lookup.state).toBe('final')
        expect(lookup.hitChunks).toBe(Math.min(6, CHUNKS - others))
        expect(oom() > before).toBe(lookup.hitChunks < 6)
        if (lookup.hitChunks < 6) wasStarved += 1
        held.push({ chain, lookup })
      }
      engine.l1.verify()
      expect(cells.engine.get(0, 'activePrefetchJobs')).toBe(0)
      expect(cells.l2.get(0, 'inflightLoads')).toBe(0)
    }
    expect(wasStarved).toBeGreaterThan(0)
    for (const { lookup } of held) engine.release(lookup)
    held = []
    const free = look(0)
    await settle(clock)
    expect(free.hitChunks).toBe(6)
  },
)
