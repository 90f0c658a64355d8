import { constants } from 'node:fs'
import { isWholePages } from '../../native/page-memory.ts'
import type { WholeFiles } from '../../native/whole-files.ts'
import { type Disk, errorCode } from './disk.ts'

/** Payloads below this go through the page cache: a copy costs less than a wait for the device. */
const DIRECT_BYTES_MIN = 256 * 1024

/**
 * Whole files in and out of memory, past the page cache where that can be (`O_DIRECT`): a payload that is whole pages
 * then moves between the arena and the device without a copy, and takes no memory away from others. Where the file
 * system refuses it, from then on everything goes through the cache.
 */
export class RecordIo {
  readonly #files: WholeFiles
  readonly #disk: Pick<Disk, 'rm' | 'unlink'>
  readonly #isSynced: boolean
  #isDirect: boolean

  /** @param isSynced whether bytes are forced to the device before a written file gets its name. */
  constructor(files: WholeFiles, disk: Pick<Disk, 'rm' | 'unlink'>, isSynced: boolean, isDirect: boolean) {
    this.#files = files
    this.#disk = disk
    this.#isSynced = isSynced
    this.#isDirect = isDirect && constants.O_DIRECT !== undefined
  }

  /**
   * Makes a file of these pieces, and then calls it `name`; where that is null it keeps its path. One that cannot be
   * made whole may be left behind.
   */
  async create(path: string, pieces: readonly Uint8Array[], name: string | null): Promise<void> {
    if (this.#goesDirect(pieces)) {
      try {
        return await this.#files.create(path, pieces, name, this.#way(true))
      } catch (error) {
        this.#refused(error)
        await this.#disk.rm(path, { force: true })
      }
    }
    await this.#files.create(path, pieces, name, this.#way(false))
  }

  /**
   * Writes these pieces over a file of their length, and then calls it `name`. One of another length, or that has
   * another name besides, is deleted and made anew. One that cannot be written whole may be left behind.
   */
  async replace(path: string, pieces: readonly Uint8Array[], name: string | null): Promise<void> {
    if (await this.#overwrite(path, pieces, name)) return
    await this.#disk.unlink(path)
    await this.create(path, pieces, name)
  }

  /**
   * Fills the pieces from the start of a file.
   * @returns bytes read: less than asked when the file is shorter.
   */
  async read(path: string, pieces: readonly Uint8Array[]): Promise<number> {
    if (this.#goesDirect(pieces)) {
      try {
        return await this.#files.read(path, pieces, this.#way(true))
      } catch (error) {
        this.#refused(error)
      }
    }
    return this.#files.read(path, pieces, this.#way(false))
  }

  async #overwrite(path: string, pieces: readonly Uint8Array[], name: string | null): Promise<boolean> {
    if (this.#goesDirect(pieces)) {
      try {
        return await this.#files.overwrite(path, pieces, name, this.#way(true))
      } catch (error) {
        this.#refused(error)
      }
    }
    return this.#files.overwrite(path, pieces, name, this.#way(false))
  }

  #goesDirect(pieces: readonly Uint8Array[]): boolean {
    return this.#isDirect && pieces.some(({ length }) => length >= DIRECT_BYTES_MIN) && pieces.every(isWholePages)
  }

  #way(isDirect: boolean) {
    return { isDirect, isSynced: this.#isSynced }
  }

  /** Goes through the cache from now on, when the file system does not do unbuffered I/O, or not with such pages. */
  #refused(error: unknown): void {
    const code = errorCode(error)
    if (code !== 'EINVAL' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP') throw error
    this.#isDirect = false
  }
}
