import type { HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import { heldInL2 } from '../transfer/held-in-l2.ts'
import type { Engine } from './engine.ts'

/** Chunks of a leading run by the fastest tier that has them. */
export interface TierRun {
  readonly hitL0: number
  readonly hitL1: number
  readonly hitL2: number
}

/** Which tiers hold the leading run of a chain: no lease, no counter, no touch, no load. L2 is asked for the rest. */
export async function peekTiers(engine: Engine, space: SpaceId, chain: HashChain): Promise<TierRun> {
  const near = engine.peek(space, chain)
  const from = near.hitL0 + near.hitL1
  if (from === chain.count) return { ...near, hitL2: 0 }
  return { ...near, hitL2: await heldInL2(engine.adapters, engine.l1.spaces.spec(space), chain, from) }
}

/** Chunks of the leading run in L1, before and after a warming. */
export interface Warmed {
  readonly residentChunks: number
  readonly loadedChunks: number
}

/**
 * Loads what L2 holds of the leading run of a chain into L1, as a lookup would, but leases nothing and counts no lookup.
 * Nothing is loaded while as many loads are under way as are allowed.
 */
export async function warmPrefix(engine: Engine, space: SpaceId, chain: HashChain): Promise<Warmed> {
  const { l1, prefetcher } = engine
  const from = l1.residentRun(space, chain, 0, chain.count)
  if (from === chain.count || !prefetcher.canStart()) return { residentChunks: from, loadedChunks: 0 }
  const owner = engine.sessions.nextOwner()
  await new Promise<void>((onDone) => {
    prefetcher.start({ space, chain, from, to: chain.count, owner, onDone })
  })
  const now = l1.residentRun(space, chain, 0, chain.count)
  return { residentChunks: from, loadedChunks: Math.max(0, now - from) }
}
