import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { OUTCOME_FULL, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { FILESYSTEM_DEFAULT } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import { bytesOf, CRASH_SPACE, filesBelow, loadChain, objectFiles, storeChain } from '../support/l2-objects.ts'
import { smallDisk } from '../support/small-disk.ts'
import { FILE_WAYS, wholeFilesOf } from '../support/whole-files.ts'

it.for(FILE_WAYS)(
  'a disk that is really full ends stores as full, leaves nothing half-written, and serves what it has (%s)',
  async (way, context) => {
    const whole = await wholeFilesOf(way, context)
    const disk = smallDisk(1 << 20)
    if (disk === undefined) return context.skip('needs the right to mount a small tmpfs')
    const options = { ...FILESYSTEM_DEFAULT, directory: join(disk.path, 'l2') }
    const adapter = new FilesystemAdapter(options, { clock: new SystemClock(), lock: lockFile, whole })
    try {
      await adapter.open()
      const outcomes: number[] = []
      for (let chain = 0; chain < 10; chain += 1)
        outcomes.push(...(await storeChain(adapter, chain, 0, 4, CRASH_SPACE)))
      expect(new Set(outcomes)).toEqual(new Set([OUTCOME_OK, OUTCOME_FULL]))
      const files = objectFiles(options.directory)
      expect(adapter.usage()).toMatchObject({ bytes: bytesOf(files), objects: files.length })
      expect(filesBelow(join(options.directory, 'tmp'))).toEqual([])
      adapter.verify()
      const stored = outcomes.flatMap((outcome, at) => (outcome === OUTCOME_OK ? [at] : []))
      expect(files).toHaveLength(stored.length)
      for (const at of stored) {
        expect(await loadChain(adapter, at >> 2, at & 3, (at & 3) + 1, CRASH_SPACE)).toEqual([OUTCOME_OK])
      }

      // Room again: stores go on by themselves.
      await adapter.clear({}, new AbortController().signal)
      expect(await storeChain(adapter, 1, 0, 4, CRASH_SPACE)).toEqual(Array(4).fill(OUTCOME_OK))
      await adapter.close()
      writeFileSync(join(disk.path, 'ballast'), Buffer.alloc(100_000))
      await adapter.open()
      expect(await loadChain(adapter, 1, 0, 4, CRASH_SPACE)).toEqual(Array(4).fill(OUTCOME_OK))
    } finally {
      await adapter.close()
      disk.remove()
    }
  },
)
