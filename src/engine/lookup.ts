import type { HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import { NO_SPAN, type Span } from '../events/tracer.ts'

/**
 * One client's question which leading run of a prompt is cached, and the promise that came of it.
 *
 *   pending --(L2 answered, or nobody to ask)--> final --(released, retrieved or session ended)--> closed
 *      \--(client left, or its time is up: final with what L0 and L1 had)--/
 *
 * Chunks [0, hitChunks) are promised. Those of L1 are leased: [0, l1To) by `residentLease`, and what L2 brought,
 * [l1To, loadedTo), by `loadedLease`. `hitL0 + hitL1 + hitL2 = hitChunks`, each chunk under the fastest tier that had it.
 */
export class Lookup {
  state: 'pending' | 'final' | 'closed' = 'pending'
  readonly space: SpaceId
  /** As given by the caller, who leaves it alone while the lookup is pending. */
  readonly chain: HashChain
  /** Whole chunks asked for. */
  readonly requestedChunks: number
  readonly owner: number
  /** When a pending lookup is given up, and the leases of a final one end. */
  expiresMs: number
  hitChunks = 0
  hitL0 = 0
  hitL1 = 0
  hitL2 = 0
  /** Chunks of the run that is readable in L1, before and after L2 was asked. */
  l1To = 0
  loadedTo = 0
  residentLease: LeaseId = NO_LEASE
  loadedLease: LeaseId = NO_LEASE
  /** The trace of the request: what follows from the lookup is a part of it. */
  span: Span = NO_SPAN
  #onFinal: ((lookup: Lookup) => void) | undefined

  constructor(space: SpaceId, chain: HashChain, owner: number, expiresMs: number, onFinal?: (lookup: Lookup) => void) {
    this.space = space
    this.chain = chain
    this.requestedChunks = chain.count
    this.owner = owner
    this.expiresMs = expiresMs
    this.#onFinal = onFinal
  }

  /** Tells the caller, once. Called by the engine when `state` has become final. */
  tellFinal(): void {
    const onFinal = this.#onFinal
    this.#onFinal = undefined
    onFinal?.(this)
  }
}
