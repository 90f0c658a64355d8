import { afterEach, beforeEach, expect } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import { type DiskFault, faultDisk } from './fault-disk.ts'
import { bytesOf, hashOf, objectFiles, temporaryDirectory } from './l2-objects.ts'

/** A fresh directory for each test of a file, and filesystem adapters on it, closed afterwards. */
export function useL2Directory() {
  let opened: FilesystemAdapter[] = []
  let remove: () => void
  const directory = {
    path: '',

    async open(options: Partial<FilesystemAdapterOptions> = {}, fault?: DiskFault): Promise<FilesystemAdapter> {
      const parts = { clock: new SystemClock(), lock: lockFile }
      const adapter = new FilesystemAdapter(
        { ...FILESYSTEM_DEFAULT, directory: directory.path, ...options },
        fault === undefined ? parts : { ...parts, disk: faultDisk(fault) },
      )
      opened.push(adapter)
      await adapter.open()
      return adapter
    },

    async close(): Promise<void> {
      for (const adapter of opened.splice(0)) await adapter.close()
    },

    /** Closes what is open and opens a new adapter. */
    async reopen(options: Partial<FilesystemAdapterOptions> = {}): Promise<FilesystemAdapter> {
      await directory.close()
      return directory.open(options)
    },

    /** The file of chunk `index` of a chain. */
    fileOf(chain: number, index: number): string {
      const name = Buffer.from(hashOf(chain, index)).toString('hex')
      return objectFiles(directory.path).find(({ path }) => path.endsWith(name))!.path
    },

    expectExactUsage(adapter: FilesystemAdapter): void {
      const files = objectFiles(directory.path)
      expect(adapter.usage()).toMatchObject({ bytes: bytesOf(files), objects: files.length })
      adapter.verify()
    },
  }

  beforeEach(() => {
    const made = temporaryDirectory()
    directory.path = made.path
    remove = made.remove
    opened = []
  })

  afterEach(async () => {
    await directory.close()
    remove()
  })

  return directory
}
