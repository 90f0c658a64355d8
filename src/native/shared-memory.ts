import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  linkSync,
  lstatSync,
  openSync,
  rmSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { assert } from '../core/assert.ts'
import { CacheError } from '../core/errors.ts'
import { freeBytes, memoryLimitBytes } from './memory-size.ts'
import { callAsync, loadPosix, type Posix } from './posix.ts'

const MIB = 1024 * 1024
const PAGE_BYTES = 4096
const PIECE_BYTES = 32 * MIB
const THREADS = 2
const PROT_READ_WRITE = 3
const MAP_SHARED = 1
const MAP_FIXED = 16
const MADV_POPULATE_WRITE = 23 // Linux 5.14
const ENOSPC = 28
// A write lease is granted when the one open file description with the right to write is that which asks.
const F_SETLEASE = 1024
const F_WRLCK = 1
const F_UNLCK = 2

/** What another thread needs to see the segment. Can be posted to workers; means nothing in another process. */
export interface SegmentHandle {
  readonly address: bigint
  readonly bytes: number
  /** Set for a private segment, and then the only way to it. */
  readonly buffer?: SharedArrayBuffer
}

/**
 * The memory of L1, zeroed and backed by pages.
 *
 * A shared segment is one mapping of this process. Workers view that mapping, they do not own it: `close` is for the
 * opener, after every worker that attached has ended. Views of the opening thread become empty at `close`; a view that
 * another thread still touches after it stops the process.
 */
export interface SharedSegment {
  readonly kind: 'shared' | 'private'
  /** Name under which other processes map it, '' when private. */
  readonly name: string
  readonly bytes: number
  /** Where it is mapped in this process, 0 when private. */
  readonly address: bigint
  readonly memory: Uint8Array
  readonly handle: SegmentHandle
  /** Names the file for `reopenSegment`, '' when private. */
  readonly inode: string
  /** Unmaps it here. The name, and mappings of other processes, stay. Idempotent. */
  close(): void
  /**
   * Puts the name back when somebody has removed it: Python before 3.13 unlinks a segment that it only attached to,
   * at its exit. Costs one system call when the name is there.
   */
  restoreName(): void
  /** Removes the name, if it still is that of this segment. Mappings stay. Idempotent. */
  unlink(): void
  /**
   * Whether the kernel vouches that no other process has the segment open for writing or mapped, in whatever container.
   * False also where it cannot be told. Costs two system calls. Only on the main thread.
   */
  isOnlyOurs(): boolean
}

export interface SegmentOptions {
  /** A file name: no slash. */
  readonly name: string
  readonly bytes: number
  readonly directory?: string
  /** Where to map it: addresses that the caller reserved, and gives back when this fails. Absent = anywhere. */
  readonly at?: number
  /** Removes what has the name now. Only after it is known that no live engine uses it. */
  readonly replaceStale?: boolean
  /** Told how many bytes are backed so far: at most once a piece of 32 MiB, the last time with `bytes`. */
  readonly onProgress?: (bytesDone: number) => void
}

/**
 * Creates a segment and backs all of it with memory, so that neither a first touch nor a full file system can stop the
 * engine later.
 *
 * @throws CacheError SHARED_MEMORY_TOO_SMALL when the file system cannot hold it, SHARED_MEMORY_UNAVAILABLE otherwise.
 * Nothing is left behind then.
 */
export async function openSegment(options: SegmentOptions): Promise<SharedSegment> {
  const { name, bytes, directory = '/dev/shm', onProgress } = options
  assert(Number.isSafeInteger(bytes) && bytes > 0, 'a segment is a positive whole number of bytes')
  const posix = loadPosix()
  if (typeof posix === 'string') throw unavailable(posix)
  if (!/^[\w.-]{1,200}$/.test(name) || name.startsWith('.')) throw unavailable(`${name} is not a name for a segment`)
  const path = join(directory, name)
  if (options.replaceStale === true) removeSegment(name, directory)
  demandRoom(bytes, directory)
  const file = createFile(path)
  let address = -1
  try {
    ftruncateSync(file.fd, bytes)
    address = mapShared(posix, bytes, file.fd, options.at)
    if (address < 0) throw unavailable(`mmap of ${bytes} bytes failed with error ${posix.errno()}`)
    linkSync(path, secondNameOf(path))
    await back(posix, file.fd, address, bytes, onProgress).catch((error: unknown) => {
      throw error === ENOSPC ? tooSmall(bytes, freeBytes(directory), directory) : unavailable(String(error))
    })
  } catch (error) {
    if (address > 0 && options.at === undefined) posix.munmap(address, bytes)
    unlinkOwn(secondNameOf(path), file.stat)
    unlinkOwn(path, file.stat)
    closeSync(file.fd)
    throw error instanceof CacheError ? error : unavailable(String(error), error)
  }
  return new MappedSegment(posix, name, path, file, BigInt(address), bytes)
}

/** @throws CacheError SHARED_MEMORY_TOO_SMALL when so much cannot be had now. */
export function demandRoom(bytes: number, directory: string): void {
  const limit = memoryLimitBytes()
  if (limit < bytes) throw tooSmall(bytes, limit, 'the memory this process may use')
  const free = freeBytes(directory)
  if (free < bytes) throw tooSmall(bytes, free, directory)
}

/** Removes what has the name of a segment, if anything. Only after it is known that no live engine uses it. */
export function removeSegment(name: string, directory = '/dev/shm'): void {
  const path = join(directory, name)
  for (const stale of [path, secondNameOf(path)]) removeStale(stale)
}

function mapShared(posix: Posix, bytes: number, fd: number, at: number | undefined): number {
  const flags = at === undefined ? MAP_SHARED : MAP_SHARED | MAP_FIXED
  return posix.mmap(at ?? 0, bytes, PROT_READ_WRITE, flags, fd, 0)
}

/** Which file a segment is, for as long as it exists: inode numbers of one tmpfs. */
export interface SegmentFacts {
  /** `SharedSegment.inode` of the segment that is meant. */
  readonly inode: string
}

/**
 * Maps a segment that an earlier process of this user made, and left. Its bytes are as they were left; other processes
 * may have it mapped. A public name that is gone is put back from the second link.
 *
 * @returns why there is none to be had, in words that follow "cold start: ".
 * @throws CacheError SHARED_MEMORY_* when it is there and cannot be backed.
 */
export async function reopenSegment(
  options: Omit<SegmentOptions, 'replaceStale'> & SegmentFacts,
): Promise<SharedSegment | string> {
  const { name, bytes, inode, directory = '/dev/shm', onProgress } = options
  const posix = loadPosix()
  if (typeof posix === 'string') return posix
  const path = join(directory, name)
  const fd = openLeft(path)
  if (fd === null) return `${path} was removed`
  let address = -1
  let isKept = false
  try {
    const stat = fstatSync(fd, { bigint: true })
    if (!stat.isFile() || Number(stat.uid) !== process.getuid?.()) return `${path} is not a segment of this user`
    if ((stat.mode & 0o077n) !== 0n) return `${path} is open to other users`
    if (String(stat.ino) !== inode) return `${path} is another segment now`
    if (stat.size !== BigInt(bytes)) return `${path} has another size: somebody truncated it`
    address = mapShared(posix, bytes, fd, options.at)
    if (address < 0) throw unavailable(`mmap of ${bytes} bytes failed with error ${posix.errno()}`)
    await back(posix, fd, address, bytes, onProgress).catch((error: unknown) => {
      throw error === ENOSPC ? tooSmall(bytes, freeBytes(directory), directory) : unavailable(String(error))
    })
    const segment = new MappedSegment(posix, name, path, { fd, stat }, BigInt(address), bytes)
    isKept = true
    segment.restoreName()
    return segment
  } catch (error) {
    if (address > 0 && options.at === undefined) posix.munmap(address, bytes)
    throw error instanceof CacheError ? error : unavailable(String(error), error)
  } finally {
    if (!isKept) closeSync(fd)
  }
}

/** The file under its name or its second one. */
function openLeft(path: string): number | null {
  for (const candidate of [path, secondNameOf(path)]) {
    try {
      return openSync(candidate, constants.O_RDWR | constants.O_NOFOLLOW)
    } catch {
      // not there, or nothing of ours
    }
  }
  return null
}

/** The segment's bytes, in any thread of the process that opened it. Valid until the opener closes it. */
export function attachSegment(handle: SegmentHandle): Uint8Array {
  if (handle.buffer !== undefined) return new Uint8Array(handle.buffer)
  const posix = loadPosix()
  if (typeof posix === 'string') throw unavailable(posix)
  return new Uint8Array(posix.view(handle.address, handle.bytes))
}

/** Memory for L1 that no other process can map: where there is no shared memory, and in tests. Not pre-faulted. */
export function privateSegment(bytes: number): SharedSegment {
  let buffer: SharedArrayBuffer
  try {
    buffer = new SharedArrayBuffer(bytes)
  } catch (error) {
    throw unavailable(`${bytes} bytes of private memory cannot be had`, error)
  }
  const memory = new Uint8Array(buffer)
  const handle = { address: 0n, bytes, buffer }
  const nothing = { close() {}, restoreName() {}, unlink() {}, isOnlyOurs: () => false }
  return { kind: 'private', name: '', bytes, address: 0n, memory, handle, inode: '', ...nothing }
}

class MappedSegment implements SharedSegment {
  readonly kind = 'shared'
  readonly name: string
  readonly bytes: number
  readonly address: bigint
  readonly memory: Uint8Array
  readonly handle: SegmentHandle
  readonly inode: string
  readonly #posix: Posix
  readonly #path: string
  readonly #stat: BigIntStats
  /** Of the mapping: the file description that the kernel counts as ours. */
  readonly #fd: number
  readonly #buffer: ArrayBuffer
  #isMapped = true
  #isNamed = true

  constructor(posix: Posix, name: string, path: string, file: OpenFile, address: bigint, bytes: number) {
    this.#posix = posix
    this.name = name
    this.#path = path
    this.#stat = file.stat
    this.#fd = file.fd
    this.inode = String(file.stat.ino)
    this.address = address
    this.bytes = bytes
    this.#buffer = posix.view(address, bytes)
    this.memory = new Uint8Array(this.#buffer)
    this.handle = { address, bytes }
  }

  close(): void {
    if (!this.#isMapped) return
    this.#isMapped = false
    this.#buffer.transfer() // detaches every view of this thread: they become empty instead of dangling
    this.#posix.munmap(Number(this.address), this.bytes)
    closeSync(this.#fd)
  }

  isOnlyOurs(): boolean {
    if (!this.#isMapped) return false
    ignoreLeaseSignal()
    if (this.#posix.fcntl(this.#fd, F_SETLEASE, F_WRLCK) !== 0) return false
    this.#posix.fcntl(this.#fd, F_SETLEASE, F_UNLCK)
    return true
  }

  restoreName(): void {
    if (!this.#isNamed || lstatSync(this.#path, { throwIfNoEntry: false }) !== undefined) return
    try {
      linkSync(secondNameOf(this.#path), this.#path)
    } catch {
      this.#isNamed = false // somebody removed both: there is nothing to link from
    }
  }

  unlink(): void {
    this.#isNamed = false
    unlinkOwn(secondNameOf(this.#path), this.#stat)
    unlinkOwn(this.#path, this.#stat)
  }
}

/**
 * Reserves the pages of each piece, then fills in this process's page table for it. posix_fallocate turns a full file
 * system into an error where a touch would be SIGBUS; it does not clear the pages, so nothing is touched twice.
 * Rejects with an error number or an Error.
 */
async function back(
  posix: Posix,
  fd: number,
  address: number,
  bytes: number,
  onProgress?: (bytesDone: number) => void,
): Promise<void> {
  let next = 0
  let done = 0
  let failure: unknown
  const worker = async () => {
    while (next < bytes && failure === undefined) {
      const offset = next
      const length = Math.min(PIECE_BYTES, bytes - offset)
      next += length
      const error = await callAsync(posix.posixFallocate, fd, offset, length)
      if (error !== 0) throw error === ENOSPC ? ENOSPC : new Error(`posix_fallocate failed with error ${error}`)
      const populated = await callAsync(posix.madvise, address + offset, length, MADV_POPULATE_WRITE)
      if (populated !== 0) touch(posix, address + offset, length)
      done += length
      onProgress?.(done)
    }
  }
  const guarded = () =>
    worker().catch((error: unknown) => {
      failure ??= error
    })
  await Promise.all(Array.from({ length: THREADS }, guarded)) // both have ended before anything is unmapped
  if (failure !== undefined) throw failure
}

/** Kernels before 5.14: one write a page. The pages are reserved, so no write can fail. */
function touch(posix: Posix, address: number, bytes: number): void {
  const view = new Uint8Array(posix.view(BigInt(address), bytes))
  for (let offset = 0; offset < bytes; offset += PAGE_BYTES) view[offset] = 0
}

/** A hard link of the segment that clients do not know, and so do not remove. */
function secondNameOf(path: string): string {
  return `${path}.keep`
}

/** A segment's file, and what it is. */
interface OpenFile {
  readonly fd: number
  readonly stat: BigIntStats
}

let isLeaseSignalIgnored = false

/** Whoever opens the file while the lease is held, for some microseconds, waits, and SIGIO tells the holder: it kills. */
function ignoreLeaseSignal(): void {
  if (isLeaseSignalIgnored) return
  isLeaseSignalIgnored = true
  process.on('SIGIO', () => {})
}

function createFile(path: string): OpenFile {
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
  try {
    const fd = openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    return { fd, stat: fstatSync(fd, { bigint: true }) }
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EEXIST'
    throw unavailable(isTaken ? `${path} exists: another engine uses it, or a dead one left it` : String(error), error)
  }
}

/** Removes a regular file of this user; refuses anything else, so that a planted link or directory is not followed. */
function removeStale(path: string): void {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat === undefined) return
  if (!stat.isFile() || stat.uid !== process.getuid?.()) throw unavailable(`${path} is not a segment of this user`)
  try {
    unlinkSync(path)
  } catch (error) {
    throw unavailable(String(error), error)
  }
}

function unlinkOwn(path: string, own: BigIntStats): void {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (stat !== undefined && stat.ino === own.ino && stat.dev === own.dev) rmSync(path, { force: true })
}

function tooSmall(bytes: number, room: number, where: string): CacheError {
  const message =
    `L1 of ${inMib(bytes)} does not fit into ${where}, which has room for ${inMib(room)}: ` +
    'lower --l1-size, or give the container more shared memory (docker --shm-size, a Memory emptyDir on /dev/shm)'
  return new CacheError('SHARED_MEMORY_TOO_SMALL', message, { field: '--l1-size', bytes, roomBytes: room })
}

function inMib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`
}

function unavailable(reason: string, cause?: unknown): CacheError {
  return new CacheError('SHARED_MEMORY_UNAVAILABLE', `shared memory is not available: ${reason}`, {}, cause)
}
