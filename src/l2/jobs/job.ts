import type { Clock } from '../../core/clock.ts'
import type { KeySpace } from '../adapter.ts'
import type { AdapterSet, Attached } from '../adapter-set.ts'

/** What a job does with every object of an adapter. */
export const JOB_KINDS = ['verify', 'stats', 'evacuate'] as const
export type JobKind = (typeof JOB_KINDS)[number]

export interface JobRequest {
  readonly kind: JobKind
  /** Name of the adapter whose objects are read. */
  readonly adapter: string
  /** Only to evacuate: name of the adapter that gets them. */
  readonly target?: string
  /** Bytes of objects a second at most; 0 = no limit. Default: `JOB_RATE_BYTES` of the kind. */
  readonly rateBytes?: number
}

/** Bytes a second, unless a request says otherwise. */
export const JOB_RATE_BYTES: Readonly<Record<JobKind, number>> = {
  verify: 128 * 1024 * 1024,
  stats: 0, // reads no bytes
  evacuate: 256 * 1024 * 1024,
}
/** Bytes of a job that are in memory at a time; at least one object. */
export const JOB_BATCH_BYTES = 16 * 1024 * 1024
/** Corrupt objects that a report names, and spaces that it counts on their own. */
export const NAMED_MAX = 100

/** What a job has done, object by object. */
export interface JobCounts {
  /** Looked at so far. */
  objects: number
  /** Bytes read. */
  bytes: number
  /** Verified, counted, or copied. */
  ok: number
  /** Evacuation: the target had them already. */
  present: number
  /** Gone before they were read. */
  notFound: number
  /** Quarantined. */
  corrupt: number
  failed: number
  /** Evacuation: the target had no room. */
  full: number
}

/** An object that is not what was stored. */
export interface CorruptObject {
  readonly model: string
  readonly salt: string
  readonly rank: number
  /** 64 hex digits. */
  readonly hash: string
}

/** What an adapter holds of one space. */
export interface SpaceCount {
  readonly model: string
  readonly salt: string
  readonly ranks: number
  readonly shardBytes: number
  objects: number
  /** Of payloads. */
  bytes: number
}

/** How far a job is. */
export interface JobReport {
  readonly id: string
  readonly kind: JobKind
  readonly adapter: string
  readonly target: string | null
  readonly state: 'running' | 'done' | 'cancelled' | 'failed'
  readonly elapsedMs: number
  /** What the adapter held when the job began. */
  readonly objectsTotal: number
  readonly bytesTotal: number
  /** Bytes that were not looked at yet, by the share of the objects. */
  readonly bytesLeft: number
  readonly counts: Readonly<JobCounts>
  /** The first ones. */
  readonly corrupt: readonly CorruptObject[]
  /** Of a `stats` job, the largest first. */
  readonly spaces: readonly Readonly<SpaceCount>[]
  /** What the job failed with; empty when it did not. */
  readonly error: string
}

/** What the code of a job works with. */
export interface JobContext {
  readonly clock: Clock
  readonly adapters: AdapterSet
  readonly source: Attached
  /** Only to evacuate. */
  readonly target: Attached | undefined
  readonly signal: AbortSignal
  readonly rateBytes: number
  readonly counts: JobCounts
  readonly corrupt: CorruptObject[]
  readonly spaces: Map<string, SpaceCount>
}

export function noCounts(): JobCounts {
  return { objects: 0, bytes: 0, ok: 0, present: 0, notFound: 0, corrupt: 0, failed: 0, full: 0 }
}

/** Adds an object to those that the report names. */
export function nameCorrupt(corrupt: CorruptObject[], { model, salt, rank }: KeySpace, hash: Uint8Array): void {
  if (corrupt.length < NAMED_MAX) corrupt.push({ model, salt, rank, hash: Buffer.from(hash).toString('hex') })
}
