import { statfsSync } from 'node:fs'
import { totalmem } from 'node:os'

const GIB = 1024 ** 3
const DEFAULT_MAX_BYTES = 4 * GIB
const MEMORY_SHARE = 1 / 4
const SHARED_SHARE = 0.8
const ROUND_BYTES = 1024 * 1024

/** Bytes that can still be written to the file system of `directory`; 0 when there is no such directory. */
export function freeBytes(directory = '/dev/shm'): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    return 0
  }
}

/** Bytes this process may still use: what the machine has available, or what its cgroup leaves if that is less. */
export function availableMemoryBytes(): number {
  return process.availableMemory()
}

/** Bytes over which the kernel is sure to kill this process: its cgroup's limit, or all memory of the machine. */
export function memoryLimitBytes(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** What the default size of L1 depends on. */
export interface MemoryReadings {
  readonly availableBytes: number
  /** Free on the file system of the segment; undefined when L1 is private memory. */
  readonly sharedFreeBytes?: number | undefined
  /** Upper bound of the default, 4 GiB when left out. */
  readonly maxBytes?: number | undefined
}

/**
 * L1 size when none is configured: the least of 4 GiB, a quarter of the available memory, and 80 % of free shared
 * memory, in whole MiB. At least 1 MiB; whether that can be had shows when the segment is opened.
 */
export function defaultL1Bytes({ availableBytes, sharedFreeBytes, maxBytes }: MemoryReadings): number {
  const shared = sharedFreeBytes === undefined ? Number.POSITIVE_INFINITY : sharedFreeBytes * SHARED_SHARE
  const bytes = Math.min(maxBytes ?? DEFAULT_MAX_BYTES, availableBytes * MEMORY_SHARE, shared)
  return Math.max(1, Math.floor(bytes / ROUND_BYTES)) * ROUND_BYTES
}
