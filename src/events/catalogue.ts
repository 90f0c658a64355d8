import { defineEvent } from './define.ts'

// Every event of the engine. All in one file, so that ids agree between threads.
// The times and ages are in seconds, bytes in bytes; the hash is the first two words of the chunk hash.

/** One shard left L1: for room, or by a clear, delete or quota. */
export const L1_SHARD_LEFT = defineEvent({
  name: 'l1_shard_left',
  payload: ['lifetimeSeconds', 'idleSeconds'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** A client touched a shard again. */
export const L1_SHARD_TOUCHED = defineEvent({
  name: 'l1_shard_touched',
  payload: ['gapSeconds'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** A chunk whose eviction is still remembered was asked for or stored again. */
export const L1_GHOST_SEEN = defineEvent({
  name: 'l1_ghost_seen',
  payload: ['sinceEvictionSeconds'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** A chunk was retrieved: seconds since it was last stored or retrieved, eviction in between or not. */
export const CHUNK_REUSED = defineEvent({
  name: 'chunk_reused',
  payload: ['gapSeconds', 'hashLow', 'hashHigh'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** A chunk was stored by a client (spatially sampled by hash, for the stack distance of reuse). */
export const CHUNK_STORED = defineEvent({
  name: 'chunk_stored',
  payload: ['hashLow', 'hashHigh'],
  emittedBy: 'engine/engine.ts',
})

/**
 * A chunk was asked for by a lookup, resident or not: what the would-hit estimate is made from. The events of one
 * lookup follow each other **tail first** (last whole chunk of the prompt to the first), each chunk once. `tag` is
 * `chunkTag` of the hash and its key space; a chunk whose `sampleValue(tag)` is not below the `sampling` table's
 * `askedBelow` may be left out. `bytes` are those of the whole chunk, all ranks. `askedBefore` is how many chunks all
 * earlier lookups asked for, sampled or not: the same in all events of a lookup, and higher in the next one.
 */
export const CHUNK_ASKED = defineEvent({
  name: 'chunk_asked',
  payload: ['tag', 'bytes', 'askedBefore'],
  emittedBy: 'engine/engine.ts',
})

export const L0_BLOCK_EVICTED = defineEvent({
  name: 'l0_block_evicted',
  payload: ['lifetimeSeconds', 'idleSeconds'],
  emittedBy: 'l0/block-lifecycle.ts',
})

export const L0_BLOCK_REUSED = defineEvent({
  name: 'l0_block_reused',
  payload: ['gapSeconds'],
  emittedBy: 'l0/block-lifecycle.ts',
})

/** One batch moved between L0 and L1, or was copied by a client. */
export const L0_L1_STORED = defineEvent({
  name: 'l0_l1_stored',
  payload: ['bytes', 'busySeconds'],
  emittedBy: 'transfer/l0-l1-copier.ts',
})
export const L0_L1_LOADED = defineEvent({
  name: 'l0_l1_loaded',
  payload: ['bytes', 'busySeconds'],
  emittedBy: 'transfer/l0-l1-copier.ts',
})

/** One L2 batch ended having moved bytes. `adapter` is the adapter's row number. */
export const L2_STORED = defineEvent({
  name: 'l2_stored',
  payload: ['bytes', 'busySeconds', 'adapter'],
  emittedBy: 'l2/adapter-set.ts',
})
export const L2_LOADED = defineEvent({
  name: 'l2_loaded',
  payload: ['bytes', 'busySeconds', 'adapter'],
  emittedBy: 'l2/adapter-set.ts',
})
