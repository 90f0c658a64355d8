import { CacheError } from '../core/errors.ts'

/** Outcome of one key of a batch. */
export const OUTCOME_OK = 0
export const OUTCOME_NOT_FOUND = 1
/** The backend failed or timed out for this key. */
export const OUTCOME_FAILED = 2
/**
 * Loads: the record is torn, altered, or of another layout; it was quarantined and counted. Stores: the bytes are not
 * those of the sum that came with them; nothing was written.
 */
export const OUTCOME_CORRUPT = 3
/** Stores only: no room, even after the adapter's own eviction; or no place, for it would be its own ancestor. */
export const OUTCOME_FULL = 4

/** What all keys of a batch have in common. */
export interface KeySpace {
  readonly model: string
  readonly salt: string
  /** World size: how many ranks share a chunk. */
  readonly ranks: number
  /** This object's rank, 0..ranks-1. */
  readonly rank: number
  /** Bytes of each object: a record of another length is corrupt. */
  readonly shardBytes: number
  /** Layout fingerprint: a record of another one is not served. Any string of up to 64 characters. */
  readonly layout: string
}

/** Outcomes of a batch, by number. */
export const OUTCOMES = ['ok', 'not_found', 'failed', 'corrupt', 'full'] as const

/** n keys of one space. Chunk i is `hashes[32i .. 32i+32)`; its parent's hash lies at the same place of `parents`. */
export interface KeyBatch {
  readonly space: KeySpace
  readonly count: number
  readonly hashes: Uint8Array
  readonly parents: Uint8Array
  /**
   * Stores only: the `payloadSum` of each object, as its owner knows it. 0 = not known; the adapter fills in what it
   * found when it wrote the object.
   */
  readonly sums?: Uint32Array | undefined
  /** Lookups and loads of peers: the W3C trace context of this batch, so that the other engine joins. Absent = none. */
  readonly traceparent?: string | undefined
}

/** Some of the objects of an adapter. */
export interface ObjectPage {
  /** Objects of one space each. A space may come more than once. */
  readonly batches: readonly KeyBatch[]
  /** Names the next page; null after the last one. */
  readonly cursor: string | null
}

export interface AdapterUsage {
  /** Bytes of published objects, headers included, from the adapter's own index. */
  readonly bytes: number
  readonly objects: number
  /** 0 = no limit. */
  readonly capacityBytes: number
  /** Objects evicted for room since the adapter was opened. */
  readonly evictedObjects: number
  /** Objects evicted because their salt was over its quota; of adapters with `setQuotas`. */
  readonly quotaEvictedObjects?: number
  /** Records that failed their verification since the adapter was opened. */
  readonly checksumFailures: number
}

/** What salts may hold in an adapter: changes to what was said before. */
export interface QuotaChanges {
  /** What a salt without a quota of its own may hold; Infinity = no limit. Absent = as before. */
  readonly defaultBytes?: number
  /** (salt, bytes); undefined = the default again. Bytes as in `AdapterUsage`, over all models. */
  readonly bySalt: readonly (readonly [salt: string, bytes: number | undefined])[]
}

/** What one tenant holds in an adapter. */
export interface TenantUsage {
  readonly model: string
  readonly salt: string
  readonly bytes: number
  readonly objects: number
}

/** One L2 backend. n = batch.count; parallel arrays have length n. Errors: CacheError L2_*. */
export interface L2Adapter {
  /** Type, as configured: memory, filesystem, redis... */
  readonly type: string
  /** Reads what other engines hold: takes no stores, and removes nothing. */
  readonly isPeer?: boolean

  /** Opens or recovers the backend. Usage is exact once it resolves. @throws CacheError L2_UNAVAILABLE, DATA_DIR_* */
  open(): Promise<void>

  /** found[i] = 1 when chunk i is held, else 0. Refreshes nothing. */
  lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void>

  /**
   * Writes sources[i] (shardBytes bytes) as object i. The caller leaves sources untouched until the promise
   * settles. An object is visible only whole. An object already there is OK and not written again. One that is not
   * of its sum (`batch.sums`) is CORRUPT and not written.
   *
   * @param outcomes out: one OUTCOME_* a key.
   * @returns bytes written, summed over newly written objects.
   * @throws CacheError L2_* when no key could be tried; one bad key never rejects.
   */
  store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number>

  /**
   * Reads object i into targets[i] (shardBytes bytes) and verifies it.
   * The caller leaves targets untouched until the promise settles.
   *
   * @param outcomes out: one OUTCOME_* a key. Unless OK, targets[i] is garbage.
   * @returns bytes read, summed over OUTCOME_OK.
   * @throws CacheError L2_* when no key could be tried; one bad key never rejects.
   */
  load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number>

  /** Removes objects; absent ones are fine. @returns how many were there. */
  remove(batch: KeyBatch, signal: AbortSignal): Promise<number>

  /** Removes every object of a (model, salt), of a whole model, or all. @returns how many were there. */
  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number>

  /**
   * One page of all objects, in an order of the adapter's own. Whatever is held from the first page to the last is
   * on at least one of them; what comes or goes meanwhile may be. Refreshes nothing. Absent where objects cannot be
   * enumerated.
   *
   * @param cursor '' for the first page, else that of the page before. Good until the adapter is closed.
   * @param countMax objects of a page, 1 upwards. A page may have fewer, or none, and not be the last.
   * @throws CacheError L2_*; BAD_REQUEST for a cursor that this adapter never gave.
   */
  list?(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage>

  /**
   * Reads object i and verifies it, as `load` does, for its outcome alone: a corrupt one is quarantined and counted.
   * Refreshes nothing. Absent where `load` into memory that is thrown away does it (`scrub-objects.ts`).
   *
   * @param outcomes out: one OUTCOME_* a key.
   * @returns bytes read, summed over OUTCOME_OK.
   * @throws CacheError L2_* when no key could be tried; one bad key never rejects.
   */
  scrub?(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number>

  usage(): AdapterUsage

  /**
   * Changes what salts may hold. A salt over its quota loses its own least recent leaves, now and at each store.
   * Absent: this adapter keeps no account of salts. @returns false when it does not, either.
   */
  setQuotas?(changes: QuotaChanges, signal: AbortSignal): Promise<boolean>

  /** What each tenant holds, those with nothing left out. Absent as `setQuotas` is. */
  tenants?(signal: AbortSignal): Promise<TenantUsage[]>

  /** Flushes and closes. Further calls reject with L2_UNAVAILABLE. */
  close(): Promise<void>
}

/** What the end of another write of an object says to who waited for it: that one's bytes were its own. */
export function outcomeOfOther(outcome: number): number {
  return outcome === OUTCOME_CORRUPT ? OUTCOME_FAILED : outcome
}

/** The error of `list` where there is none. */
export function cannotList({ type }: L2Adapter): CacheError {
  return new CacheError('L2_UNSUPPORTED', `the objects of a ${type} adapter cannot be enumerated`)
}
