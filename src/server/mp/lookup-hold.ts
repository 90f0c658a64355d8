import type { Engine } from '../../engine/engine.ts'
import type { Lookup } from '../../engine/lookup.ts'

/**
 * The leases of one lookup, for as long as somebody needs them: the session, until every chunk was retrieved by
 * everyone who is to retrieve it or was let go, and each retrieval under way.
 *
 *   open --(final)--> promised --(last read settled, or session ended)--> retrievals only --(last one ends)--> released
 *
 * A retrieval keeps the leases whatever the session does meanwhile: the slots are being copied from.
 */
export class LookupHold {
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

  /** A retrieval starts to use the slots. */
  retain(): void {
    this.#users += 1
  }

  release(): void {
    this.#users -= 1
    this.#releaseIfUnused()
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
    this.release()
  }

  #releaseIfUnused(): void {
    if (this.#users === 0 && this.#lookup !== null) this.#engine.release(this.#lookup)
  }
}
