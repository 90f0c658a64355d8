import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { DataDirectory } from '../../../src/app/data-dir.ts'

const root = mkdtempSync(join(tmpdir(), 'kvtier-data-dir-'))
afterEach(() => rmSync(root, { recursive: true, force: true }))

it('makes a missing directory, holds it alone, and gives it back', () => {
  const path = join(root, 'deep', 'data')
  const first = DataDirectory.take(path)
  expect(() => DataDirectory.take(path)).toThrow(expect.objectContaining({ code: 'DATA_DIR_LOCKED' }))
  first.release()
  DataDirectory.take(path).release()
})

it('is free again after the process that held it was killed', () => {
  const path = join(root, 'data')
  const script = `import { DataDirectory } from '${new URL('../../../src/app/data-dir.ts', import.meta.url)}'
    DataDirectory.take(${JSON.stringify(path)}); process.kill(process.pid, 'SIGKILL')`
  expect(() => execFileSync(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' })).toThrow()
  DataDirectory.take(path).release()
})

it('names the directory and the flag when it cannot be written', () => {
  mkdirSync(root, { recursive: true })
  writeFileSync(join(root, 'a-file'), '')
  const path = join(root, 'a-file', 'data')
  expect(() => DataDirectory.take(path)).toThrow(expect.objectContaining({ code: 'DATA_DIR_UNWRITABLE' }))
})

it('publishes the addresses while it is held', () => {
  const path = join(root, 'data')
  const held = DataDirectory.take(path)
  held.publishAddresses({ http: '127.0.0.1:1', pid: 7 })
  expect(JSON.parse(readFileSync(join(path, 'addresses.json'), 'utf8'))).toEqual({ http: '127.0.0.1:1', pid: 7 })
  held.release()
  expect(existsSync(join(path, 'addresses.json'))).toBe(false)
})

it('knows of a crash until an engine runs again, also when a start fails in between', () => {
  const path = join(root, 'data')
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'addresses.json'), '{}')
  const failed = DataDirectory.take(path)
  expect({ wasLeftOpen: failed.wasLeftOpen, files: existsSync(join(path, 'addresses.json')) }).toEqual({
    wasLeftOpen: true,
    files: false,
  })
  failed.release()
  const recovered = DataDirectory.take(path)
  expect(recovered.wasLeftOpen).toBe(true)
  recovered.publishAddresses({ pid: 1 })
  recovered.release()
  const next = DataDirectory.take(path)
  expect(next.wasLeftOpen).toBe(false)
  next.release()
})

it('has one path, whichever way it was reached', () => {
  const path = join(root, 'data')
  mkdirSync(path, { recursive: true })
  symlinkSync(path, join(root, 'link'))
  const held = DataDirectory.take(join(root, 'link'))
  expect(held.path).toBe(path)
  held.release()
})

it('gives up where the system refuses to make a directory below one that exists', () => {
  expect(() => DataDirectory.take('/proc/kvtier/data')).toThrow(
    expect.objectContaining({ code: 'DATA_DIR_UNWRITABLE' }),
  )
})
