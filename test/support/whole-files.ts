import * as fsPromises from 'node:fs/promises'
import type { TestContext } from 'vitest'
import { DiskFiles } from '../../src/l2/adapters/disk-files.ts'
import { NativeFiles, type WholeFiles } from '../../src/native/whole-files.ts'
import { addonOf } from './addon.ts'
import type { DiskFault } from './fault-disk.ts'

/** What moves files of objects. */
export const FILE_WAYS = ['node:fs', 'the addon'] as const

export type FileWayName = (typeof FILE_WAYS)[number]

/** One of them, over the machine's files. Without a compiler a test of the addon is skipped; in CI it fails. */
export async function wholeFilesOf(name: FileWayName, context: TestContext): Promise<WholeFiles> {
  return name === 'node:fs' ? new DiskFiles(fsPromises) : new NativeFiles(await addonOf(context))
}

/** Files whose moves fail on purpose: a `DiskFault` is told `create`, `overwrite` and `read` before they happen. */
export function faultFiles(files: WholeFiles, fault: DiskFault): WholeFiles {
  const check = async (call: string, path: string) => {
    const code = await fault(call, path)
    if (code !== undefined) throw Object.assign(new Error(`${code} on purpose`), { code })
  }
  return {
    create: async (path, pieces, name, way) => {
      await check('create', path)
      return files.create(path, pieces, name, way)
    },
    overwrite: async (path, pieces, name, way) => {
      await check('overwrite', path)
      return files.overwrite(path, pieces, name, way)
    },
    read: async (path, pieces, way) => {
      await check('read', path)
      return files.read(path, pieces, way)
    },
  }
}
