import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder that holds package.json. */
export const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url))

/** A file of the tree. `path` is relative to the repository, with `/`. */
export interface TreeFile {
  readonly path: string
  readonly text: string
}

/** Every TypeScript and JavaScript file under the given top-level folders, in order of path. */
export function readTree(...folders: string[]): TreeFile[] {
  return folders.flatMap((folder) =>
    listFiles(folder)
      .filter((path) => /\.[tj]s$/.test(path))
      .map((path) => ({ path, text: readFileSync(join(REPOSITORY, path), 'utf8') })),
  )
}

/** Paths of all files under a folder, relative to the repository, with `/`. */
export function listFiles(folder: string): string[] {
  return readdirSync(join(REPOSITORY, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(REPOSITORY.length))
    .sort()
}
