import { constants } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { isWholePages } from '../../native/page-memory.ts'
import { type Disk, errorCode } from './disk.ts'

/** Payloads below this go through the page cache: a copy costs less than a wait for the device. */
const DIRECT_BYTES_MIN = 256 * 1024

const { O_CREAT, O_DIRECT, O_EXCL, O_RDONLY, O_WRONLY } = constants

/**
 * Whole files in and out of memory, past the page cache where that can be (`O_DIRECT`): a payload that is whole pages
 * then moves between the arena and the device without a copy, and takes no memory away from others. Where the file
 * system refuses it, from then on everything goes through the cache.
 */
export class RecordIo {
  readonly #disk: Disk
  readonly #isSynced: boolean
  #isDirect: boolean

  /** @param isSynced whether bytes are forced to the device before `create` ends. */
  constructor(disk: Disk, isSynced: boolean, isDirect: boolean) {
    this.#disk = disk
    this.#isSynced = isSynced
    this.#isDirect = isDirect && O_DIRECT !== undefined
  }

  /** Makes a file of these pieces. One that cannot be made whole may be left behind. */
  async create(path: string, pieces: readonly Uint8Array[]): Promise<void> {
    if (this.#goesDirect(pieces)) {
      try {
        await this.#write(path, pieces, O_DIRECT)
        return
      } catch (error) {
        if (!isRefusal(error)) throw error
        this.#isDirect = false
        await this.#disk.rm(path, { force: true })
      }
    }
    await this.#write(path, pieces, 0)
  }

  /**
   * Writes these pieces over a file of their length. One of another length, or that has another name besides, is
   * deleted and made anew. One that cannot be written whole may be left behind.
   */
  async replace(path: string, pieces: readonly Uint8Array[]): Promise<void> {
    try {
      if (await this.#overwrite(path, pieces)) return
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.#isDirect = false
      if (await this.#overwrite(path, pieces)) return
    }
    await this.#disk.unlink(path)
    await this.create(path, pieces)
  }

  /**
   * Fills the pieces from the start of a file.
   * @returns bytes read: less than asked when the file is shorter.
   */
  async read(path: string, pieces: readonly Uint8Array[]): Promise<number> {
    if (this.#goesDirect(pieces)) {
      try {
        return await this.#read(path, pieces, O_DIRECT)
      } catch (error) {
        if (!isRefusal(error)) throw error
        this.#isDirect = false
      }
    }
    return this.#read(path, pieces, 0)
  }

  #goesDirect(pieces: readonly Uint8Array[]): boolean {
    return this.#isDirect && pieces.some(({ length }) => length >= DIRECT_BYTES_MIN) && pieces.every(isWholePages)
  }

  /** @returns false when the file is another than was thought, and untouched. */
  async #overwrite(path: string, pieces: readonly Uint8Array[]): Promise<boolean> {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
    const flags = this.#goesDirect(pieces) ? O_DIRECT : 0
    const file = await this.#disk.open(path, O_WRONLY | flags)
    try {
      const { size, nlink } = await file.stat()
      if (size !== bytes || nlink !== 1) return false
      await this.#fill(file, pieces)
      return true
    } finally {
      await file.close()
    }
  }

  async #write(path: string, pieces: readonly Uint8Array[], flags: number): Promise<void> {
    const file = await this.#disk.open(path, O_WRONLY | O_CREAT | O_EXCL | flags, 0o600)
    try {
      await this.#fill(file, pieces)
    } finally {
      await file.close()
    }
  }

  async #fill(file: FileHandle, pieces: readonly Uint8Array[]): Promise<void> {
    let left = [...pieces]
    while (left.length > 0) left = after(left, (await file.writev(left)).bytesWritten)
    if (this.#isSynced) await file.datasync()
  }

  async #read(path: string, pieces: readonly Uint8Array[], flags: number): Promise<number> {
    const file = await this.#disk.open(path, O_RDONLY | flags)
    try {
      let total = 0
      let left = [...pieces]
      while (left.length > 0) {
        const { bytesRead } = await file.readv(left, total)
        total += bytesRead
        left = after(left, bytesRead)
        const isOver = bytesRead === 0 || (flags !== 0 && left.length > 0) // a direct read stops short only at the end
        if (isOver) break
      }
      return total
    } finally {
      await file.close()
    }
  }
}

/** The file system, or its device, does not do unbuffered I/O, or not with pages of this size. */
function isRefusal(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'EINVAL' || code === 'ENOTSUP' || code === 'EOPNOTSUPP'
}

/** The pieces without their first `bytes` bytes. */
function after(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  const left: Uint8Array[] = []
  let skip = bytes
  for (const piece of pieces) {
    if (skip < piece.length) left.push(skip === 0 ? piece : piece.subarray(skip))
    skip = Math.max(0, skip - piece.length)
  }
  return left
}
