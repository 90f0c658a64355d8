import { accessSync, constants } from 'node:fs'
import { loadPosix } from './posix.ts'

/** Whether a native part works here, and if not, why: one line for people. */
export interface NativePart {
  readonly available: boolean
  readonly reason?: string
}

export interface Capability {
  /** An arena that other processes can map. Without it the arena is private memory and the MP wire has no payload. */
  readonly sharedMemory: NativePart
}

/** What native code can do on this machine. Never throws. */
export function capability(directory = '/dev/shm'): Capability {
  const posix = loadPosix()
  if (typeof posix === 'string') return { sharedMemory: { available: false, reason: posix } }
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
  } catch {
    return { sharedMemory: { available: false, reason: `${directory} is missing or not writable` } }
  }
  return { sharedMemory: { available: true } }
}
