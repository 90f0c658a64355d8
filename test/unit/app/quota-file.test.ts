import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { QuotaFile } from '../../../src/app/quota-file.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-quotas-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const QUOTAS = [
  { salt: '', l1Bytes: 5, l2Bytes: undefined },
  { salt: '😀 "x"', l1Bytes: undefined, l2Bytes: 0 },
  { salt: 'big', l1Bytes: Number.MAX_SAFE_INTEGER, l2Bytes: 7 },
]

it('reads what it wrote, and nothing where there is no file', async () => {
  const file = new QuotaFile(directory)
  expect(file.read()).toEqual([])
  await file.write(QUOTAS)
  expect(new QuotaFile(directory).read()).toEqual(QUOTAS)
  expect(statSync(join(directory, 'quotas.json')).mode & 0o777).toBe(0o600)
  await file.write([])
  expect(file.read()).toEqual([])
  expect(readdirSync(directory)).toEqual(['quotas.json'])
})

it('keeps the old quotas when a write did not end', async () => {
  const file = new QuotaFile(directory)
  await file.write(QUOTAS)
  writeFileSync(join(directory, 'quotas.json.tmp'), '{"version":1,"quo')
  expect(file.read()).toEqual(QUOTAS)
})

it.each([
  'no json',
  '[]',
  '{"version":2,"quotas":[]}',
  '{"version":1,"quotas":[{"l1_bytes":1}]}',
  '{"version":1,"quotas":[{"cache_salt":"a/b"}]}',
  '{"version":1,"quotas":[{"cache_salt":"a","l1_bytes":-1}]}',
  '{"version":1,"quotas":[{"cache_salt":"a","l2_bytes":1.5}]}',
])('refuses a file of %s, and says which file', (contents) => {
  const path = join(directory, 'quotas.json')
  writeFileSync(path, contents)
  expect(() => new QuotaFile(directory).read()).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
  expect(() => new QuotaFile(directory).read()).toThrow(path)
  expect(readFileSync(path, 'utf8')).toBe(contents)
})

it('tells when it cannot write', async () => {
  const file = new QuotaFile(join(directory, 'absent'))
  await expect(file.write([])).rejects.toThrow(expect.objectContaining({ code: 'DATA_DIR_UNWRITABLE' }))
})
