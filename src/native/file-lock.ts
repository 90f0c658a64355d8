import { closeSync, openSync } from 'node:fs'
import koffi from 'koffi'

const LOCK_EX = 2
const LOCK_NB = 4
const EAGAIN = 11

/** A file held for this process alone, until `release` or the end of the process, however it ends. */
export interface FileLock {
  release(): void
}

/**
 * Locks a file with flock(2): the kernel lets go of it when the process dies, so no lock is ever stale.
 *
 * @returns null when another process holds it.
 * @throws the system's error when the file cannot be opened.
 */
export function lockFile(path: string): FileLock | null {
  const descriptor = openSync(path, 'a', 0o600)
  const flock = koffi.load(null).func('int flock(int fd, int operation)')
  if (flock(descriptor, LOCK_EX | LOCK_NB) === 0) return { release: () => closeSync(descriptor) }
  const code = koffi.errno()
  closeSync(descriptor)
  if (code === EAGAIN) return null
  throw new Error(`flock of ${path} failed with errno ${code}`)
}
