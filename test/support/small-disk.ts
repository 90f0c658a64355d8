import { spawnSync } from 'node:child_process'
import { temporaryDirectory } from './l2-objects.ts'

/** A file system of its own, small; undefined where this process may not mount one. */
export function smallDisk(bytes: number): { path: string; remove: () => void } | undefined {
  const directory = temporaryDirectory()
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', directory.path])
  if (mounted.status !== 0) {
    directory.remove()
    return undefined
  }
  return {
    path: directory.path,
    remove: () => {
      spawnSync('umount', [directory.path])
      directory.remove()
    },
  }
}
