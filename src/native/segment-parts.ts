import { CacheError } from '../core/errors.ts'
import { loadPosix, type Posix } from './posix.ts'
import {
  demandRoom,
  openSegment,
  removeSegment,
  reopenSegment,
  type SegmentOptions,
  type SharedSegment,
} from './shared-memory.ts'

const PROT_NONE = 0
const MAP_PRIVATE = 2
const MAP_ANONYMOUS = 0x20
const MAP_NORESERVE = 0x4000

/** Several segments of one size that lie one behind the other in this process: a segment each to other processes. */
export interface PartedSegment extends SharedSegment {
  /** Unmapped with the whole: do not close them. */
  readonly parts: readonly SharedSegment[]
}

export interface PartOptions extends Omit<SegmentOptions, 'at'> {
  /** `bytes` is a multiple of count * 4096. */
  readonly count: number
}

/** The name of a part of the segment `name`. */
export function partName(name: string, part: number): string {
  return `${name}.p${part}`
}

/** Makes the parts, all of them backed with memory. @throws as `openSegment` */
export async function openParts(options: PartOptions): Promise<PartedSegment> {
  const { name, bytes, count, directory = '/dev/shm', replaceStale = false } = options
  const names = Array.from({ length: count }, (_, part) => partName(name, part))
  if (replaceStale) for (const stale of names) removeSegment(stale, directory)
  demandRoom(bytes, directory)
  const made: SharedSegment[] = []
  try {
    const opened = await mapInRow(options, async (_part, one) => {
      const segment = await openSegment(one)
      made.push(segment)
      return segment
    })
    if (typeof opened === 'string') throw new CacheError('SHARED_MEMORY_UNAVAILABLE', opened, {})
    return opened
  } catch (error) {
    for (const segment of made) segment.unlink()
    throw error
  }
}

/**
 * Maps the parts that an earlier process left.
 *
 * @param inode `inode` of the whole, as it was.
 * @returns why there are none to be had, as `reopenSegment`.
 */
export async function reopenParts(
  options: Omit<PartOptions, 'replaceStale'> & { readonly inode: string },
): Promise<PartedSegment | string> {
  const inodes = options.inode.split(',')
  if (inodes.length !== options.count) return 'it was cut into another number of parts'
  return await mapInRow(options, (part, one) => reopenSegment({ ...one, inode: inodes[part]! }))
}

/** Opens the parts one after the other, each right behind the one before. What was opened is closed when one fails. */
async function mapInRow(
  { name, bytes, count, directory, onProgress }: PartOptions,
  open: (part: number, options: SegmentOptions) => Promise<SharedSegment | string>,
): Promise<PartedSegment | string> {
  const posix = loadPosix()
  if (typeof posix === 'string') return posix
  const partBytes = bytes / count
  const start = posix.mmap(0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
  if (start < 0) return `${bytes} bytes of addresses cannot be had (error ${posix.errno()})`
  const parts: SharedSegment[] = []
  const where = directory === undefined ? {} : { directory }
  try {
    for (let part = 0; part < count; part += 1) {
      const done = part * partBytes
      const progress = onProgress === undefined ? {} : { onProgress: (more: number) => onProgress(done + more) }
      const options = { name: partName(name, part), bytes: partBytes, at: start + done, ...where, ...progress }
      const opened = await open(part, options)
      if (typeof opened === 'string') {
        letGo(posix, start, parts, bytes)
        return opened
      }
      parts.push(opened)
    }
  } catch (error) {
    letGo(posix, start, parts, bytes)
    throw error
  }
  return new SegmentRow(posix, BigInt(start), bytes, parts)
}

/** Unmaps what was opened, and the addresses behind it. */
function letGo(posix: Posix, start: number, parts: readonly SharedSegment[], bytes: number): void {
  const opened = parts.reduce((sum, part) => sum + part.bytes, 0)
  for (const part of parts) part.close()
  if (opened < bytes) posix.munmap(start + opened, bytes - opened)
}

class SegmentRow implements PartedSegment {
  readonly kind = 'shared'
  readonly name: string
  readonly bytes: number
  readonly address: bigint
  readonly memory: Uint8Array
  readonly handle: SharedSegment['handle']
  readonly inode: string
  readonly parts: readonly SharedSegment[]
  readonly #buffer: ArrayBuffer
  #isMapped = true

  constructor(posix: Posix, address: bigint, bytes: number, parts: readonly SharedSegment[]) {
    this.name = parts.map((part) => part.name).join(' ')
    this.bytes = bytes
    this.address = address
    this.#buffer = posix.view(address, bytes)
    this.memory = new Uint8Array(this.#buffer)
    this.handle = { address, bytes }
    this.inode = parts.map((part) => part.inode).join(',')
    this.parts = parts
  }

  close(): void {
    if (!this.#isMapped) return
    this.#isMapped = false
    this.#buffer.transfer() // detaches the views of this thread
    for (const part of this.parts) part.close()
  }

  restoreName(): void {
    for (const part of this.parts) part.restoreName()
  }

  unlink(): void {
    for (const part of this.parts) part.unlink()
  }

  isOnlyOurs(): boolean {
    return this.parts.every((part) => part.isOnlyOurs())
  }
}
