import { SystemClock } from '../../src/core/clock.ts'
import { FaultAdapter } from '../../src/l2/adapters/fault/fault-adapter.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { FILESYSTEM_DEFAULT, MEMORY_DEFAULT } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import { SPACE, temporaryDirectory } from '../support/l2-objects.ts'
import { l2AdapterContract, remote, type Subject } from './l2-adapter-contract.ts'

const memory: Subject = {
  objectBytes: SPACE.shardBytes,
  make: (capacityBytes) => ({
    adapter: new MemoryAdapter({ ...MEMORY_DEFAULT, capacityBytes }),
    dispose: () => undefined,
  }),
}

const filesystem: Subject = {
  objectBytes: HEADER_BYTES + SPACE.shardBytes,
  make: (capacityBytes) => {
    const directory = temporaryDirectory()
    const options = { ...FILESYSTEM_DEFAULT, directory: directory.path, capacityBytes }
    const adapter = new FilesystemAdapter(options, { clock: new SystemClock(), lock: lockFile })
    return { adapter, dispose: directory.remove }
  },
}

/** What a fault injector does while it injects nothing. */
const fault: Subject = {
  objectBytes: memory.objectBytes,
  make: (capacityBytes) => {
    const { adapter, dispose } = memory.make(capacityBytes)
    const nextFault = () => ({ effect: 'none', delayMs: 0 }) as const
    return { adapter: new FaultAdapter(adapter, { clock: new SystemClock(), nextFault }), dispose }
  },
}

const SUBJECTS: Record<string, Subject> = {
  memory,
  filesystem,
  fault,
  'remote memory': remote(memory, MEMORY_DEFAULT),
  'remote filesystem': remote(filesystem, { ...FILESYSTEM_DEFAULT, directory: '' }),
  'remote memory, from the arena,': remote(memory, MEMORY_DEFAULT, new Uint8Array(new SharedArrayBuffer(1 << 20))),
  'remote filesystem, from the arena,': remote(
    filesystem,
    { ...FILESYSTEM_DEFAULT, directory: '' },
    new Uint8Array(new SharedArrayBuffer(1 << 20), 512),
  ),
}

for (const [name, subject] of Object.entries(SUBJECTS)) l2AdapterContract(name, subject)
