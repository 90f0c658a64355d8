import type * as fsPromises from 'node:fs/promises'

/** The file calls of the filesystem adapter: `node:fs/promises`, or a stand-in that fails on purpose. */
export type Disk = Pick<
  typeof fsPromises,
  'mkdir' | 'open' | 'readdir' | 'readFile' | 'rename' | 'rm' | 'stat' | 'unlink' | 'utimes'
>

/** The system's name of an error: ENOSPC, EIO...; the class when it has none. */
export function errorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.name : 'unknown')
}

/** No room on the disk, or none for this user. */
export function isFull(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOSPC' || code === 'EDQUOT'
}
