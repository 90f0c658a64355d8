import { join } from 'node:path'
import { makeDirectory } from '../../native/make-directory.ts'
import type { WholeFiles } from '../../native/whole-files.ts'
import { HEADER_BYTES } from '../object-format.ts'
import type { FilesystemAdapterOptions } from '../options.ts'
import type { SpaceEntry } from '../space-table.ts'
import { type Disk, errorCode } from './disk.ts'
import { RecordIo } from './record-io.ts'

/**
 * The files of the filesystem adapter and the order of calls that makes each of them appear whole or not at all.
 *
 *   DIRECTORY/
 *     lock
 *     manifest
 *     objects/SPACE/space.json         SPACE = 32 hex digits of its digest: no model or salt reaches a path
 *     objects/SPACE/h/h/HASH           h = first two hex digits of the hash; 256 leaf directories a space
 *     tmp/N                            being written; what a crash leaves is deleted at open
 *     quarantine/TIME-SPACE-HASH       records that failed their verification, the newest ones
 */
export class ObjectFiles {
  readonly directory: string
  readonly objects: string
  readonly #disk: Disk
  readonly #io: RecordIo
  readonly #isSynced: boolean
  readonly #quarantineFiles: number
  readonly #made = new Set<string>()
  /** How many reads each path has under way. */
  readonly #reads = new Map<string, number>()
  #quarantined: string[] = []
  #sequence = 0

  /** @param whole moves the objects; everything else goes through the disk. */
  constructor(disk: Disk, whole: WholeFiles, options: FilesystemAdapterOptions) {
    const { directory, durability, direct, quarantineFiles } = options
    const isSynced = durability === 'fsync'
    this.#disk = disk
    this.#io = new RecordIo(whole, disk, isSynced, direct === 'auto')
    this.directory = directory
    this.objects = join(directory, 'objects')
    this.#isSynced = isSynced
    this.#quarantineFiles = quarantineFiles
  }

  get lockPath(): string {
    return join(this.directory, 'lock')
  }

  get manifestPath(): string {
    return join(this.directory, 'manifest')
  }

  /** Corrupt records kept. */
  get quarantined(): number {
    return this.#quarantined.length
  }

  /** Makes the directory itself, so that it can be locked. */
  async make(): Promise<void> {
    makeDirectory(this.directory, 0o700)
  }

  /** Makes the folders and deletes what a crash left half-written. Only under the lock. */
  async prepare(): Promise<void> {
    for (const name of ['objects', 'tmp', 'quarantine']) {
      await this.#disk.mkdir(join(this.directory, name), { recursive: true, mode: 0o700 })
    }
    for (const name of await this.#disk.readdir(join(this.directory, 'tmp'))) {
      await this.#disk.rm(join(this.directory, 'tmp', name), { force: true, recursive: true })
    }
    this.#quarantined = (await this.#disk.readdir(join(this.directory, 'quarantine'))).sort()
    await this.#trimQuarantine()
  }

  pathOf(space: SpaceEntry, hash: string): string {
    return join(this.leafOf(space, hash), hash)
  }

  /** The directory of an object. */
  leafOf(space: SpaceEntry, hash: string): string {
    return join(this.objects, space.digest, hash[0]!, hash[1]!)
  }

  /** Makes the folder of a space and writes what it is. */
  async describe(entry: SpaceEntry): Promise<void> {
    const folder = join(this.objects, entry.digest)
    const path = join(folder, 'space.json')
    if (this.#made.has(path)) return
    await this.#makeFolder(folder)
    await this.publish(path, [Buffer.from(`${JSON.stringify(entry.space)}\n`)])
    await this.syncFolder(folder)
    this.#made.add(path)
  }

  /**
   * Writes header and payload as an object: visible whole, or not there. The caller syncs its leaf afterwards.
   * @param over a file of `take` that it becomes; null = a new one.
   */
  async write(
    space: SpaceEntry,
    hash: string,
    header: Uint8Array,
    payload: Uint8Array,
    over: string | null,
  ): Promise<void> {
    const leaf = this.leafOf(space, hash)
    if (!this.#made.has(leaf)) {
      await this.#makeFolder(join(leaf, '..'))
      await this.#makeFolder(leaf)
    }
    await this.publish(join(leaf, hash), [header, payload], over)
  }

  /** tmp + write + datasync + rename. After a failure nothing is left behind, `over` included. */
  async publish(path: string, pieces: readonly Uint8Array[], over: string | null = null): Promise<void> {
    const temporary = over ?? this.#temporary()
    try {
      if (over === null) await this.#io.create(temporary, pieces, path)
      else await this.#io.replace(temporary, pieces, path)
    } catch (error) {
      await this.discard(temporary)
      throw error
    }
  }

  /**
   * Takes the file of an object that has left the index, to be written over: its blocks need not be freed and found
   * again, nor the length written. What is being read is deleted instead: the reader keeps the bytes.
   *
   * A power cut may undo the rename and not what was written: the old name then has a record that fails its
   * verification.
   *
   * @returns where it is now; null when there is none to write over.
   */
  async take(space: SpaceEntry, hash: string): Promise<string | null> {
    const path = this.pathOf(space, hash)
    if (this.#reads.has(path)) {
      await this.unlink(space, hash)
      return null
    }
    const temporary = this.#temporary()
    try {
      await this.#disk.rename(path, temporary)
      return temporary
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error
      return null
    }
  }

  /** Deletes a file of `take` that is not needed. */
  async discard(over: string | null): Promise<void> {
    if (over !== null) await this.#disk.rm(over, { force: true }).catch(() => undefined)
  }

  /**
   * Reads header and payload.
   * @param spare takes what the file has too much.
   * @returns bytes read: HEADER_BYTES + payload.length when the file has the right length.
   */
  async read(path: string, header: Uint8Array, payload: Uint8Array, spare: Uint8Array): Promise<number> {
    this.#reads.set(path, (this.#reads.get(path) ?? 0) + 1)
    try {
      return await this.#io.read(path, [header, payload, spare])
    } finally {
      const left = this.#reads.get(path)! - 1
      if (left === 0) this.#reads.delete(path)
      else this.#reads.set(path, left)
    }
  }

  async isThere(path: string): Promise<boolean> {
    try {
      await this.#disk.stat(path)
      return true
    } catch (error) {
      return errorCode(error) !== 'ENOENT'
    }
  }

  /** Deletes an object; one that is not there is fine. */
  async unlink(space: SpaceEntry, hash: string): Promise<void> {
    try {
      await this.#disk.unlink(this.pathOf(space, hash))
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error
    }
  }

  /** Moves a record out of the way, for a look. The oldest ones make room. */
  async quarantine(path: string, digest: string, hash: string, wallMs: number): Promise<void> {
    if (this.#quarantineFiles === 0) return this.#disk.unlink(path)
    const name = `${Math.floor(wallMs).toString().padStart(14, '0')}-${digest}-${hash}`
    await this.#disk.rename(path, join(this.directory, 'quarantine', name))
    if (!this.#quarantined.includes(name)) this.#quarantined.push(name)
    await this.#trimQuarantine()
  }

  /** Persists how recent an object is, roughly. Best effort. */
  async stamp(path: string, wallMs: number): Promise<void> {
    await this.#disk.utimes(path, wallMs / 1000, wallMs / 1000).catch(() => undefined)
  }

  /** Makes renames and deletions in a folder last, when that is asked for. */
  async syncFolder(folder: string): Promise<void> {
    if (!this.#isSynced) return
    const handle = await this.#disk.open(folder, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }

  #temporary(): string {
    this.#sequence += 1
    return join(this.directory, 'tmp', String(this.#sequence))
  }

  async #makeFolder(folder: string): Promise<void> {
    if (this.#made.has(folder)) return
    const made = await this.#disk.mkdir(folder, { recursive: true, mode: 0o700 })
    if (made !== undefined) await this.syncFolder(join(folder, '..'))
    this.#made.add(folder)
  }

  async #trimQuarantine(): Promise<void> {
    while (this.#quarantined.length > this.#quarantineFiles) {
      const name = this.#quarantined.shift()!
      await this.#disk.rm(join(this.directory, 'quarantine', name), { force: true, recursive: true })
    }
  }
}

/** Bytes of an object's file. */
export function fileBytes(payloadBytes: number): number {
  return HEADER_BYTES + payloadBytes
}
