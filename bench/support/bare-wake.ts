import { cpSync, mkdirSync, mkdtempSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildAddon } from '../../src/native/addon-build.ts'
import { addonSources } from '../../src/native/addon-files.ts'
import { REPOSITORY } from '../../test/support/source-tree.ts'

interface WakeAddon {
  start(called: () => void): void
  ask(busyMicroseconds: number): void
}

/**
 * The floor of work on another thread: one is asked, works on memory for some microseconds, and wakes this one.
 *
 * @returns asks it, and calls `done` when woken: one at a time. The process has to be ended. @throws Error without a compiler
 */
export async function bareWake(): Promise<(busyMicroseconds: number, done: () => void) => void> {
  const root = mkdtempSync(join(tmpdir(), 'kvtier-bare-wake-'))
  const sources = addonSources(root)
  mkdirSync(sources, { recursive: true })
  cpSync(join(addonSources(REPOSITORY), 'arguments.h'), join(sources, 'arguments.h'))
  cpSync(join(REPOSITORY, 'test/support/native/bare-wake.cc'), join(sources, 'module.cc'))
  const made = await buildAddon({ root, compilers: ['g++'], env: process.env })
  if ('reason' in made) throw new Error(made.reason)
  const addon = createRequire(import.meta.url)(made.path) as WakeAddon
  let waiting: (() => void) | null = null
  addon.start(() => waiting?.())
  return (busyMicroseconds, done) => {
    waiting = done
    addon.ask(Math.min(Math.trunc(busyMicroseconds), 1_000_000))
  }
}
