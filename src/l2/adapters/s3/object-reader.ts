import { type KeyBatch, OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../adapter.ts'
import { type KeyWords, keyWords } from '../../key-words.ts'
import type { RecordFormat } from '../../object-format.ts'
import type { SpaceEntry } from '../../space-table.ts'
import { type Lane, Lanes } from '../lanes.ts'
import { type BucketParts, Quarantine } from './quarantine.ts'
import { RecordSink } from './record-sink.ts'
import { givenUp } from './s3-client.ts'

/** One batch that is read. */
interface Reading {
  readonly batch: KeyBatch
  readonly space: SpaceEntry
  readonly format: RecordFormat
  readonly hashes: KeyWords
  readonly outcomes: Uint8Array
  readonly signal: AbortSignal
}

/** Objects that are scrubbed at a time: a scrub leaves the connections to the loads. */
const SCRUB_LANES = 2

/**
 * Reads objects straight into where they belong and verifies them. What is missing is forgotten; what is corrupt is
 * quarantined and counted.
 */
export class ObjectReader {
  /** Records that were not what they should be. */
  checksumFailures = 0
  readonly #parts: BucketParts
  readonly #quarantine: Quarantine
  readonly #lanes: Lanes
  readonly #scrubLanes = new Lanes(SCRUB_LANES)

  constructor(parts: BucketParts) {
    this.#parts = parts
    this.#quarantine = new Quarantine(parts)
    this.#lanes = new Lanes(parts.options.parallelism)
  }

  /** As `L2Adapter.load`. */
  load(
    batch: KeyBatch,
    space: SpaceEntry,
    format: RecordFormat,
    targets: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const reading = { batch, space, format, hashes: keyWords(batch.hashes), outcomes, signal }
    return this.#readAll(reading, this.#lanes, (key) => targets[key]!)
  }

  /** As `L2Adapter.scrub`. */
  scrub(
    batch: KeyBatch,
    space: SpaceEntry,
    format: RecordFormat,
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const reading = { batch, space, format, hashes: keyWords(batch.hashes), outcomes, signal }
    const scratch = new Map<Lane, Uint8Array>()
    return this.#readAll(reading, this.#scrubLanes, (_key, lane) => {
      const target = scratch.get(lane) ?? new Uint8Array(batch.space.shardBytes)
      scratch.set(lane, target)
      return target
    })
  }

  async #readAll(reading: Reading, lanes: Lanes, targetOf: (key: number, lane: Lane) => Uint8Array): Promise<number> {
    const { batch, outcomes, signal } = reading
    outcomes.fill(OUTCOME_FAILED, 0, batch.count) // what an abort leaves undone
    let bytes = 0
    let answered = 0
    let error: unknown
    await lanes.run(batch.count, signal, async (key, lane) => {
      try {
        const target = targetOf(key, lane)
        outcomes[key] = await this.#read(reading, key, target, lane)
        answered += 1
        if (outcomes[key] === OUTCOME_OK) bytes += target.length
      } catch (cause) {
        error ??= cause
      }
    })
    if (answered === 0 && batch.count > 0) throw error ?? givenUp('the load')
    return bytes
  }

  /** @returns an OUTCOME_*; unless OK, target is garbage. @throws CacheError when S3 does not say. */
  async #read({ batch, space, format, hashes, signal }: Reading, key: number, target: Uint8Array, lane: Lane) {
    const { held, bucket } = this.#parts
    const { index } = held
    const node = index.find(space.id, hashes, key)
    if (!index.isHeld(node)) return OUTCOME_NOT_FOUND
    const stampMs = index.stampOf(node)
    const sink = new RecordSink(lane.header, target)
    const isThere = await bucket.get(held.nameOf(node), sink, signal)
    const isRight = isThere && sink.isWhole && format.verify(batch, key, lane.header, target, sink.sum) === undefined
    if (isRight) return OUTCOME_OK
    // The object that was read, unless it was stored anew meanwhile.
    const isSame = index.find(space.id, hashes, key) === node && index.isHeld(node) && index.stampOf(node) === stampMs
    if (!isThere) {
      if (isSame) held.drop(node)
      return OUTCOME_NOT_FOUND
    }
    this.checksumFailures += 1
    if (isSame) this.#parts.background(this.#quarantine.take(node))
    return OUTCOME_CORRUPT
  }
}
