import { HASH_BYTES } from '../core/hash-chain.ts'
import { type KeyBatch, type L2Adapter, OUTCOME_FAILED } from './adapter.ts'

/** Memory that a batch is read into at most, when its adapter cannot verify by itself. At least one object. */
const SCRATCH_BYTES = 8 * 1024 * 1024

/**
 * Verifies objects of any adapter: by itself where it can, else by loads into memory that is thrown away.
 *
 * @param outcomes out: one OUTCOME_* a key; FAILED for those that were not tried any more.
 * @returns bytes read, summed over OUTCOME_OK.
 * @throws CacheError L2_* when no key could be tried.
 */
export async function scrubObjects(
  adapter: L2Adapter,
  batch: KeyBatch,
  outcomes: Uint8Array,
  signal: AbortSignal,
): Promise<number> {
  if (adapter.scrub !== undefined) return adapter.scrub(batch, outcomes, signal)
  const { shardBytes } = batch.space
  const step = Math.max(1, Math.floor(SCRATCH_BYTES / shardBytes))
  const scratch = new Uint8Array(Math.min(step, batch.count) * shardBytes)
  outcomes.fill(OUTCOME_FAILED, 0, batch.count)
  let bytes = 0
  for (let from = 0; from < batch.count; from += step) {
    const part = partOf(batch, from, Math.min(from + step, batch.count))
    const targets = Array.from({ length: part.count }, (_, key) =>
      scratch.subarray(key * shardBytes, (key + 1) * shardBytes),
    )
    try {
      bytes += await adapter.load(part, targets, outcomes.subarray(from, from + part.count), signal)
    } catch (error) {
      if (from === 0) throw error
      return bytes
    }
  }
  return bytes
}

/** Keys [from, to) of a batch, as views. */
export function partOf({ space, hashes, parents }: KeyBatch, from: number, to: number): KeyBatch {
  const start = from * HASH_BYTES
  const end = to * HASH_BYTES
  return { space, count: to - from, hashes: hashes.subarray(start, end), parents: parents.subarray(start, end) }
}
