import { NO_LEASE } from '../core/ids.ts'
import type { Engine } from '../engine/engine.ts'
import { SlotList } from '../l1/slot-list.ts'
import type { ChunkChecker } from './chunk-checker.ts'
import { fillPattern } from './chunk-pattern.ts'
import type { DataPath, Flight } from './data-path.ts'
import type { ReplayCounts } from './replay-counts.ts'

export interface ClientPathParts {
  readonly engine: Engine
  /** The bytes of L1, or null when only metadata is kept. */
  readonly arena: Uint8Array | null
  readonly chunkBytes: number
  readonly counts: ReplayCounts
  readonly checker: ChunkChecker
}

/** A server without L0 that copies chunks out of the arena and into it by itself, as vLLM does on one machine. */
export class ClientPath implements DataPath {
  readonly #parts: ClientPathParts
  readonly #slots = new SlotList()
  /** Where a fetched chunk goes. */
  readonly #own: Uint8Array

  constructor(parts: ClientPathParts) {
    this.#parts = parts
    this.#own = new Uint8Array(parts.arena === null ? 0 : parts.chunkBytes)
  }

  fetch(flight: Flight, done: (chunks: number) => void): void {
    const { engine, arena, counts } = this.#parts
    const lookup = flight.lookup!
    const hits = lookup.hitChunks
    this.#slots.clear()
    const isHeld = hits > 0 && engine.slots(lookup, 0, 0, hits, this.#slots)
    if (isHeld) {
      if (arena !== null) this.#copyOut(flight, arena)
      engine.served(lookup, 0, hits)
    } else counts.expiredChunks += hits
    done(isHeld ? hits : 0)
  }

  store(flight: Flight, done: (chunks: number) => void): void {
    const { engine, arena } = this.#parts
    const { chain, grants } = flight
    const { space, owner, loadedTo } = flight.lookup!
    const lease = engine.reserve(space, 0, chain, loadedTo, chain.count, owner, grants)
    if (lease !== NO_LEASE && arena !== null) this.#copyIn(flight, arena)
    done(lease === NO_LEASE ? 0 : Math.max(0, engine.commit(space, 0, lease)))
  }

  end(): void {
    // Everything it has belongs to the lookup.
  }

  #copyOut({ chain }: Flight, arena: Uint8Array): void {
    const { chainIndex, offset, length, count } = this.#slots
    for (let row = 0; row < count; row += 1) {
      const bytes = this.#own.subarray(0, length[row]!)
      bytes.set(arena.subarray(offset[row]!, offset[row]! + length[row]!))
      this.#parts.counts.fetchedBytes += bytes.length
      this.#parts.checker.check(bytes, chain, chainIndex[row]!)
    }
  }

  #copyIn({ chain, grants }: Flight, arena: Uint8Array): void {
    const { chainIndex, offset, length, count } = grants
    for (let row = 0; row < count; row += 1) {
      fillPattern(arena.subarray(offset[row]!, offset[row]! + length[row]!), chain, chainIndex[row]!)
      this.#parts.counts.writtenBytes += length[row]!
    }
  }
}
