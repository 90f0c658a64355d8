import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import { type DiskFault, faultDisk } from '../support/fault-disk.ts'
import { objectFiles, temporaryDirectory } from '../support/l2-objects.ts'
import { DRILL_SHARD_BYTES, OutageDrill } from '../support/outage-drill.ts'
import { smallDisk } from '../support/small-disk.ts'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(directory: string, fault?: DiskFault, options: Partial<FilesystemAdapterOptions> = {}) {
  const parts = { clock: new SystemClock(), lock: lockFile }
  const adapter = new FilesystemAdapter(
    { ...FILESYSTEM_DEFAULT, directory, ...options },
    fault === undefined ? parts : { ...parts, disk: faultDisk(fault) },
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

describe.each(['fsync', 'checksum'] as const)('traffic goes on over a disk (%s)', (durability) => {
  it.each(['EIO', 'ENOSPC', 'EACCES'])('that answers %s to everything, and the disk is used again', async (code) => {
    let isDown = false
    const { drill, adapter } = await start(folder(), (call) => (isDown && call !== 'close' ? code : undefined), {
      durability,
    })
    isDown = true
    await drill.traffic(60)
    isDown = false
    await drill.recovers()
    await drill.rests()
    adapter.verify()
  })

  it('that hangs in every call, and the disk is used again', async () => {
    let gate = Promise.resolve()
    const { drill, adapter } = await start(folder(), () => gate.then(() => undefined), { durability })
    const hung = Promise.withResolvers<void>()
    cleanups.push(() => hung.resolve())
    gate = hung.promise
    await drill.traffic(60)
    hung.resolve()
    await drill.recovers()
    await drill.rests()
    adapter.verify()
  })

  it('whose objects somebody deletes', async () => {
    const directory = folder()
    const { drill, adapter } = await start(directory, undefined, { durability })
    for (const { path } of objectFiles(directory)) rmSync(path)
    await drill.traffic(60)
    await drill.recovers()
    await drill.rests()
    adapter.verify()
  })

  it('whose objects somebody overwrites', async () => {
    const directory = folder()
    const { drill, adapter } = await start(directory, undefined, { durability })
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

it('traffic goes on over a disk that is full, and stores go on once there is room', async (context) => {
  const disk = smallDisk(8 * 1024 * 1024)
  if (disk === undefined) return context.skip('needs the right to mount a small tmpfs')
  cleanups.push(disk.remove)
  const { drill, adapter } = await start(join(disk.path, 'l2'))
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
})
