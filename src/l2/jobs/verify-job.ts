import { HASH_BYTES } from '../../core/hash-chain.ts'
import { type KeyBatch, OUTCOME_CORRUPT, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../adapter.ts'
import { scrubObjects } from '../scrub-objects.ts'
import { JOB_BATCH_BYTES, type JobContext, nameCorrupt } from './job.ts'
import { ObjectWalk } from './object-walk.ts'

/** Reads every object of an adapter and verifies it. Corrupt ones are quarantined by the adapter. */
export async function verifyJob(context: JobContext): Promise<void> {
  const { source } = context
  const walk = new ObjectWalk({ ...context, batchBytes: JOB_BATCH_BYTES })
  await walk.run(async (batch) => {
    await walk.pace(batch.count * batch.space.shardBytes)
    const outcomes = new Uint8Array(batch.count)
    const scrub = (signal: AbortSignal) => scrubObjects(source.adapter, batch, outcomes, signal)
    const bytes = await walk.attempt(source, source.limits.loadDeadlineMs, scrub)
    countOutcomes(context, batch, outcomes)
    context.counts.objects += batch.count
    context.counts.bytes += bytes
    source.count('scrubbedObjects', batch.count)
    source.refresh()
  })
}

/** Counts what was read: verified, gone, corrupt, failed. */
export function countOutcomes({ counts, corrupt }: JobContext, batch: KeyBatch, outcomes: Uint8Array): void {
  for (const [key, outcome] of outcomes.entries()) {
    if (outcome === OUTCOME_OK) counts.ok += 1
    else if (outcome === OUTCOME_NOT_FOUND) counts.notFound += 1
    else if (outcome === OUTCOME_CORRUPT) {
      counts.corrupt += 1
      nameCorrupt(corrupt, batch.space, batch.hashes.subarray(key * HASH_BYTES, (key + 1) * HASH_BYTES))
    } else counts.failed += 1
  }
}
