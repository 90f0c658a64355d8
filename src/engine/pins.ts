import { randomUUID } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import type { HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import type { L1Cache } from '../l1/l1-cache.ts'

/** Chunks of a prompt that stay in L1 until unpinned. Pins end with the process. */
export interface Pin {
  readonly id: string
  readonly space: SpaceId
  readonly chunks: number
  readonly bytes: number
  /** Milliseconds since 1970. */
  readonly createdWallMs: number
  readonly lease: LeaseId
}

/** The pins of this engine. Their number is bounded by the lease table, their bytes by `pinRatioMax` of L1. */
export class PinTable {
  readonly #l1: L1Cache
  readonly #clock: Clock
  readonly #pins = new Map<string, Pin>()

  constructor(l1: L1Cache, clock: Clock) {
    this.#l1 = l1
    this.#clock = clock
  }

  /** Pins the leading resident run of a chain. */
  pin(space: SpaceId, chain: HashChain, owner: number): Pin | 'nothing_resident' | 'over_limit' {
    const chunks = this.#l1.residentRun(space, chain, 0, chain.count)
    if (chunks === 0) return 'nothing_resident'
    const lease = this.#l1.lease(space, chain, 0, chunks, 'pin', owner, Number.POSITIVE_INFINITY)
    if (lease === NO_LEASE) return 'over_limit'
    const { ranks, shardBytes } = this.#l1.spaces.spec(space)
    const bytes = chunks * ranks * shardBytes
    const pin: Pin = { id: randomUUID(), space, chunks, bytes, createdWallMs: this.#clock.wallMs(), lease }
    this.#pins.set(pin.id, pin)
    return pin
  }

  /** False when there is no such pin. */
  unpin(id: string): boolean {
    const pin = this.#pins.get(id)
    if (pin === undefined) return false
    this.#pins.delete(id)
    this.#l1.release(pin.lease)
    return true
  }

  /** Ends the pins of a space whose chunks are about to be cleared: nothing would be left to find in them. */
  removeSpace(space: SpaceId): void {
    for (const pin of this.list()) if (pin.space === space) this.unpin(pin.id)
  }

  /** Oldest first. */
  list(): readonly Pin[] {
    return [...this.#pins.values()]
  }
}
