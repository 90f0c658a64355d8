import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { loadAddonOf } from '../../../src/native/addon.ts'
import { addonFolder, addonKey, addonName, addonSources } from '../../../src/native/addon-files.ts'
import { addonOf } from '../../support/addon.ts'

const MODULE = new URL('../../../src/native/addon.ts', import.meta.url).href

/** A repository with sources, and a binary that no loader accepts, under a name that fits when it says so. */
function repository(fits: boolean): string {
  const root = mkdtempSync(join(tmpdir(), 'kvtier-addon-'))
  for (const folder of [addonSources(root), addonFolder(root)]) mkdirSync(folder, { recursive: true })
  writeFileSync(join(addonSources(root), 'module.cc'), '')
  const key = fits ? addonKey(root) : '0123456789abcdef'
  writeFileSync(join(addonFolder(root), addonName(key, 'some compiler')), 'not a program')
  return root
}

it('loads, and knows the processor', async (context) => {
  const addon = await addonOf(context)
  expect(addon.processor()).toMatch(/^(?:x86-64|arm64|portable)/)
})

it('loads in worker threads that come and go, several times in each', async (context) => {
  await addonOf(context)
  const text = `
    const { parentPort } = require('node:worker_threads')
    import(${JSON.stringify(MODULE)}).then(({ loadAddonOf, loadAddon }) => {
      const root = ${JSON.stringify(join(import.meta.dirname, '../../..'))}
      const names = [loadAddon(), loadAddonOf(root), loadAddonOf(root)].map((addon) => addon.processor())
      parentPort.postMessage(names)
    })`
  for (let round = 0; round < 3; round += 1) {
    const workers = Array.from({ length: 4 }, () => new Worker(text, { eval: true }))
    const answers = await Promise.all(
      workers.map(async (worker) => {
        const ended = once(worker, 'exit')
        const [names] = await once(worker, 'message')
        await ended
        return names as string[]
      }),
    )
    expect(new Set(answers.flat()).size).toBe(1)
    expect(answers.flat().length).toBe(12)
  }
})

it('a repository without sources has none, and says so', () => {
  expect(loadAddonOf(join(tmpdir(), 'kvtier-nowhere'))).toContain('not installed')
})

it('a binary of other sources is not loaded', () => {
  const root = repository(false)
  expect(loadAddonOf(root)).toContain('not built')
  rmSync(root, { recursive: true })
})

it('a binary that cannot be loaded is a reason of one line', () => {
  const root = repository(true)
  expect(loadAddonOf(root)).toMatch(/^the addon cannot be loaded: [^\n]+$/)
  rmSync(root, { recursive: true })
})

it('a change of any source changes the key, and so does a new one', () => {
  const root = repository(false)
  const keys = [addonKey(root)]
  writeFileSync(join(addonSources(root), 'module.cc'), '// something')
  keys.push(addonKey(root))
  mkdirSync(join(addonSources(root), 'cuda'))
  writeFileSync(join(addonSources(root), 'cuda', 'device.cc'), '')
  keys.push(addonKey(root))
  expect(new Set(keys).size).toBe(3)
  rmSync(root, { recursive: true })
})
