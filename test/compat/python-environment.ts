import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { REPOSITORY } from '../support/source-tree.ts'

/** Where downloads are kept between runs. */
export const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'kvtier-compat')

/** A Python with packages, or why there is none. */
export type PythonEnvironment = { readonly python: string } | { readonly missing: string }

/**
 * A virtual environment with what a requirements file pins. Made once for each content of the file and version of
 * Python, in the user's cache; later runs find it. Takes seconds to minutes the first time.
 *
 * @param file relative to this folder.
 * @param resolves false: the file names every package that is needed, and pip does not look for more.
 */
export function pythonEnvironment(file: string, { python = 'python3', resolves = true } = {}): PythonEnvironment {
  const requirements = join(REPOSITORY, 'test/compat', file)
  const asked = spawnSync(python, ['-c', 'import sys, venv, ensurepip; print(sys.version)'], { encoding: 'utf8' })
  if (asked.error !== undefined) return { missing: `${python} is missing` }
  if (asked.status !== 0) return { missing: `${python} has no venv or pip: apt-get install python3-venv` }
  const name = createHash('sha256').update(asked.stdout).update(readFileSync(requirements)).digest('hex').slice(0, 16)
  const folder = join(CACHE, name)
  const ready = { python: join(folder, 'bin/python') }
  if (existsSync(folder)) return ready
  mkdirSync(CACHE, { recursive: true })
  const draft = join(CACHE, `${name}.${process.pid}`)
  try {
    execFileSync(python, ['-m', 'venv', draft], { encoding: 'utf8', stdio: 'pipe' })
    const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--requirement', requirements]
    execFileSync(join(draft, 'bin/python'), resolves ? install : [...install, '--no-deps'], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
    renameSync(draft, folder) // whole or not at all; `bin/python` works from any place, `bin/pip` does not
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(folder)) return { missing: `the Python packages could not be installed: ${reasonOf(error)}` }
  }
  return ready
}

/** A folder with one version of a package, without its dependencies: for PYTHONPATH. @throws Error */
export function packageFolder(python: string, name: string, version: string): string {
  return targetFolder(python, `${name}-${version}`, [`${name}==${version}`])
}

/** A folder with the packages of a requirements file, without what they depend on: for PYTHONPATH. @throws Error */
export function requirementsFolder(python: string, file: string): string {
  const requirements = join(REPOSITORY, 'test/compat', file)
  const name = createHash('sha256').update(python).update(readFileSync(requirements)).digest('hex').slice(0, 16)
  return targetFolder(python, name, ['--requirement', requirements])
}

function targetFolder(python: string, name: string, what: readonly string[]): string {
  const folder = join(CACHE, name)
  if (existsSync(folder)) return folder
  const draft = `${folder}.${process.pid}`
  const install = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', draft, ...what]
  execFileSync(python, install, { encoding: 'utf8', stdio: 'pipe' })
  renameSync(draft, folder)
  return folder
}

function reasonOf(error: unknown): string {
  const { stderr = '', message } = error as Error & { stderr?: string }
  const lines = stderr.trim().split('\n')
  return lines.at(-1) || message
}
