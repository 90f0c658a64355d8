import type { HashChain } from '../../core/hash-chain.ts'
import type { SpaceId } from '../../core/ids.ts'
import type { Engine } from '../../engine/engine.ts'
import type { TierRun } from '../../engine/prefix-tiers.ts'
import type { SlotList } from '../../l1/slot-list.ts'
import type { LookupAnswer, PinInfo, SlotLease } from '../http/engine-port.ts'

// What the engine has as what the port tells: chunks as tokens, times as texts.

/** Of a lookup, final or dry. */
export function lookupAnswer(engine: Engine, chain: HashChain, hit: TierRun, leaseId: string | null): LookupAnswer {
  const { chunkTokens, leaseTtlMs } = engine.options
  const hitChunks = hit.hitL0 + hit.hitL1 + hit.hitL2
  return {
    leaseId,
    leaseTtlMs,
    requestedTokens: chain.count * chunkTokens,
    hitTokens: hitChunks * chunkTokens,
    chunkTokens,
    hitChunks,
    tiers: { l0: hit.hitL0 * chunkTokens, l1: hit.hitL1 * chunkTokens, l2: hit.hitL2 * chunkTokens },
    hashes: chain.bytes.slice(0, chain.count * 32),
  }
}

/** Of the first slot of a list. */
export function slotLease(engine: Engine, slots: SlotList, leaseId: string): SlotLease {
  const { leaseTtlMs } = engine.options
  return { status: 'granted', leaseId, offset: slots.offset[0]!, length: slots.length[0]!, ttlMs: leaseTtlMs }
}

/** What a pin is, for people. */
export function pinInfo(
  engine: Engine,
  pin: { id: string; space: SpaceId; chunks: number; bytes: number; createdWallMs: number },
): PinInfo {
  const { model, salt, chunkTokens } = engine.l1.spaces.spec(pin.space)
  const { chunks, bytes } = pin
  const createdAt = new Date(pin.createdWallMs).toISOString()
  return { pinId: pin.id, model, salt, tokens: chunks * chunkTokens, chunks, bytes, createdAt }
}
