import { HASH_BYTES, HashChain } from '../../src/core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { Lookup } from '../../src/engine/lookup.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { fillPattern, matchesPattern } from '../../src/replay/chunk-pattern.ts'
import { random } from './random.ts'

/** A chain named by letters: chains with a common prefix of letters have a common prefix of chunks. */
export function chainOf(letters: string): HashChain {
  const bytes = new Uint8Array(letters.length * HASH_BYTES)
  let state = 1
  for (let index = 0; index < letters.length; index += 1) {
    state = Math.imul(state, 31) + letters.charCodeAt(index)
    const next = random(state)
    for (let at = 0; at < HASH_BYTES; at += 1) bytes[index * HASH_BYTES + at] = next(256)
  }
  return HashChain.of(bytes)
}

/** Stores a whole chain as a client with one rank does. @returns chunks that became readable. */
export function storeChain(engine: Engine, memory: Uint8Array, space: SpaceId, chain: HashChain, rank = 0): number {
  const grants = new SlotList()
  const lease = engine.reserve(space, rank, chain, 0, chain.count, engine.sessions.nextOwner(), grants)
  if (lease === NO_LEASE) return 0
  for (let row = 0; row < grants.count; row += 1) {
    const bytes = memory.subarray(grants.offset[row]!, grants.offset[row]! + grants.length[row]!)
    fillPattern(bytes, chain, grants.chainIndex[row]!)
  }
  return engine.commit(space, rank, lease)
}

/** Whether all bytes that a final lookup promises from L1 are those that `storeChain` wrote. */
export function holdsRightBytes(engine: Engine, memory: Uint8Array, lookup: Lookup): boolean {
  const slots = new SlotList()
  if (!engine.slots(lookup, -1, 0, lookup.loadedTo, slots)) return false
  for (let row = 0; row < slots.count; row += 1) {
    const bytes = memory.subarray(slots.offset[row]!, slots.offset[row]! + slots.length[row]!)
    if (!matchesPattern(bytes, lookup.chain, slots.chainIndex[row]!, new Uint8Array(bytes.length))) return false
  }
  return true
}
