import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a directory and those above it that are absent; one that exists stays as it is.
 *
 * Not by `mkdirSync` with `recursive`: it never returns where the system answers ENOENT below a directory that exists,
 * as /proc does.
 *
 * @param path absolute.
 * @throws the system's error
 */
export function makeDirectory(path: string, mode = 0o777): void {
  const absent: string[] = []
  for (let at = path; !existsSync(at); at = dirname(at)) absent.push(at)
  for (const folder of absent.reverse()) {
    try {
      mkdirSync(folder, { mode })
    } catch (error) {
      // Another process may have made it meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}
