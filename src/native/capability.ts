import { accessSync, constants } from 'node:fs'
import { loadAddon } from './addon.ts'
import { loadPosix } from './posix.ts'
import { timeSliceOf } from './time-slice.ts'

/** Whether a native part works here, and if not, why: one line for people. */
export interface NativePart {
  readonly available: boolean
  readonly reason?: string
}

export interface Capability {
  /** An arena that other processes can map. Without it the arena is private memory and the MP wire has no payload. */
  readonly sharedMemory: NativePart
  /** Hashing, copies, checksums and file moves in C++. Without it they are done in JavaScript and WebAssembly. */
  readonly addon: NativePart & { /** What its loops are made for here. */ readonly processor?: string }
  /** Objects of the filesystem adapter, moved in one call each. Without it `node:fs` moves them. */
  readonly wholeFiles: NativePart & { readonly way: 'addon' | 'node:fs' }
  /** Turns of a chosen length. Without them storage and scrapes delay the data thread by milliseconds where processors are short. */
  readonly timeSlices: NativePart
}

/** What native code can do on this machine. Never throws. */
export function capability(directory = '/dev/shm'): Capability {
  const native = addon()
  const { available, reason } = native
  const wholeFiles = {
    available,
    way: available ? ('addon' as const) : ('node:fs' as const),
    ...(reason === undefined ? {} : { reason }),
  }
  return { sharedMemory: sharedMemory(directory), addon: native, wholeFiles, timeSlices: timeSlices() }
}

function sharedMemory(directory: string): NativePart {
  const posix = loadPosix()
  if (typeof posix === 'string') return { available: false, reason: posix }
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
  } catch {
    return { available: false, reason: `${directory} is missing or not writable` }
  }
  return { available: true }
}

function timeSlices(): NativePart {
  const slice = timeSliceOf()
  return typeof slice === 'string' ? { available: false, reason: slice } : { available: true }
}

function addon(): Capability['addon'] {
  const loaded = loadAddon()
  if (typeof loaded === 'string') return { available: false, reason: loaded }
  return { available: true, processor: loaded.processor() }
}
