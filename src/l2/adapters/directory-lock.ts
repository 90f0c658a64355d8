import { CacheError } from '../../core/errors.ts'
import { errorCode } from './disk.ts'
import type { ObjectFiles } from './object-files.ts'

/** A directory that is held for one adapter alone. */
export interface DirectoryLock {
  release(): void
}

/**
 * Makes the directory of an adapter and takes it.
 *
 * @param lock takes a file until the process ends; null when another one has it.
 * @throws CacheError DATA_DIR_LOCKED, DATA_DIR_UNWRITABLE
 */
export async function takeDirectory(
  files: ObjectFiles,
  lock: (path: string) => DirectoryLock | null,
): Promise<DirectoryLock> {
  const { directory } = files
  let taken: DirectoryLock | null
  try {
    await files.make()
    taken = lock(files.lockPath)
  } catch (error) {
    throw unwritable(directory, error)
  }
  if (taken !== null) return taken
  const message = `another engine runs on the L2 directory ${directory}: give each its own`
  throw new CacheError('DATA_DIR_LOCKED', message, { field: 'path', path: directory })
}

/** What went wrong with a directory, as an operating error. */
export function unwritable(directory: string, error: unknown): CacheError {
  if (error instanceof CacheError) return error
  const message = `the L2 directory ${directory} cannot be read and written (${errorCode(error)}): choose another`
  return new CacheError('DATA_DIR_UNWRITABLE', message, { field: 'path', path: directory }, error)
}
