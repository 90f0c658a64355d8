import { expect, it } from 'vitest'
import { peekTiers, warmPrefix } from '../../../src/engine/prefix-tiers.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../../support/engine.ts'
import { chainOf, storeChain } from '../../support/engine-client.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }

/** An engine whose L2 holds `letters` and whose L1 is empty. */
async function cold(letters: string) {
  const setup = makeEngine({ seed: 1 })
  const { engine } = setup
  await engine.adapters.add(
    'memory',
    new MemoryAdapter({ type: 'memory', capacityBytes: 0, keepBytes: true }),
    ADAPTER_LIMITS_DEFAULT,
  )
  const space = engine.openSpace(SHARD)
  setup.start()
  storeChain(engine, setup.memory!, space, chainOf(letters))
  await settle(setup.clock)
  engine.l1.remove({ space }, 'clear')
  return { ...setup, space }
}

it('tells which tiers hold a prefix, and leaves no trace', async () => {
  const { engine, space, cells } = await cold('abcd')
  expect(await peekTiers(engine, space, chainOf('abcxy'))).toEqual({ hitL0: 0, hitL1: 0, hitL2: 3 })
  expect(engine.l1.residentRun(space, chainOf('abcd'), 0, 4)).toBe(0)
  expect(cells.engineTenants.sum('lookups')).toBe(0)
  expect(cells.l2Tenants.sum('lookupRequests')).toBe(0)
})

it('tells each chunk under the fastest tier that has it', async () => {
  const { engine, space, memory } = await cold('abcd')
  storeChain(engine, memory!, space, chainOf('ab'))
  expect(await peekTiers(engine, space, chainOf('abcd'))).toEqual({ hitL0: 0, hitL1: 2, hitL2: 2 })
})

it('warms a prefix from L2 into L1, without a lease or a counted lookup', async () => {
  const { engine, space, cells } = await cold('abcd')
  expect(await warmPrefix(engine, space, chainOf('abcxy'))).toEqual({ residentChunks: 0, loadedChunks: 3 })
  expect(await warmPrefix(engine, space, chainOf('abcxy'))).toEqual({ residentChunks: 3, loadedChunks: 0 })
  expect(cells.engineTenants.sum('lookups')).toBe(0)
  expect(engine.l1.remove({ space }, 'clear')).toBe(3)
})
