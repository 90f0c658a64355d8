// Opens the L2 directory argv[2], with argv[3] as its capacity in bytes, and stores chains chosen by the seed argv[4]
// until killed, or until its file call argv[7] of the kind argv[8], before which it kills itself: to unlink it removes
// what it stored. argv[5]: durability. argv[6]: what moves the objects; the calls of the addon are counted by a library
// that is preloaded. Prints "open", then a line for each batch that was acknowledged: chain, from, to, outcomes.
import { appendFileSync, writeSync } from 'node:fs'
import { assert } from '../../../src/core/assert.ts'
import { SystemClock } from '../../../src/core/clock.ts'
import { DiskFiles } from '../../../src/l2/adapters/disk-files.ts'
import { FilesystemAdapter } from '../../../src/l2/adapters/filesystem.ts'
import { FILESYSTEM_DEFAULT } from '../../../src/l2/options.ts'
import { lockFile } from '../../../src/native/file-lock.ts'
import { nativeFiles } from '../../../src/native/whole-files.ts'
import { faultDisk } from '../fault-disk.ts'
import { CRASH_SPACE, chainBatch, NEVER, storeChain } from '../l2-objects.ts'
import { random } from '../random.ts'
import type { FileWayName } from '../whole-files.ts'

const [directory, capacity, seed, durability, way, crashAt, crashCall] = process.argv.slice(2) as [
  string,
  string,
  string,
  'fsync' | 'checksum',
  FileWayName,
  string?,
  string?,
]
let calls = 0
const disk = faultDisk((call, path) => {
  if (call === crashCall) calls += 1
  if (call === crashCall && calls === Number(crashAt)) {
    if (call === 'writev' || call === 'appendFile') appendFileSync(path, Buffer.alloc(9999, '+')) // a torn write
    process.kill(process.pid, 'SIGKILL')
  }
  return undefined
})
const options = { ...FILESYSTEM_DEFAULT, directory, durability, capacityBytes: Number(capacity), parallelism: 4 }
const whole = way === 'the addon' ? nativeFiles() : new DiskFiles(disk)
assert(whole !== null, 'there is no addon')
const adapter = new FilesystemAdapter(options, { clock: new SystemClock(), lock: lockFile, disk, whole })
await adapter.open()
writeSync(1, 'open\n')
const next = random(Number(seed))
for (;;) {
  const chain = next(100)
  const to = 1 + next(6)
  const outcomes = await storeChain(adapter, chain, 0, to, CRASH_SPACE)
  writeSync(1, `${chain} 0 ${to} ${outcomes.join('')}\n`)
  if (crashCall === 'unlink') await adapter.remove(chainBatch(CRASH_SPACE, chain, 0, to), NEVER)
}
