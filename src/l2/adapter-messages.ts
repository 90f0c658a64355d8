import { CacheError, type ErrorCode } from '../core/errors.ts'
import type { AdapterUsage, KeySpace, ObjectPage, QuotaChanges, TenantUsage } from './adapter.ts'
import type { BackendOptions } from './options.ts'

// What crosses between the data thread and an io worker that hosts adapters. One reply for each request but `abort`.
// Object bytes stay where they are: sources and targets are offsets into the arena that both threads have mapped.
// Bytes from anywhere else travel in `inline`, object after object, and move instead of being copied again.

/** The end of a port that this side holds: a `MessagePort`, a `Worker`, or a worker's `parentPort`. */
export interface Port {
  postMessage(message: unknown, transfer?: ArrayBuffer[]): void
  on(event: 'message', listener: (message: unknown) => void): unknown
}

interface KeyMessage {
  readonly space: KeySpace
  readonly count: number
  /** Copies: the batch of the sender may be reused. */
  readonly hashes: Uint8Array<ArrayBuffer>
  readonly parents: Uint8Array<ArrayBuffer>
  readonly traceparent?: string
}

/** Where the bytes of object i are: at offsets[i] of the arena, or of `shared`, or at i x lengthBytes of `inline`. */
export interface ObjectBytes {
  readonly lengthBytes: number
  readonly offsets: Float64Array<ArrayBuffer> | null
  /** Shared memory other than the arena, in which every object of the batch lies; null for the arena. */
  readonly shared: SharedArrayBuffer | null
  /** Of a load: null; the reply brings it. */
  readonly inline: Uint8Array<ArrayBuffer> | null
}

export type RequestBody =
  | { readonly kind: 'open'; readonly backend: BackendOptions }
  | ({ readonly kind: 'lookup' } & KeyMessage)
  | ({ readonly kind: 'remove' } & KeyMessage)
  | ({ readonly kind: 'scrub' } & KeyMessage)
  | { readonly kind: 'list'; readonly cursor: string; readonly countMax: number }
  | ({ readonly kind: 'store'; readonly sums: Uint32Array<ArrayBuffer> | undefined } & KeyMessage & ObjectBytes)
  | ({ readonly kind: 'load' } & KeyMessage & ObjectBytes)
  | { readonly kind: 'clear'; readonly model: string | undefined; readonly salt: string | undefined }
  | { readonly kind: 'quotas'; readonly changes: QuotaChanges }
  | { readonly kind: 'tenants' }
  | { readonly kind: 'close' }
  | { readonly kind: 'abort' }

/** `adapter` is a number of the sender's choice, named first by `open`. `abort` carries the id that it ends. */
export type AdapterRequest = { readonly id: number; readonly adapter: number } & RequestBody

export interface AdapterReply {
  readonly id: number
  /** Bytes moved, objects removed, or 1 for a thing that was done. */
  readonly amount: number
  /** Outcomes, or what a lookup found. */
  readonly perKey: Uint8Array<ArrayBuffer> | null
  /** Of a store that came with sums: all of them, as far as they are known now. */
  readonly sums: Uint32Array<ArrayBuffer> | null
  /** Loaded objects that have no place in the arena. */
  readonly inline: Uint8Array<ArrayBuffer> | null
  readonly page: ObjectPage | null
  readonly tenants: readonly TenantUsage[] | null
  readonly usage: AdapterUsage | null
  readonly error: WireError | null
}

/** A CacheError, flat. */
export interface WireError {
  readonly code: ErrorCode
  readonly message: string
  readonly detail: CacheError['detail']
}

export function toWire(error: unknown): WireError {
  if (error instanceof CacheError) return { code: error.code, message: error.message, detail: error.detail }
  return { code: 'INTERNAL', message: error instanceof Error ? error.message : String(error), detail: {} }
}

export function fromWire({ code, message, detail }: WireError): CacheError {
  return new CacheError(code, message, detail)
}
