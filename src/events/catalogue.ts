import { defineEvent } from './define.ts'

// Every event of the engine. All in one file, so that ids agree between threads.
// The times and ages are in seconds, bytes in bytes. The chunks of a prompt are stored, touched and evicted together, so
// what happens to several of one tenant in one call, at the same ages, is one event, which says of how many it tells.

/** Shards left L1: for room, or by a clear, delete or quota. */
export const L1_SHARD_LEFT = defineEvent({
  name: 'l1_shard_left',
  payload: ['lifetimeSeconds', 'idleSeconds', 'shards'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** A client touched shards again. */
export const L1_SHARD_TOUCHED = defineEvent({
  name: 'l1_shard_touched',
  payload: ['gapSeconds', 'shards'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** Chunks whose eviction is still remembered were asked for or stored again. */
export const L1_GHOST_SEEN = defineEvent({
  name: 'l1_ghost_seen',
  payload: ['sinceEvictionSeconds', 'chunks'],
  emittedBy: 'l1/l1-recorder.ts',
})

/** Chunks were retrieved: seconds since they were last stored or retrieved, eviction in between or not. */
export const CHUNK_REUSED = defineEvent({
  name: 'chunk_reused',
  payload: ['gapSeconds', 'chunks'],
  emittedBy: 'l1/l1-recorder.ts',
})

/**
 * A chunk was stored by a client, or retrieved: what the stack distance of reuse is made from. `tag` is `chunkTag` of the
 * hash and its key space; chunks whose `sampleValue(tag)` is not below the `sampling` table's `usedBelow` are left out.
 */
export const CHUNK_STORED = defineEvent({
  name: 'chunk_stored',
  payload: ['tag'],
  emittedBy: 'engine/engine.ts',
})
export const CHUNK_RETRIEVED = defineEvent({
  name: 'chunk_retrieved',
  payload: ['tag'],
  emittedBy: 'l1/l1-recorder.ts',
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
  payload: ['lifetimeSeconds', 'idleSeconds', 'blocks'],
  emittedBy: 'l0/block-lifecycle.ts',
})

export const L0_BLOCK_REUSED = defineEvent({
  name: 'l0_block_reused',
  payload: ['gapSeconds', 'blocks'],
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
