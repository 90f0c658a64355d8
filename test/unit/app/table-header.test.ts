import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readHeader, type TableHeader, whyForeign, writeHeader } from '../../../src/app/table-header.ts'

const HEADER: TableHeader = {
  version: 2,
  uuid: 'a-uuid',
  bootId: 'a-boot',
  segmentInode: '1',
  indexInode: '2',
  startMs: 5,
  options: { '--l1-size': 1024, '--l1-leases': 16 },
}

it('is read as it was written', () => {
  const directory = mkdtempSync(join(tmpdir(), 'kvtier-header-'))
  const page = new Uint8Array(4096).fill(7)
  writeHeader(page, HEADER)
  writeFileSync(join(directory, 'index'), page)
  const found = readHeader(join(directory, 'index'))
  rmSync(directory, { recursive: true })
  expect(found).toEqual(HEADER)
})

it.each<[string, Partial<TableHeader>, string | undefined]>([
  ['the same', {}, undefined],
  ['a layout of another version', { version: 1 }, 'another version of kvtier wrote its tables'],
  ['another directory', { uuid: 'b-uuid' }, 'its tables are those of another data directory'],
  ['another run of the machine', { bootId: 'b-boot' }, 'the machine was restarted since'],
  ['a start that lies ahead', { startMs: 11 }, 'the clock of this machine went back'],
  ['other sizes', { options: { '--l1-size': 2048, '--l1-leases': 16 } }, '--l1-size is 1KiB and was 2KiB'],
  ['fewer options', { options: { '--l1-size': 1024 } }, '--l1-leases is 16 and was unknown'],
])('tables of %s', (_name, change, why) => {
  expect(whyForeign({ ...HEADER, ...change }, HEADER, 10)).toBe(why)
})
