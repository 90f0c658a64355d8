import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The repository, seen from a checkout (`src/native`) and from a build of it (`dist/native`) alike. */
export const ADDON_ROOT = join(import.meta.dirname, '..', '..')
/** What the addon is compiled with, sanitizers aside. No flag depends on the machine: code for newer processors is chosen at run time. */
export const ADDON_FLAGS: readonly string[] = [
  '-std=c++17',
  '-O3',
  '-fPIC',
  '-fvisibility=hidden',
  '-fno-exceptions',
  '-fno-rtti',
  '-fno-tree-slp-vectorize', // it would put BLAKE3's words into vectors, which is slower
  '-Wall',
  '-Wextra',
  '-Werror=return-type',
  '-pthread',
]
const NODE_API_VERSION = 9

/** Where the sources lie. */
export function addonSources(root: string): string {
  return join(root, 'src', 'native', 'addon')
}

/** Where built binaries lie: an ignored folder. */
export function addonFolder(root: string): string {
  return join(root, 'build', 'native')
}

/** The files that go into the addon, below the folder of its sources, in order. */
export function addonFiles(root: string): string[] {
  const names = readdirSync(addonSources(root), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => /\.(?:cc|h|inc)$/.test(name)).sort()
}

/**
 * Names what a binary must be made of to fit: every source, the flags, the platform and the version of Node-API. A
 * binary with another key is never loaded.
 */
export function addonKey(root: string): string {
  const hash = createHash('sha256')
  hash.update(JSON.stringify([ADDON_FLAGS, process.platform, process.arch, NODE_API_VERSION]))
  for (const name of addonFiles(root)) {
    const text = readFileSync(join(addonSources(root), name))
    hash.update(`${name} ${text.length}\n`).update(text)
  }
  return hash.digest('hex').slice(0, 16)
}

/** Name of a binary: the key, then which compiler made it. */
export function addonName(key: string, compiler: string): string {
  return `kvtier-${key}-${createHash('sha256').update(compiler).digest('hex').slice(0, 8)}.node`
}

/** Path of a binary that fits these sources, whichever compiler made it; undefined when there is none. */
export function findAddon(root: string): string | undefined {
  const start = `kvtier-${addonKey(root)}-`
  const name = readdirSync(addonFolder(root))
    .sort()
    .find((one) => one.startsWith(start) && one.endsWith('.node'))
  return name === undefined ? undefined : join(addonFolder(root), name)
}
