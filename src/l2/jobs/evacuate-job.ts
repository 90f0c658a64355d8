import { CacheError } from '../../core/errors.ts'
import { HASH_BYTES } from '../../core/hash-chain.ts'
import { type KeyBatch, OUTCOME_FAILED, OUTCOME_FULL, OUTCOME_OK } from '../adapter.ts'
import type { Attached } from '../adapter-set.ts'
import { JOB_BATCH_BYTES, type JobContext } from './job.ts'
import { ObjectWalk } from './object-walk.ts'
import { countOutcomes } from './verify-job.ts'

/** How often a drain's evacuation looks whether the stores that were in flight have ended. */
const STORES_WAIT_MS = 50

/**
 * Copies every object of an adapter to another one. Nothing is taken away from the source, so that an evacuation can
 * be cancelled, or cut off, at any time. Run again, it goes on where it was: what the target holds is not copied.
 *
 *   list -> which of them does the target lack? -> load (verified) -> store -> next batch
 *
 * Stores that were in flight when the source began to drain may add objects behind the walk: it is then repeated.
 * The bytes lie in shared memory, so that they cross no thread.
 */
export async function evacuateJob(context: JobContext): Promise<void> {
  const { source, counts } = context
  const target = context.target!
  const walk = new ObjectWalk({ ...context, batchBytes: JOB_BATCH_BYTES })
  const copier = new Copier(context, walk, target)
  for (;;) {
    const isSettled = source.inFlight().stores === 0
    counts.objects = 0
    await walk.run((batch) => copier.copy(batch))
    if (isSettled || source.state !== 'draining') return
    while (source.inFlight().stores > 0) await walk.wait(STORES_WAIT_MS)
    counts.present = 0 // of the walk to come; what was copied counts on
  }
}

class Copier {
  readonly #context: JobContext
  readonly #walk: ObjectWalk
  readonly #target: Attached
  #scratch = new Uint8Array(new SharedArrayBuffer(0))

  constructor(context: JobContext, walk: ObjectWalk, target: Attached) {
    this.#context = context
    this.#walk = walk
    this.#target = target
  }

  async copy(batch: KeyBatch): Promise<void> {
    const { counts } = this.#context
    const found = await this.#lookUp(batch)
    const missing = keysWhere(batch, found, 0)
    counts.present += batch.count - missing.count
    if (missing.count > 0) await this.#move(missing)
    counts.objects += batch.count
  }

  async #lookUp(batch: KeyBatch): Promise<Uint8Array> {
    const { adapter, limits } = this.#target
    this.#checkTarget()
    return this.#walk.attempt(this.#target, limits.lookupDeadlineMs, async (signal) => {
      const found = new Uint8Array(batch.count)
      await adapter.lookup(batch, found, signal)
      return found
    })
  }

  async #move(batch: KeyBatch): Promise<void> {
    const { source, counts } = this.#context
    const { shardBytes } = batch.space
    await this.#walk.pace(batch.count * shardBytes)
    const views = this.#views(batch.count, shardBytes)
    const loaded = new Uint8Array(batch.count)
    const load = (signal: AbortSignal) => source.adapter.load(batch, views, loaded.fill(OUTCOME_FAILED), signal)
    const bytes = await this.#walk.attempt(source, source.limits.loadDeadlineMs, load)
    counts.bytes += bytes
    const okBefore = counts.ok
    countOutcomes(this.#context, batch, loaded)
    const failed = loaded.filter((outcome) => outcome === OUTCOME_FAILED).length
    if (failed > 0) source.count('evacuationFailedObjects', failed)
    counts.ok = okBefore // counted when they are stored
    const whole = keysWhere(batch, loaded, OUTCOME_OK)
    const sources = views.filter((_, key) => loaded[key] === OUTCOME_OK)
    if (whole.count > 0) await this.#store(whole, sources)
    source.refresh()
  }

  async #store(batch: KeyBatch, sources: Uint8Array[]): Promise<void> {
    const { source, counts } = this.#context
    const { adapter, limits } = this.#target
    this.#checkTarget()
    const stored = new Uint8Array(batch.count)
    const store = (signal: AbortSignal) => adapter.store(batch, sources, stored.fill(OUTCOME_FAILED), signal)
    await this.#walk.attempt(this.#target, limits.storeDeadlineMs, store)
    let copied = 0
    for (const outcome of stored) {
      if (outcome === OUTCOME_OK) copied += 1
      else if (outcome === OUTCOME_FULL) counts.full += 1
      else counts.failed += 1
    }
    counts.ok += copied
    source.count('evacuatedObjects', copied)
    source.count('evacuatedBytes', copied * batch.space.shardBytes)
    source.count('evacuationFailedObjects', batch.count - copied)
  }

  #checkTarget(): void {
    if (this.#target.isStorable) return
    throw new CacheError('L2_DRAINING', `the adapter ${this.#target.name} takes no stores: it is ${this.#target.state}`)
  }

  #views(count: number, shardBytes: number): Uint8Array[] {
    const bytes = count * shardBytes
    if (this.#scratch.length < bytes) {
      this.#scratch = new Uint8Array(new SharedArrayBuffer(Math.max(bytes, Math.min(JOB_BATCH_BYTES, 64 * shardBytes))))
    }
    return Array.from({ length: count }, (_, key) => this.#scratch.subarray(key * shardBytes, (key + 1) * shardBytes))
  }
}

/** The keys of a batch whose flag is `wanted`. */
function keysWhere(batch: KeyBatch, flags: Uint8Array, wanted: number): KeyBatch {
  const keys = Array.from(flags.keys()).filter((key) => flags[key] === wanted)
  if (keys.length === batch.count) return batch
  const hashes = new Uint8Array(keys.length * HASH_BYTES)
  const parents = new Uint8Array(keys.length * HASH_BYTES)
  for (const [at, key] of keys.entries()) {
    hashes.set(batch.hashes.subarray(key * HASH_BYTES, (key + 1) * HASH_BYTES), at * HASH_BYTES)
    parents.set(batch.parents.subarray(key * HASH_BYTES, (key + 1) * HASH_BYTES), at * HASH_BYTES)
  }
  return { space: batch.space, count: keys.length, hashes, parents }
}
