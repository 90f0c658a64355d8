import { AdapterFileBook } from '../../src/app/adapter-book.ts'
import { loadConfig } from '../../src/config/load-config.ts'
import type { L2Adapter } from '../../src/l2/adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { JobTable } from '../../src/l2/jobs/job-table.ts'
import { MEMORY_DEFAULT } from '../../src/l2/options.ts'
import { StorageService } from '../../src/server/rpc/storage-service.ts'
import { LIMITS, makeSet } from './l2-set.ts'
import { TEST_MACHINE } from './machine.ts'

/**
 * External storage as operators see it, on one thread and a manual clock: the real service, book and jobs over
 * adapters in memory. The configuration has one adapter, `disk`; `attachDisk` attaches it.
 *
 * @param directory of the file that keeps what was added.
 */
export function makeStorage(directory: string) {
  const made = makeSet()
  const { set, clock } = made
  /** What the next adapters of these names are; a memory adapter each when absent. */
  const planned = new Map<string, L2Adapter>()
  const machine = { ...TEST_MACHINE, workingDirectory: directory }
  const argv = ['--data-dir', directory, '--l2', 'name=disk,type=memory,capacity=1GiB']
  const { options } = loadConfig({ argv, env: {}, machine, readFile: () => '' })
  const book = new AdapterFileBook({
    config: options,
    directory,
    env: () => undefined,
    make: ({ name }) => planned.get(name) ?? new MemoryAdapter(MEMORY_DEFAULT),
  })
  const jobs = new JobTable({ clock, adapters: set })
  const drains: { name: string; isDrained: boolean }[] = []
  const service = new StorageService({
    adapters: set,
    jobs,
    book,
    nowMs: () => clock.nowMs(),
    onDrained: (name, { isDrained }) => void drains.push({ name, isDrained }),
  })
  const attachDisk = (adapter: L2Adapter = new MemoryAdapter(MEMORY_DEFAULT)) => set.add('disk', adapter, LIMITS)
  return { ...made, service, book, jobs, drains, planned, attachDisk }
}
