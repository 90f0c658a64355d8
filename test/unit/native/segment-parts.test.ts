import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { CacheError } from '../../../src/core/errors.ts'
import { capability } from '../../../src/native/capability.ts'
import { openParts, type PartedSegment, partName, reopenParts } from '../../../src/native/segment-parts.ts'
import { attachSegment, openSegment, removeSegment } from '../../../src/native/shared-memory.ts'

const PAGE = 4096
const COUNT = 3
const opened: PartedSegment[] = []
let names = 0

function newName(): string {
  names += 1
  return `kvtier-parts-test-${process.pid}-${names}`
}

async function open(name = newName()): Promise<PartedSegment> {
  const segment = await openParts({ name, bytes: COUNT * 2 * PAGE, count: COUNT })
  opened.push(segment)
  return segment
}

afterEach(() => {
  for (const segment of opened.splice(0)) {
    segment.unlink()
    segment.close()
  }
})

describe.skipIf(!capability().sharedMemory.available)('parts of a segment', () => {
  it('lie one behind the other here, and are a file each for others', async () => {
    const segment = await open()
    const { memory, parts, handle } = segment
    expect(parts.map(({ address, bytes }) => [address - segment.address, bytes])).toEqual(
      [0n, 1n, 2n].map((part) => [part * BigInt(2 * PAGE), 2 * PAGE]),
    )
    const view = attachSegment(handle)
    for (let part = 0; part < COUNT; part += 1) memory.fill(part + 1, part * 2 * PAGE, (part + 1) * 2 * PAGE)
    for (const [part, { name }] of parts.entries()) {
      const bytes = readFileSync(`/dev/shm/${name}`)
      expect([bytes.length, new Set(bytes)]).toEqual([2 * PAGE, new Set([part + 1])])
      expect(statSync(`/dev/shm/${name}`).mode & 0o777).toBe(0o600)
    }
    expect(view[2 * PAGE]).toBe(2)
    expect(segment.isOnlyOurs()).toBe(true)
  })

  it('are found again as they were left', async () => {
    const name = newName()
    const first = await open(name)
    first.memory.fill(7, 3 * PAGE)
    first.close()
    const options = { name, bytes: COUNT * 2 * PAGE, count: COUNT, inode: first.inode }
    const second = (await reopenParts(options)) as PartedSegment
    opened.push(second)
    expect([second.memory[3 * PAGE - 1], second.memory[3 * PAGE], second.memory.at(-1)]).toEqual([0, 7, 7])
    expect(second.inode).toBe(first.inode)
    second.close()
    expect(second.memory).toHaveLength(0)
    expect(await reopenParts({ ...options, count: 2 })).toContain('another number of parts')
    removeSegment(partName(name, 1))
    expect(await reopenParts(options)).toContain('was removed')
  })

  it('leaves nothing behind when one cannot be made', async () => {
    const name = newName()
    const taken = await openSegment({ name: partName(name, 2), bytes: PAGE })
    const error = await open(name).catch((thrown: unknown) => thrown as CacheError)
    expect(error).toMatchObject({ code: 'SHARED_MEMORY_UNAVAILABLE' })
    expect([0, 1, 2].map((part) => existsSync(`/dev/shm/${partName(name, part)}`))).toEqual([false, false, true])
    taken.unlink()
    taken.close()
  })

  it('says that all of them together do not fit', async () => {
    const bytes = COUNT * 2 ** 48
    const directory = mkdtempSync(join(tmpdir(), 'kvtier-parts-'))
    const error = await openParts({ name: newName(), bytes, count: COUNT, directory }).catch(
      (thrown: unknown) => thrown,
    )
    expect(error).toMatchObject({ code: 'SHARED_MEMORY_TOO_SMALL', detail: { bytes } })
    rmSync(directory, { recursive: true })
  })
})
