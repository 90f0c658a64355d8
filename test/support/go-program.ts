import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { REPOSITORY } from './source-tree.ts'

const BUILD_DEADLINE_MS = 600_000

/** Where programs that tests build are kept from one run to the next. */
export function programCache(): string {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'kvtier')
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Go where it is on the path or in its usual place; undefined where there is none. */
function goProgram(): string | undefined {
  return ['go', '/usr/local/go/bin/go'].find((path) => spawnSync(path, ['version']).status === 0)
}

/**
 * A Go program of `test/support/go`, built from the module proxy unless its sources were built before. Where there is
 * no Go the test counts as skipped and says so; in CI (environment variable CI=true) it fails instead.
 *
 * @param target the package to build: one that the folder's go.mod pins, or its own.
 * @returns the path of the program.
 */
export function goTool(context: TestContext, name: string, target = '.'): string {
  const folder = join(REPOSITORY, 'test/support/go', name)
  const hash = createHash('sha256')
  for (const file of readdirSync(folder).sort()) hash.update(readFileSync(join(folder, file)))
  const program = join(programCache(), `${name}-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  const go = goProgram()
  if (go === undefined) {
    const reason = 'Go is missing: install it from go.dev'
    if (process.env.CI === 'true') throw new Error(reason)
    context.skip(reason)
  }
  const part = `${program}.${process.pid}`
  const build = spawnSync(go!, ['build', '-o', part, target], {
    cwd: folder,
    encoding: 'utf8',
    timeout: BUILD_DEADLINE_MS,
  })
  if (build.status !== 0) throw new Error(`${name} cannot be built: ${build.stderr || build.error}`)
  renameSync(part, program)
  return program
}
