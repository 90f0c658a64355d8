import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import type { CommandCall } from '../../../src/cli/command.ts'
import { tokenOf } from '../../../src/cli/token-file-option.ts'

const directory = mkdtempSync(join(tmpdir(), 'kvtier-token-'))
const path = join(directory, 'token')
afterAll(() => rmSync(directory, { recursive: true }))

const callWith = (options: CommandCall['options']) => ({ options }) as CommandCall

it('is what the file holds, without the white space around it', () => {
  expect(tokenOf(callWith({}))).toBeUndefined()
  writeFileSync(path, '  kvt_abc\r\n')
  expect(tokenOf(callWith({ 'token-file': path }))).toBe('kvt_abc')
})

it.each(['', ' \n', 'kvt_secret\nkvt_other', 'kvt_secret\u20ac'])('a file that holds %j is refused, unseen', (text) => {
  writeFileSync(path, text)
  const read = () => tokenOf(callWith({ 'token-file': path }))
  expect(read).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', detail: { field: '--token-file' } }))
  expect(read).not.toThrow(/secret/)
})

it('a file that is not there is refused with the reason', () => {
  expect(() => tokenOf(callWith({ 'token-file': join(directory, 'absent') }))).toThrow(/ENOENT/)
})
