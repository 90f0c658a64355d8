import { HASH_WORDS } from '../../../core/hash-chain.ts'
import {
  type KeyBatch,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_FULL,
  OUTCOME_OK,
  outcomeOfOther,
} from '../../adapter.ts'
import { followsNeighbour, type KeyWords, keyWords } from '../../key-words.ts'
import { HEADER_BYTES, type RecordFormat } from '../../object-format.ts'
import { isOwnAncestor } from '../../own-ancestor.ts'
import type { SpaceEntry } from '../../space-table.ts'
import { type Lane, Lanes } from '../lanes.ts'
import type { Condemned } from './bucket-index.ts'
import type { BucketParts } from './quarantine.ts'
import { givenUp } from './s3-client.ts'
import { upload } from './upload.ts'

/** One object being written. */
interface Write {
  readonly node: number
  readonly key: number
  /** How it ends: an OUTCOME_*. */
  readonly ended: Promise<number>
  end(outcome: number): void
}

/** One store batch under way. */
interface Work {
  readonly batch: KeyBatch
  readonly space: SpaceEntry
  readonly format: RecordFormat
  readonly hashes: KeyWords
  readonly parents: KeyWords
  readonly sources: readonly Uint8Array[]
  readonly outcomes: Uint8Array
  readonly signal: AbortSignal
  /** Begun, with their room made; to be written by this batch. */
  readonly own: Write[]
  /** Keys that another batch, or an earlier key of this one, is writing. */
  readonly others: { readonly key: number; readonly write: Write }[]
  bytes: number
  error: unknown
}

/**
 * Stores batches: first room for all of it, in one turn with one request of deletions, then the objects side by side.
 *
 *   plan (alone): known -> OK | being written -> wait for it | room -> begun | none -> FULL
 *   write:        PUT or parts -> published | cancelled
 */
export class ObjectWriter {
  readonly #parts: BucketParts
  readonly #lanes: Lanes
  /** By pending node. */
  readonly #writing = new Map<number, Write>()

  constructor(parts: BucketParts) {
    this.#parts = parts
    this.#lanes = new Lanes(parts.options.parallelism)
  }

  /** As `L2Adapter.store`. */
  async store(
    batch: KeyBatch,
    space: SpaceEntry,
    format: RecordFormat,
    sources: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const { held } = this.#parts
    const hashes = keyWords(batch.hashes)
    const parents = keyWords(batch.parents)
    outcomes.fill(OUTCOME_FAILED, 0, batch.count) // what an abort leaves undone
    const begun = { own: [], others: [], bytes: 0, error: undefined }
    const work: Work = { batch, space, format, hashes, parents, sources, outcomes, signal, ...begun }
    await held.describe(space, signal)
    await orAborted(
      held.alone(() => this.#plan(work)),
      signal,
    )
    await this.#lanes.run(work.own.length, signal, (at, lane) => this.#write(work, work.own[at]!, lane))
    this.#cancel(work.own, outcomes, OUTCOME_FAILED) // what an abort left unbegun
    for (const { key, write } of work.others) {
      outcomes[key] = outcomeOfOther(await orAborted(write.ended, signal).catch(() => OUTCOME_FAILED))
    }
    const isLost = outcomes.subarray(0, batch.count).every((outcome) => outcome === OUTCOME_FAILED)
    if (isLost && batch.count > 0) throw signal.aborted ? givenUp('the store') : (work.error ?? givenUp('the store'))
    held.index.refresh(space.id, hashes, parents, batch.count)
    return work.bytes
  }

  /** Begins what is to be written, and deletes what must go for it. */
  async #plan(work: Work): Promise<void> {
    const { held } = this.#parts
    const { signal, outcomes } = work
    if (signal.aborted) return
    const condemned: Condemned[] = []
    for (let key = 0; key < work.batch.count; key += 1) this.#begin(work, key, condemned)
    await held.remove(condemned, signal)
    if (signal.aborted) this.#cancel(work.own.splice(0), new Uint8Array(work.batch.count), OUTCOME_FAILED) // outcomes are gone
    // What could not be deleted takes its room back from the last ones.
    while (work.own.length > 0 && !this.#fits()) this.#cancel([work.own.pop()!], outcomes, OUTCOME_FULL)
  }

  #begin(work: Work, key: number, condemned: Condemned[]): void {
    const { index } = this.#parts.held
    const { space, batch, hashes, parents, outcomes } = work
    const known = index.find(space.id, hashes, key)
    const write = this.#writing.get(known)
    if (index.isHeld(known)) outcomes[key] = OUTCOME_OK
    else if (write !== undefined) work.others.push({ key, write })
    else if (isOwnAncestor(index, space.id, hashes, parents, key)) outcomes[key] = OUTCOME_FULL
    else {
      const node = index.begin(space.id, hashes, parents, key, HEADER_BYTES + batch.space.shardBytes)
      // No room for a chunk means none for what follows it: a child is worth nothing without its parent.
      const isRefused = key > 0 && outcomes[key - 1] === OUTCOME_FULL && followsNeighbour(hashes, parents, key)
      if (isRefused || !this.#parts.held.makeRoom(condemned, space.id)) {
        index.cancel(node)
        outcomes[key] = OUTCOME_FULL
        return
      }
      const { promise, resolve } = Promise.withResolvers<number>()
      const own = { node, key, ended: promise, end: resolve }
      this.#writing.set(node, own)
      work.own.push(own)
    }
  }

  /** Writes one object. Never rejects. */
  async #write(work: Work, write: Write, lane: Lane): Promise<void> {
    const { held, bucket, names, options, wallMs, background } = this.#parts
    const { partBytes, parallelism } = options
    const { batch, space, hashes, parents, signal } = work
    const { key, node } = write
    const source = work.sources[key]!
    const name = names.objectOf(space.digest, wordsAt(hashes, key), wordsAt(parents, key))
    try {
      const bytes = HEADER_BYTES + source.length
      const isThere = options.lookup === 'head' && (await bucket.head(name, signal)) === bytes
      if (!isThere) {
        if (!work.format.encode(batch, key, source, lane.header)) {
          this.#cancel([write], work.outcomes, OUTCOME_CORRUPT)
          return
        }
        await upload(bucket, name, [lane.header, source], { partBytes, parallelism, background }, signal)
        work.bytes += source.length
      }
      held.index.publish(node)
      held.index.setStamp(node, wallMs())
      this.#end(write, work.outcomes, OUTCOME_OK)
    } catch (error) {
      work.error ??= error
      this.#cancel([write], work.outcomes, OUTCOME_FAILED)
    }
  }

  #cancel(writes: readonly Write[], outcomes: Uint8Array, outcome: number): void {
    for (const write of writes) {
      if (this.#writing.get(write.node) !== write) continue // ended
      this.#parts.held.index.cancel(write.node)
      this.#end(write, outcomes, outcome)
    }
  }

  #end(write: Write, outcomes: Uint8Array, outcome: number): void {
    this.#writing.delete(write.node)
    outcomes[write.key] = outcome
    write.end(outcome)
  }

  #fits(): boolean {
    const { held, options } = this.#parts
    const bytes = held.index.heldBytes + held.index.pendingBytes
    return options.capacityBytes === 0 || bytes <= options.capacityBytes
  }
}

/** @throws CacheError L2_TIMEOUT when the signal fires first; the promise goes on. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(givenUp('the store'))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
    aborted.promise.catch(() => undefined)
  }
}

function wordsAt(words: KeyWords, key: number): KeyWords {
  return words.subarray(key * HASH_WORDS, (key + 1) * HASH_WORDS)
}
