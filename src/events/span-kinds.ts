// Every kind of span, and how one can end. All in one file, so that numbers agree between threads.

/** A kind of span: what it is called, and what its numbers beside chunks and bytes mean. */
export interface SpanKind {
  /** Small number in the ring, 0 upwards. */
  readonly id: number
  readonly name: string
  /** The work was asked for by a client of the engine. */
  readonly isServer: boolean
  /** What `chunks` counts: chunks, or the shards of them that belong to one rank. */
  readonly unit: 'chunks' | 'shards'
  /** At most three further numbers, in words of an attribute name. */
  readonly numbers: readonly string[]
}

const kinds: SpanKind[] = []

/** Kinds by id. */
export const SPAN_KINDS: readonly SpanKind[] = kinds

function defineSpan(spec: Omit<SpanKind, 'id'>): SpanKind {
  const kind = { id: kinds.length, ...spec }
  kinds.push(kind)
  return kind
}

/** From a client's question, its hashing included, to the final answer. Chunks asked for; bytes of what was hit. */
export const LOOKUP_SPAN = defineSpan({
  name: 'lookup',
  isServer: true,
  unit: 'chunks',
  numbers: ['hit_chunks_l0', 'hit_chunks_l1', 'hit_chunks_l2'],
})

/** What a lookup waits for beyond L1. Chunks wanted; bytes of those that are in L1 at the end. */
export const PREFETCH_SPAN = defineSpan({
  name: 'prefetch',
  isServer: false,
  unit: 'chunks',
  numbers: ['loaded_chunks', 'is_joined'],
})

/** A client's store, from its reserved slots to the commit. Shards reserved; bytes that became readable. */
export const STORE_SPAN = defineSpan({ name: 'store', isServer: true, unit: 'shards', numbers: ['stored_shards'] })

/** A client's copy out of L1, from the offer of the slots to its end. Shards offered; bytes served. */
export const RETRIEVE_SPAN = defineSpan({
  name: 'retrieve',
  isServer: true,
  unit: 'shards',
  numbers: ['served_shards'],
})

/** One batch handed to an adapter, retries included. Bytes that moved. */
export const L2_STORE_SPAN = defineSpan({
  name: 'l2_store',
  isServer: false,
  unit: 'shards',
  numbers: ['stored_shards'],
})
export const L2_LOAD_SPAN = defineSpan({ name: 'l2_load', isServer: false, unit: 'shards', numbers: ['loaded_shards'] })

/** One question to an adapter. */
export const L2_LOOKUP_SPAN = defineSpan({
  name: 'l2_lookup',
  isServer: false,
  unit: 'shards',
  numbers: ['found_shards'],
})

/** One trim of the eviction loop, all its slices. Chunks evicted; bytes by which the usage fell. */
export const EVICTION_SPAN = defineSpan({ name: 'eviction_run', isServer: false, unit: 'chunks', numbers: [] })

/** A question of another engine about what is in L1, asked within a trace. */
export const PEER_LOOKUP_SPAN = defineSpan({
  name: 'peer_lookup',
  isServer: true,
  unit: 'shards',
  numbers: ['found_shards'],
})

/** How a span can end. `isError`: something failed that was not to. */
export const SPAN_OUTCOMES = [
  { name: 'ok', isError: false },
  { name: 'partial', isError: false },
  { name: 'miss', isError: false },
  { name: 'cancelled', isError: false },
  { name: 'expired', isError: true },
  { name: 'error', isError: true },
  { name: 'timeout', isError: true },
] as const

export type SpanOutcome = (typeof SPAN_OUTCOMES)[number]['name']

/** Numbers of the outcomes. */
export const SPAN_OK = 0
export const SPAN_PARTIAL = 1
export const SPAN_MISS = 2
export const SPAN_CANCELLED = 3
export const SPAN_EXPIRED = 4
export const SPAN_ERROR = 5
export const SPAN_TIMEOUT = 6

/** The number of "all, a part or none" of what was wanted. */
export function outcomeOf(done: number, wanted: number): number {
  if (done >= wanted) return SPAN_OK
  return done > 0 ? SPAN_PARTIAL : SPAN_MISS
}
