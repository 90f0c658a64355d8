import type { TestContext } from 'vitest'
import { type Addon, loadAddonOf } from '../../src/native/addon.ts'
import { type AddonBuilt, buildAddon } from '../../src/native/addon-build.ts'
import { REPOSITORY } from './source-tree.ts'

let built: Promise<AddonBuilt> | undefined

/**
 * The addon, built from the sources as they are unless it was built before. Where it cannot be built the test counts as
 * skipped and says so; in CI (environment variable CI=true) it fails instead.
 */
export async function addonOf(context: TestContext): Promise<Addon> {
  built ??= buildAddon({ root: REPOSITORY, compilers: ['g++', 'clang++', 'c++'], env: process.env })
  const result = await built
  const addon = 'reason' in result ? result.reason : loadAddonOf(REPOSITORY)
  if (typeof addon !== 'string') return addon
  if (process.env.CI === 'true') throw new Error(addon)
  context.skip(addon)
  throw new Error('unreachable')
}
