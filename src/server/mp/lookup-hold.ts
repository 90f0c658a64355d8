import { type LeaseId, NO_LEASE } from '../../core/ids.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Lookup } from '../../engine/lookup.ts'
import { NO_SPAN, type Span } from '../../events/tracer.ts'

/** What keeps the slots of a retrieval as they are. */
export interface CopyHold {
  /** Null when what it was for can not be served any more. */
  readonly promised: Lookup | null
  /** The leases of chunks [from, to). */
  leasesOf(from: number, to: number): readonly LeaseId[]
  /** See `LookupHold`. */
  settle(from: number, to: number, reads: number): void
  endCopy(from: number, to: number): void
  isQuarantined(from: number, to: number): boolean
}

/**
 * The leases of one lookup, for as long as somebody needs them: the session, until every chunk was retrieved by
 * everyone who is to retrieve it or was let go, and each retrieval under way.
 *
 *   open --(final)--> promised --(last read settled, or session ended)--> retrievals only --(last one ends)--> released
 *
 * A retrieval keeps the slots whatever the session does meanwhile, and longer than the leases: they are being copied
 * from, by a process that cannot be told to stop.
 */
export class LookupHold implements CopyHold {
  readonly #engine: Engine
  #lookup: Lookup | null = null
  #users = 1
  #isSessionDone = false
  /** Reads to come, by chunk. */
  #reads = new Uint32Array(0)
  #openChunks = 0

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** The lookup, once its answer is final and while its leases are held; else null. */
  get promised(): Lookup | null {
    return this.#lookup?.state === 'final' ? this.#lookup : null
  }

  /** The trace of the lookup, also when it is over; NO_SPAN when it is not recorded. */
  get span(): Span {
    return this.#lookup?.span ?? NO_SPAN
  }

  /** Takes over the leases of a lookup, pending or final. */
  attach(lookup: Lookup): void {
    this.#lookup = lookup
    this.#releaseIfUnused()
  }

  /** The answer is final. @param readsOfChunk how often each promised chunk will be retrieved, all ranks together. */
  promise(hitChunks: number, readsOfChunk: number): void {
    this.#reads = new Uint32Array(hitChunks).fill(readsOfChunk)
    this.#openChunks = hitChunks
    if (hitChunks === 0) this.endSession()
  }

  /** Somebody starts to copy chunks [from, to). */
  beginCopy(from: number, to: number): void {
    this.#users += 1
    for (const lease of this.leasesOf(from, to)) this.#engine.l1.beginCopy(lease)
  }

  /** That copy has ended, or its process has. */
  endCopy(from: number, to: number): void {
    for (const lease of this.leasesOf(from, to)) this.#engine.l1.endCopy(lease)
    this.#release()
  }

  /** Whether such a copy has outlived the leases. */
  isQuarantined(from: number, to: number): boolean {
    return this.leasesOf(from, to).some((lease) => this.#engine.l1.isQuarantined(lease))
  }

  /** Chunks [from, to) were retrieved `reads` times, or will not be (Infinity). The last of all ends the session's use. */
  settle(from: number, to: number, reads: number): void {
    for (let chunk = from; chunk < Math.min(to, this.#reads.length); chunk += 1) {
      const left = this.#reads[chunk]!
      if (left === 0) continue
      this.#reads[chunk] = Math.max(0, left - reads)
      if (this.#reads[chunk] === 0) this.#openChunks -= 1
    }
    if (this.#openChunks === 0) this.endSession()
  }

  /** The session does not need it any more. Idempotent. */
  endSession(): void {
    if (this.#isSessionDone) return
    this.#isSessionDone = true
    this.#release()
  }

  leasesOf(from: number, to: number): readonly LeaseId[] {
    const { l1To, residentLease, loadedLease } = this.#lookup!
    const leases = [from < l1To ? residentLease : NO_LEASE, to > l1To ? loadedLease : NO_LEASE]
    return leases.filter((lease) => lease !== NO_LEASE)
  }

  #release(): void {
    this.#users -= 1
    this.#releaseIfUnused()
  }

  #releaseIfUnused(): void {
    if (this.#users > 0 || this.#lookup === null) return
    this.#engine.release(this.#lookup)
    this.#lookup = null
    this.#reads = new Uint32Array(0)
  }
}
