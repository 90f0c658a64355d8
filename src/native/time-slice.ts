import { loadPosix, type Posix } from './posix.ts'

/** Numbers of `sched_setattr` and `sched_getattr`: libc has had names for them only of late. */
const CALLS: Readonly<Record<string, readonly [set: number, get: number]>> = { x64: [314, 315], arm64: [274, 275] }

// struct sched_attr of the kernel, first version:
//   0 size | 4 policy | 8 flags (u64) | 16 nice | 20 priority | 24 runtime, here: the slice in ns (u64) | 32 - 48 unused
const ATTRIBUTE_BYTES = 48
const POLICY = 4
const FLAGS = 8
const NICE = 16
const SLICE = 24

/** Policies that share processors by slices: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE. The others go by their priority. */
const SLICED_POLICIES = [0, 3, 5]
const RESET_ON_FORK = 1n
const TOO_OLD = 'threads choose their slices from Linux 6.12 on'

/** What a thread asks of the kernel. */
export interface TimeSlice {
  /** How long it runs at a time where others want the processor as well. */
  readonly milliseconds: number
  /** Threads and processes that it starts get the same. */
  readonly isInherited: boolean
}

/**
 * The slice of a thread, or why there is none: a text of one line.
 *
 * @param thread its number in the system; 0 = the calling one.
 */
export function timeSliceOf(thread = 0): TimeSlice | string {
  const kernel = openKernel()
  if (typeof kernel === 'string') return kernel
  const attributes = kernel.read(thread)
  return typeof attributes === 'string' ? attributes : sliceIn(attributes)
}

/**
 * Asks for another slice. Its length changes nothing about the share of the processor, only when it is given: a thread
 * that wakes goes at once before one whose slice is longer, as long as it has not had more than its share, and otherwise
 * waits for the end of that slice, which is noticed at the next tick of the clock, up to 4 ms later.
 * Needs no privilege. A thread whose slices are not inherited leaves the usual one to those it starts; where its
 * priority was raised they inherit both, since the kernel takes back both or none.
 *
 * @param slice 0.1 to 100 ms; others become the nearest of these.
 * @param thread its number in the system; 0 = the calling one.
 * @returns why it stays as it is, in one line; undefined = done.
 */
export function setTimeSlice({ milliseconds, isInherited }: TimeSlice, thread = 0): string | undefined {
  const kernel = openKernel()
  if (typeof kernel === 'string') return kernel
  const attributes = kernel.read(thread)
  if (typeof attributes === 'string') return attributes
  const before = sliceIn(attributes)
  if (typeof before === 'string') return before
  const isReset = !isInherited && attributes.readInt32LE(NICE) >= 0
  // Whether children start anew can be switched on by everybody, but off by the privileged alone.
  const flags = before.isInherited && !isReset ? 0n : RESET_ON_FORK
  attributes.writeBigUInt64LE(flags, FLAGS)
  attributes.writeBigUInt64LE(BigInt(Math.round(milliseconds * 1e6)), SLICE)
  return kernel.write(thread, attributes)
}

function sliceIn(attributes: Buffer): TimeSlice | string {
  const policy = attributes.readUInt32LE(POLICY)
  if (!SLICED_POLICIES.includes(policy)) return `a thread of scheduling policy ${policy} has no slices`
  const milliseconds = Number(attributes.readBigUInt64LE(SLICE)) / 1e6
  if (milliseconds === 0) return TOO_OLD
  return { milliseconds, isInherited: (attributes.readBigUInt64LE(FLAGS) & RESET_ON_FORK) === 0n }
}

interface Kernel {
  /** The attributes of a thread, or why they cannot be read. */
  read(thread: number): Buffer | string
  /** @returns why they cannot be set. */
  write(thread: number, attributes: Buffer): string | undefined
}

function openKernel(): Kernel | string {
  const posix = loadPosix()
  if (typeof posix === 'string') return posix
  const calls = CALLS[process.arch]
  if (calls === undefined) return `slices are not known on ${process.arch}`
  return kernelOf(posix, calls)
}

function kernelOf(posix: Posix, [set, get]: readonly [number, number]): Kernel {
  const why = (name: string) => `${name} failed with error ${posix.errno()}`
  return {
    read: (thread) => {
      const attributes = Buffer.alloc(ATTRIBUTE_BYTES)
      const result = posix.syscall(get, thread, attributes, ATTRIBUTE_BYTES, 0)
      return result === 0 ? attributes : why('sched_getattr')
    },
    write: (thread, attributes) => {
      attributes.writeUInt32LE(ATTRIBUTE_BYTES, 0)
      return posix.syscall(set, thread, attributes, 0, 0) === 0 ? undefined : why('sched_setattr')
    },
  }
}
