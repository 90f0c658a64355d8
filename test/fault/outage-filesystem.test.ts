import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, type TestContext } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import type { WholeFiles } from '../../src/native/whole-files.ts'
import { type DiskFault, faultDisk } from '../support/fault-disk.ts'
import { objectFiles, temporaryDirectory } from '../support/l2-objects.ts'
import { DRILL_SHARD_BYTES, OutageDrill } from '../support/outage-drill.ts'
import { smallDisk } from '../support/small-disk.ts'
import { FILE_WAYS, type FileWayName, faultFiles, wholeFilesOf } from '../support/whole-files.ts'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** @param whole moves the objects, failing as `fault` says; absent, the calls of the disk that fails so do. */
async function start(
  directory: string,
  fault: DiskFault = () => undefined,
  options: Partial<FilesystemAdapterOptions> = {},
  whole?: WholeFiles,
) {
  const parts = { clock: new SystemClock(), lock: lockFile, disk: faultDisk(fault) }
  const adapter = new FilesystemAdapter(
    { ...FILESYSTEM_DEFAULT, directory, ...options },
    whole === undefined ? parts : { ...parts, whole: faultFiles(whole, fault) },
  )
  const drill = await OutageDrill.start(adapter, 2)
  cleanups.push(() => drill.stop())
  await drill.warms()
  return { drill, adapter }
}

function folder(): string {
  const directory = temporaryDirectory()
  cleanups.push(directory.remove)
  return directory.path
}

/** What `start` moves objects with. */
async function moversOf(way: FileWayName, context: TestContext): Promise<WholeFiles | undefined> {
  return way === 'node:fs' ? undefined : wholeFilesOf(way, context)
}

describe.each([
  ['fsync', 'node:fs'],
  ['checksum', 'node:fs'],
  ['fsync', 'the addon'],
  ['checksum', 'the addon'],
] as const)('traffic goes on over a disk (%s, %s)', (durability, way) => {
  it.for(['EIO', 'ENOSPC', 'EACCES'])(
    'that answers %s to everything, and the disk is used again',
    async (code, context) => {
      let isDown = false
      const fault: DiskFault = (call) => (isDown && call !== 'close' ? code : undefined)
      const { drill, adapter } = await start(folder(), fault, { durability }, await moversOf(way, context))
      isDown = true
      await drill.traffic(60)
      isDown = false
      await drill.recovers()
      await drill.rests()
      adapter.verify()
    },
  )

  it('that hangs in every call, and the disk is used again', async (context) => {
    let gate = Promise.resolve()
    const { drill, adapter } = await start(
      folder(),
      () => gate.then(() => undefined),
      { durability },
      await moversOf(way, context),
    )
    const hung = Promise.withResolvers<void>()
    cleanups.push(() => hung.resolve())
    gate = hung.promise
    await drill.traffic(60)
    hung.resolve()
    await drill.recovers()
    await drill.rests()
    adapter.verify()
  })

  it('whose objects somebody deletes', async (context) => {
    const directory = folder()
    const { drill, adapter } = await start(directory, undefined, { durability }, await moversOf(way, context))
    for (const { path } of objectFiles(directory)) rmSync(path)
    await drill.traffic(60)
    await drill.recovers()
    await drill.rests()
    adapter.verify()
  })

  it('whose objects somebody overwrites', async (context) => {
    const directory = folder()
    const { drill, adapter } = await start(directory, undefined, { durability }, await moversOf(way, context))
    for (const { path } of objectFiles(directory)) {
      writeFileSync(path, Buffer.alloc(HEADER_BYTES + DRILL_SHARD_BYTES, 7))
    }
    await drill.traffic(60)
    await drill.recovers()
    await drill.rests()
    expect(adapter.usage().checksumFailures).toBeGreaterThan(0)
    adapter.verify()
  })
})

it.for(FILE_WAYS)(
  'traffic goes on over a disk that is full, and stores go on once there is room (%s)',
  async (way, context) => {
    const disk = smallDisk(8 * 1024 * 1024)
    if (disk === undefined) return context.skip('needs the right to mount a small tmpfs')
    cleanups.push(disk.remove)
    const { drill, adapter } = await start(join(disk.path, 'l2'), undefined, {}, await moversOf(way, context))
    await adapter.clear({}, new AbortController().signal)
    const ballast = join(disk.path, 'ballast')
    try {
      writeFileSync(ballast, Buffer.alloc(16 * 1024 * 1024))
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENOSPC' })
    }
    await drill.traffic(60)
    rmSync(ballast)
    await drill.recovers()
    await drill.rests()
    adapter.verify()
  },
)
