import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import type { TestContext } from 'vitest'

/** How long a sanitizer may take over a build or a run, on a machine with other work. */
export const SANITIZED_TIMEOUT_MS = 300_000

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

/** Runs Node with a sanitizer's library, for an addon that was built with it. */
export function runSanitized(library: string, argv: readonly string[]) {
  return spawnSync(process.execPath, argv, {
    // What V8 and Node do not free at their end is no affair of the addon.
    env: { ...process.env, LD_PRELOAD: library, ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0', NODE_OPTIONS: '' },
    encoding: 'utf8',
    timeout: SANITIZED_TIMEOUT_MS,
  })
}

/** Runs a program of ThreadSanitizer, which needs addresses that some kernels deal out only when they are told to. */
export function runThreads(program: string, args: readonly string[]) {
  const options = { encoding: 'utf8', timeout: SANITIZED_TIMEOUT_MS } as const
  const plain = spawnSync(program, args, options)
  if (!plain.stderr.includes('unexpected memory mapping')) return plain
  return spawnSync('setarch', ['--addr-no-randomize', program, ...args], options)
}
