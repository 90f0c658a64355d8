import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import type { TestContext } from 'vitest'
import { type AddonBuildOptions, buildAddon } from '../../src/native/addon-build.ts'

/** How long a sanitizer may take over a build or a run, on a machine with other work. */
export const SANITIZED_TIMEOUT_MS = 900_000

/** Path of a library of g++. Where it is missing the test is skipped, and says so; in CI it fails. */
export function libraryOf(context: TestContext, name: string): string {
  const { stdout } = spawnSync('g++', [`-print-file-name=${name}`], { encoding: 'utf8' })
  const path = (stdout ?? '').trim()
  if (isAbsolute(path) && existsSync(path)) return path
  const reason = `g++ has no ${name} here`
  if (process.env.CI === 'true') throw new Error(reason)
  context.skip(reason)
  throw new Error('unreachable')
}

/** Builds the addon of a repository with sanitizers in it. @returns its path. @throws Error */
export async function buildSanitized(options: Pick<AddonBuildOptions, 'root' | 'flags' | 'folder'>): Promise<string> {
  const made = await buildAddon({ ...options, compilers: ['g++'], env: process.env })
  if ('reason' in made) throw new Error(made.reason)
  return made.path
}

/** Runs Node with AddressSanitizer's library, for an addon that was built with it. */
export function runSanitized(library: string, argv: readonly string[]) {
  // What V8 and Node do not free at their end is no affair of the addon.
  return runPreloaded(library, argv, { ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0' })
}

/**
 * Runs Node with a sanitizer's library: it has none in it, the addon has.
 *
 * @param options of the sanitizer, by the name of their variable.
 */
export function runPreloaded(library: string, argv: readonly string[], options: Record<string, string>) {
  return runThreads(process.execPath, argv, { ...process.env, NODE_OPTIONS: '', LD_PRELOAD: library, ...options })
}

/**
 * Runs a program at addresses that do not change, where the kernel lets it: ThreadSanitizer has no room for some of those
 * that are drawn by chance.
 */
export function runThreads(program: string, argv: readonly string[], env: NodeJS.ProcessEnv = process.env) {
  const options = { encoding: 'utf8', timeout: SANITIZED_TIMEOUT_MS, env } as const
  const fixed = ['setarch', '--addr-no-randomize'] as const
  const isAllowed = spawnSync(fixed[0], [fixed[1], 'true']).status === 0
  return isAllowed ? spawnSync(fixed[0], [fixed[1], program, ...argv], options) : spawnSync(program, argv, options)
}
