import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
