import { spawnSync } from 'node:child_process'
import type { TestContext } from 'vitest'

/**
 * For tests with the programs of the Debian package `prometheus`. Where a program is missing the test counts as
 * skipped and says so; in CI (environment variable CI=true) it fails instead.
 */
export function needProgram(context: TestContext, program: 'promtool' | 'prometheus'): void {
  if (spawnSync(program, ['--version']).status === 0) return
  const reason = `${program} is missing: apt-get install prometheus`
  if (process.env.CI === 'true') throw new Error(reason)
  context.skip(reason)
}
