import { HitCurve } from './hit-curve.ts'
import { BYTES, CHUNKS, type StackDistance, WEIGHT } from './reuse-distance.ts'

const FINISHED = 0
const OPEN = 1
// The sizes, in chunks and in bytes, that would have held a chunk.
const NEEDED_CHUNKS = 0
const NEEDED_BYTES = 1
const NEEDED_WEIGHT = 2

/**
 * Estimates, from the chunks that lookups ask for, what an L1 of any size would have hit under least recent use with
 * prefix semantics, since start. Input: the events CHUNK_ASKED, in order (tail first within a lookup). Because a
 * chunk's ancestors are always touched after it, its distance is never below theirs, and a chunk whose distance
 * fits has its whole prefix in the cache: prefix semantics need no further check.
 *
 * Each followed chunk stands for 1 / rate chunks. What that sum misses of the chunks really asked for is counted
 * as hits of the smallest distance (SHARDS-adj): it is mostly frequent chunks that the sample has or lacks by chance.
 */
export class WouldHit {
  readonly distances: StackDistance
  readonly #byChunks = new HitCurve()
  readonly #byBytes = new HitCurve()
  #askedBefore = -1
  #firstAsked = 0
  // Weights lie in an array, because a number in a field is boxed anew when it changes: all of finished lookups, by the
  // sample; those of the lookup now being told.
  readonly #weights = new Float64Array(2)
  readonly #needed = new Float64Array(3)
  #isGapless = true

  constructor(distances: StackDistance) {
    this.distances = distances
  }

  /** One event CHUNK_ASKED. */
  asked(tag: number, bytes: number, askedBefore: number): void {
    this.askedAt(Float64Array.of(tag, bytes, askedBefore), 0)
  }

  /** As `asked`, from where the event's payload lies. */
  askedAt(payload: Float64Array, at: number): void {
    const askedBefore = payload[at + 2]!
    if (askedBefore !== this.#askedBefore) {
      if (this.#askedBefore < 0) this.#firstAsked = askedBefore
      this.#askedBefore = askedBefore
      this.#weights[FINISHED]! += this.#weights[OPEN]!
      this.#weights[OPEN] = 0
      this.distances.startBatch()
    }
    if (!this.distances.touchAt(payload, at, true)) return
    const { measured, isSeen } = this.distances
    this.#weights[OPEN]! += measured[WEIGHT]!
    if (!isSeen) return
    const needed = this.#needed
    needed[NEEDED_CHUNKS] = measured[CHUNKS]! + 1
    needed[NEEDED_BYTES] = measured[BYTES]! + payload[at + 1]!
    needed[NEEDED_WEIGHT] = measured[WEIGHT]!
    this.#byChunks.addAt(needed, NEEDED_CHUNKS, NEEDED_WEIGHT)
    this.#byBytes.addAt(needed, NEEDED_BYTES, NEEDED_WEIGHT)
  }

  /** Events were lost: the chunks asked for can no longer be told from the events, so the correction ends. */
  noteLoss(): void {
    this.#isGapless = false
  }

  /** Chunks asked for so far, as far as the sample knows them; 0 before the first. */
  get total(): number {
    return this.#weights[FINISHED]! + this.#weights[OPEN]! + this.#correction()
  }

  /** Share of the chunks asked for that an L1 of so many bytes would have held; 0 before the first. */
  ratioAtBytes(bytes: number): number {
    return this.#ratio(this.#byBytes, bytes)
  }

  ratioAtChunks(chunks: number): number {
    return this.#ratio(this.#byChunks, chunks)
  }

  /** The ratio at each size, in bytes: the curve "hit rate if L1 were so large". */
  curve(sizesBytes: readonly number[]): number[] {
    return sizesBytes.map((bytes) => this.ratioAtBytes(bytes))
  }

  #correction(): number {
    if (!this.#isGapless || this.#askedBefore < 0) return 0
    return this.#askedBefore - this.#firstAsked - this.#weights[FINISHED]!
  }

  #ratio(curve: HitCurve, size: number): number {
    const correction = this.#correction()
    const total = this.#weights[FINISHED]! + this.#weights[OPEN]! + correction
    if (total <= 0) return 0
    return Math.min(1, Math.max(0, (curve.within(size) + correction) / total))
  }
}
