import type { Clock } from '../core/clock.ts'
import type { AdapterFactories } from '../l2/adapter-host.ts'
import { FilesystemAdapter } from '../l2/adapters/filesystem.ts'
import { MemoryAdapter } from '../l2/adapters/memory.ts'
import { lockFile } from '../native/file-lock.ts'

/** How an io worker makes each type of adapter. Client libraries of storage servers are loaded by their first use. */
export function adapterFactories(clock: Clock): AdapterFactories {
  return {
    memory: (options) => new MemoryAdapter(options),
    filesystem: (options) => new FilesystemAdapter(options, { clock, lock: lockFile }),
  }
}
