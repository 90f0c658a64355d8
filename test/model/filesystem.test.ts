import { expect, it } from 'vitest'
import { OUTCOME_CORRUPT, OUTCOME_FAILED } from '../../src/l2/adapter.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { useL2Directory } from '../support/l2-directory.ts'
import { chainBatch, loadChain, lookupChain, NEVER, SPACE, storeChain } from '../support/l2-objects.ts'
import { random } from '../support/random.ts'

const directory = useL2Directory()
const CHAINS = 10

it.each([1, 2, 3])('batches beside each other never lose count of the files (seed %i)', async (seed) => {
  const next = random(seed)
  const capacityBytes = 25 * (HEADER_BYTES + SPACE.shardBytes)
  let adapter = await directory.open({ capacityBytes, durability: 'checksum' })
  for (let step = 0; step < 60; step += 1) {
    const work = Array.from({ length: 1 + next(6) }, () => {
      const [chain, from, action] = [next(CHAINS), next(3), next(20)]
      const to = from + 1 + next(6)
      if (action < 9) return storeChain(adapter, chain, 0, to)
      if (action < 16) return loadChain(adapter, chain, from, to)
      if (action < 19) return adapter.remove(chainBatch(SPACE, chain, from, to), NEVER)
      return adapter.clear(next(2) === 0 ? { model: 'another' } : {}, NEVER)
    })
    for (const result of await Promise.all(work)) {
      if (typeof result === 'number') continue
      expect(result).not.toContain(OUTCOME_CORRUPT)
      expect(result).not.toContain(OUTCOME_FAILED)
    }
    directory.expectExactUsage(adapter)
    expect(adapter.usage().bytes).toBeLessThanOrEqual(capacityBytes)
    if (next(15) !== 0) continue
    const before = await heldKeys(adapter)
    adapter = await directory.reopen({ capacityBytes, durability: 'checksum' })
    expect(await heldKeys(adapter)).toEqual(before)
    directory.expectExactUsage(adapter)
  }
})

async function heldKeys(adapter: Awaited<ReturnType<typeof directory.open>>): Promise<number[][]> {
  return Promise.all(Array.from({ length: CHAINS }, (_, chain) => lookupChain(adapter, chain, 0, 10)))
}
