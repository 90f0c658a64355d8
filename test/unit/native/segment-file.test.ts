import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { SegmentFile } from '../../../src/native/segment-file.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-segment-'))
  writeFileSync(join(folder, 'segment'), new Uint8Array(100))
})
afterEach(() => rmSync(folder, { recursive: true }))

it('reads at any place what was written there', () => {
  const segment = SegmentFile.open('segment', folder)
  segment.write(90, Uint8Array.of(1, 2, 3))
  expect([...segment.read(89, 5)]).toEqual([0, 1, 2, 3, 0])
  segment.close()
})

it('refuses bytes behind the end', () => {
  const segment = SegmentFile.open('segment', folder)
  expect(() => segment.read(99, 2)).toThrow('it ends before 101')
  segment.close()
})

it.each(['none', '../segment', ''])('says that it cannot open %j', (name) => {
  expect(() => SegmentFile.open(name, folder)).toThrow('cannot be used')
})
