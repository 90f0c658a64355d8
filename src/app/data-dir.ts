import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CacheError } from '../core/errors.ts'
import { type FileLock, lockFile } from '../native/file-lock.ts'
import { makeDirectory } from '../native/make-directory.ts'

/** Where each surface of a running engine listens. A surface that is off is absent. */
export interface Addresses {
  readonly http?: string
  readonly metrics?: string
  readonly mp?: string
  readonly pid: number
}

/** There while an engine runs. */
const ADDRESSES = 'addresses.json'
/** What a crash leaves of the addresses: there until an engine runs again, however many starts fail before. */
const STALE_ADDRESSES = 'addresses.stale.json'

/**
 * Shared memory of the engine of a data directory: the same name at every start, so that a restart finds what a kill
 * left. @param dataDir without symbolic links.
 */
export function segmentName(dataDir: string): string {
  return `kvtier-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`
}

/** The data directory of one engine: held by a lock while the engine runs. */
export class DataDirectory {
  /** Absolute and without symbolic links. */
  readonly path: string
  /** The engine before this one did not stop in order. */
  readonly wasLeftOpen: boolean
  readonly #lock: FileLock

  private constructor(path: string, lock: FileLock) {
    this.path = realpathSync(path)
    this.#lock = lock
    if (existsSync(join(path, ADDRESSES))) renameSync(join(path, ADDRESSES), join(path, STALE_ADDRESSES))
    this.wasLeftOpen = existsSync(join(path, STALE_ADDRESSES))
  }

  /** Makes the directory when absent and takes it. @throws CacheError DATA_DIR_UNWRITABLE, DATA_DIR_LOCKED */
  static take(path: string): DataDirectory {
    let lock: FileLock | null
    try {
      makeDirectory(path, 0o700)
      accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
      lock = lockFile(join(path, 'engine.lock'))
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message
      const message = `the data directory ${path} cannot be written (${reason}): choose another with --data-dir`
      throw new CacheError('DATA_DIR_UNWRITABLE', message, { field: '--data-dir' }, error)
    }
    if (lock === null) {
      const message = `another engine runs on the data directory ${path}: give this one its own with --data-dir`
      throw new CacheError('DATA_DIR_LOCKED', message, { field: '--data-dir' })
    }
    return new DataDirectory(path, lock)
  }

  /** Says where the engine listens, for scripts: `addresses.json`, whole or not there. */
  publishAddresses(addresses: Addresses): void {
    const path = join(this.path, ADDRESSES)
    writeFileSync(`${path}.tmp`, `${JSON.stringify(addresses)}\n`)
    renameSync(`${path}.tmp`, path)
    rmSync(join(this.path, STALE_ADDRESSES), { force: true })
  }

  release(): void {
    rmSync(join(this.path, ADDRESSES), { force: true })
    this.#lock.release()
  }
}
