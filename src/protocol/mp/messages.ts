import type { RefusedOp, ServedOp } from './generations.ts'

/** Which part of which prompt, for whom: what the wire calls a key. */
export interface WireKey {
  readonly model: string
  readonly salt: string
  readonly worldSize: number
  /** null = all ranks. */
  readonly workerId: number | null
  /** The prompt's tokens; those behind `end` do not matter. */
  readonly tokens: Uint32Array
  /** Token positions, start <= end. `end` may be past the tokens. */
  readonly start: number
  readonly end: number
  readonly requestId: string
  /** Workers that retrieve each object; 0 = an older client, which does not say. */
  readonly readers: number
  /** W3C trace context of the request, unchecked; absent = the client sends none. */
  readonly traceparent?: string | undefined
}

/** What a worker says of its memory when it registers. One shard is `[2, layers, slots, hidden]`, without the 2 for MLA. */
export interface WireContext {
  readonly instanceId: bigint
  readonly model: string
  readonly worldSize: number
  readonly blockTokens: number
  readonly layers: number
  readonly hidden: number
  readonly dtype: string
  readonly isMla: boolean
  /** Slots of one chunk; null = one for each token. */
  readonly slots: number | null
  /** Groups of layers with layouts of their own, as hybrid models have; 0 = one layout for all. */
  readonly groups: number
}

/** GPU blocks that a request was given, and the tokens that they hold, in order; the last ones may be known in part. */
export interface BlockRecord {
  readonly requestId: string
  readonly blockIds: Uint32Array
  readonly tokens: Uint32Array
}

export type Request =
  | { readonly op: 'get_chunk_size' | 'get_experimental' | 'noop' | 'clear' }
  /** `alignmentTokens`: the chunk must be a multiple of it. */
  | { readonly op: 'negotiate_chunk_size'; readonly alignmentTokens: number }
  | { readonly op: 'ping'; readonly instanceId: bigint | null }
  | { readonly op: 'register_kv_cache_engine_driven_context'; readonly context: WireContext }
  | { readonly op: 'unregister_kv_cache_engine_driven_context'; readonly instanceId: bigint }
  | { readonly op: 'lookup' | 'free_lookup_locks'; readonly key: WireKey; readonly tensorParallel: number }
  | { readonly op: 'query_prefetch_status' | 'end_session'; readonly requestId: string }
  | { readonly op: 'wait_prefetch_status'; readonly requestId: string; readonly timeoutSeconds: number }
  | {
      readonly op: 'prepare_store' | 'prepare_retrieve' | 'commit_retrieve'
      readonly key: WireKey
      readonly instanceId: bigint
    }
  | {
      readonly op: 'commit_store'
      readonly key: WireKey
      readonly instanceId: bigint
      /** Not 0: the client sends the bytes along instead of writing them to shared memory. */
      readonly dataBytes: number
    }
  | {
      readonly op: 'report_block_allocation'
      readonly instanceId: bigint
      readonly model: string
      readonly records: readonly BlockRecord[]
    }

/** The request of one operation. */
export type RequestOf<Op extends ServedOp> = Request extends infer One
  ? One extends { readonly op: infer Ops }
    ? Op extends Ops
      ? Omit<One, 'op'> & { readonly op: Op }
      : never
    : never
  : never

/** What every answer carries back, byte for byte as it came. */
export interface Envelope {
  readonly uid: Uint8Array
  readonly op: Uint8Array
}

/** A message from a client, decoded. */
export type Incoming =
  | { readonly kind: 'request'; readonly envelope: Envelope; readonly request: Request }
  /** Well formed, of a path that is not served. */
  | {
      readonly kind: 'foreign'
      readonly envelope: Envelope
      readonly op: RefusedOp
      readonly instanceId: bigint | null
      /** A layout of tensors that clients name from 0.5.6 on: SGLang's. */
      readonly isUnified: boolean
    }
  | { readonly kind: 'unknown_op'; readonly envelope: Envelope; readonly op: number | string }
  /** The operation is known, its payload is wrong. */
  | { readonly kind: 'bad_payload'; readonly envelope: Envelope; readonly op: ServedOp }
  /** Not even an answer can be addressed. */
  | { readonly kind: 'malformed' }

/** Where one shard lies in the segment, in bytes. */
export interface WireSlot {
  readonly offset: number
  readonly length: number
  readonly shape: readonly number[]
  readonly dtype: string
}

/** Bounds of one message. A frame's length is bounded by the socket. */
export const LIMITS = {
  /** The longest message of a client, of an operation that is not served, has 9; a newer client may send more. */
  frames: 16,
  nameBytes: 1024,
  requestIdBytes: 1024,
  saltBytes: 512,
  dtypeBytes: 32,
  traceparentBytes: 256,
  tokens: 4 * 1024 * 1024,
  mapFields: 64,
  records: 65_536,
} as const
