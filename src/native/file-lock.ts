import { closeSync, constants, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { loadPosix } from './posix.ts'

const LOCK_EX = 2
const LOCK_NB = 4
const EAGAIN = 11

/** A file held for this process alone, until `release` or the end of the process, however it ends. */
export interface FileLock {
  release(): void
}

/**
 * Locks a file with flock(2): the kernel lets go of it when the process dies, so no lock is ever stale.
 * Where the call cannot be made, the file holds the owner's process id, and is stale once that process is gone.
 *
 * @returns null when another process, or another lock of this one, holds it.
 * @throws the system's error when the file cannot be opened.
 */
export function lockFile(path: string): FileLock | null {
  const posix = loadPosix()
  if (typeof posix === 'string') return lockByProcessId(path)
  const descriptor = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  if (posix.flock(descriptor, LOCK_EX | LOCK_NB) === 0) return { release: () => closeSync(descriptor) }
  const code = posix.errno()
  closeSync(descriptor)
  if (code === EAGAIN) return null
  throw new Error(`flock of ${path} failed with errno ${code}`)
}

function lockByProcessId(path: string): FileLock | null {
  for (let isRetry = false; ; isRetry = true) {
    try {
      const descriptor = openSync(path, 'wx', 0o600)
      writeSync(descriptor, `${process.pid}\n`)
      closeSync(descriptor)
      return { release: () => rmSync(path, { force: true }) }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (isRetry || isAlive(Number(readFileSync(path, 'utf8')))) return null
    rmSync(path, { force: true })
  }
}

function isAlive(processId: number): boolean {
  if (!Number.isInteger(processId) || processId <= 0) return false
  try {
    process.kill(processId, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
