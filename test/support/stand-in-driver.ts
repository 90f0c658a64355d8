import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { loadAddon } from '../../src/native/addon.ts'
import { buildAddon } from '../../src/native/addon-build.ts'
import { REPOSITORY } from './source-tree.ts'

const SOURCES = join(REPOSITORY, 'test/support/cuda-driver')
const FLAGS = ['-std=gnu11', '-O1', '-g', '-fPIC', '-shared', '-fvisibility=hidden', '-Wall', '-Wextra', '-pthread']

/** Where the tests' CUDA driver lies. */
export interface StandInDriver {
  readonly library: string
}

/** The driver, loaded here: the addon that opens the same file has the same one. */
export interface StandIn extends StandInDriver {
  /** Commands of `kvtierStandInControl`. */
  control(command: string): void
  /** Counters of `kvtierStandInCount`. */
  count(name: string): number
}

/**
 * Builds the stand-in driver, and the addon, unless they are there. A string says why not: in CI (environment variable
 * CI=true) it throws instead.
 *
 * @param flags added, such as `-fsanitize=...`
 */
export async function standInDriver(flags: readonly string[] = []): Promise<StandInDriver | string> {
  try {
    const built = await buildAddon({ root: REPOSITORY, compilers: ['g++', 'clang++', 'c++'], env: process.env })
    if ('reason' in built) throw new Error(built.reason)
    const addon = loadAddon()
    if (typeof addon === 'string') throw new Error(addon)
    return { library: await buildLibrary(flags) }
  } catch (error) {
    if (process.env.CI === 'true') throw error
    return `the stand-in CUDA driver cannot be built: ${String(error).split('\n')[0]}`
  }
}

/** The shared library of the driver, built once for each content of its sources. @throws Error */
export async function buildLibrary(flags: readonly string[] = []): Promise<string> {
  const names = readdirSync(SOURCES).sort()
  const hash = createHash('sha256').update([...FLAGS, ...flags].join(' '))
  for (const name of names) hash.update(name).update(readFileSync(join(SOURCES, name)))
  const folder = join(REPOSITORY, 'build', 'stand-in')
  const library = join(folder, `libcuda-stand-in-${hash.digest('hex').slice(0, 16)}.so`)
  if (existsSync(library)) return library
  mkdirSync(folder, { recursive: true })
  const draft = `${library}.${process.pid}`
  const sources = names.filter((name) => name.endsWith('.c')).map((name) => join(SOURCES, name))
  await promisify(execFile)('gcc', [...FLAGS, ...flags, ...sources, '-o', draft, '-ldl'])
  renameSync(draft, library)
  return library
}

/** Loads the driver into this process, to steer it and to count. */
export function openStandIn({ library }: StandInDriver): StandIn {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  const loaded = koffi.load(library)
  const control = loaded.func('int kvtierStandInControl(const char* command)') as (command: string) => number
  const count = loaded.func('long long kvtierStandInCount(const char* name)') as (name: string) => number
  return {
    library,
    control: (command) => {
      if (control(command) !== 0) throw new Error(`the stand-in driver does not know: ${command}`)
    },
    count: (name) => Number(count(name)),
  }
}
