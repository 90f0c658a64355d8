import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { capability } from '../../../src/native/capability.ts'

it('a directory that cannot be written is a reason, not an error', () => {
  const { sharedMemory } = capability('/nonexistent')
  expect(sharedMemory.available).toBe(false)
  expect(sharedMemory.reason).toMatch(/^[^\n]+$/)
})

it('a part that is available has no reason', () => {
  const { sharedMemory } = capability()
  expect(sharedMemory.reason === undefined).toBe(sharedMemory.available)
})

it('a machine where koffi cannot be loaded gets a reason', () => {
  const hooks = `import { registerHooks } from 'node:module'
    registerHooks({ resolve(name, context, next) {
      if (name === 'koffi') throw new Error('no binary for this platform')
      return next(name, context)
    } })`
  const module = new URL('../../../src/native/capability.ts', import.meta.url).href
  const print = `import(${JSON.stringify(module)}).then(({ capability }) => console.log(JSON.stringify(capability())))`
  const hooked = ['--import', `data:text/javascript,${encodeURIComponent(hooks)}`, '--eval', print]
  const { sharedMemory } = JSON.parse(execFileSync(process.execPath, hooked, { encoding: 'utf8' }))
  expect(sharedMemory.available).toBe(false)
  expect(sharedMemory.reason).toContain('no binary for this platform')
})

it('the addon is there, or there is a reason', () => {
  const { addon } = capability()
  expect(addon.reason === undefined).toBe(addon.available)
  expect(addon.processor !== undefined).toBe(addon.available)
})

it('objects go through the addon where it is there', () => {
  const { addon, wholeFiles } = capability()
  expect(wholeFiles.way).toBe(addon.available ? 'addon' : 'node:fs')
  expect(wholeFiles.reason).toBe(addon.reason)
})

it('turns of a chosen length are there, or there is a reason', () => {
  const { timeSlices } = capability()
  expect(timeSlices.reason === undefined).toBe(timeSlices.available)
})
