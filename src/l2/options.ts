import type { FaultAdapterOptions } from './adapters/fault/options.ts'
import type { PeerAdapterOptions } from './adapters/peer/options.ts'
import type { RedisAdapterOptions } from './adapters/redis/options.ts'
import type { S3AdapterOptions } from './adapters/s3/options.ts'

/** What the engine wants of one L2 adapter, whatever its type. Units in the names. */
export interface AdapterLimits {
  /** A store, load or lookup batch that takes longer is given up, retries included. */
  readonly storeDeadlineMs: number
  readonly loadDeadlineMs: number
  readonly lookupDeadlineMs: number
  /** After its deadline an adapter gets this long to let go of the memory before the batch ends without it. */
  readonly abandonAfterMs: number
  /** Further tries of a batch of which no key could be tried. 0 = none. */
  readonly retries: number
  /** Wait before the first retry; doubled for each further one; each wait is cut by up to a half at random. */
  readonly retryDelayMs: number
  /** Batches in a row that failed whole before the adapter is left alone. */
  readonly circuitFailures: number
  /** How long it is left alone before one batch tries it again. */
  readonly circuitOpenMs: number
  /** Bytes of stores in flight to it, and waiting for it. 0 = as for every adapter. */
  readonly storeBudgetBytes: number
  readonly storePendingBytes: number
  /** L1 bytes reserved by loads in flight from it, and bytes of loads that wait. 0 = as for every adapter. */
  readonly loadBudgetBytes: number
  readonly loadPendingBytes: number
  /** Chunks asked for less often than this are not stored: for disks that wear. 1 = all are. */
  readonly admitTouches: number
  /** through: a chunk is stored when it is committed. back: when it is among the oldest of a full L1. */
  readonly writePolicy: 'through' | 'back'
  /** What an engine does at its start while the backend is away: goes without it and on trying, or ends. */
  readonly startPolicy: 'wait' | 'fail'
}

/** Where bytes go: the part of the options that a backend reads. */
export interface MemoryAdapterOptions {
  readonly type: 'memory'
  /** 0 = no limit. */
  readonly capacityBytes: number
  /** False: only the index is kept, no bytes; for runs that move no bytes. */
  readonly keepBytes: boolean
}

export interface FilesystemAdapterOptions {
  readonly type: 'filesystem'
  /** Directory of its own; made when absent. */
  readonly directory: string
  /** Bytes of published and half-written objects at most, headers included. 0 = no limit. */
  readonly capacityBytes: number
  /**
   * fsync: an object is on the disk before it is reported as stored, and survives a power failure.
   * checksum: the system writes when it likes; what a power failure tears is found by its checksum and dropped.
   */
  readonly durability: 'fsync' | 'checksum'
  /** Objects that are written at the same time, and objects that are read. */
  readonly parallelism: number
  /** auto: objects of whole pages bypass the page cache where the file system lets them. off: all go through it. */
  readonly direct: 'auto' | 'off'
  /** Corrupt records kept for a look, the newest ones. 0 = they are deleted. */
  readonly quarantineFiles: number
}

export type BackendOptions =
  | MemoryAdapterOptions
  | FilesystemAdapterOptions
  | RedisAdapterOptions
  | S3AdapterOptions
  | PeerAdapterOptions
  | FaultAdapterOptions

/** Bytes that a backend may hold, 0 = no limit of its own. */
export function capacityOf(backend: BackendOptions): number {
  if (backend.type === 'fault') return capacityOf(backend.inner)
  return backend.type === 'peer' ? 0 : backend.capacityBytes
}

/** Whether a backend asks other engines. */
export function isPeerBackend(backend: BackendOptions): boolean {
  return backend.type === 'peer' || (backend.type === 'fault' && isPeerBackend(backend.inner))
}

/** One configured adapter. */
export interface AdapterOptions {
  /** Unique; the label `l2_name`. See `isAdapterName`. */
  readonly name: string
  readonly backend: BackendOptions
  readonly limits: AdapterLimits
}

export const ADAPTER_LIMITS_DEFAULT: AdapterLimits = {
  storeDeadlineMs: 30_000,
  loadDeadlineMs: 10_000,
  lookupDeadlineMs: 500,
  abandonAfterMs: 1_000,
  retries: 2,
  retryDelayMs: 50,
  circuitFailures: 5,
  circuitOpenMs: 10_000,
  storeBudgetBytes: 0,
  storePendingBytes: 0,
  loadBudgetBytes: 0,
  loadPendingBytes: 0,
  admitTouches: 1,
  writePolicy: 'through',
  startPolicy: 'wait',
}

export const MEMORY_DEFAULT: MemoryAdapterOptions = { type: 'memory', capacityBytes: 0, keepBytes: true }

export const FILESYSTEM_DEFAULT: Omit<FilesystemAdapterOptions, 'directory'> = {
  type: 'filesystem',
  capacityBytes: 0,
  durability: 'fsync',
  parallelism: 8,
  direct: 'auto',
  quarantineFiles: 16,
}

/**
 * Names are labels, path parts of the HTTP interface and of files, and words of the log: 1..64 characters of
 * [A-Za-z0-9._-], not only dots.
 */
export function isAdapterName(name: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(name) && !/^\.+$/.test(name)
}
