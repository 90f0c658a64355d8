import type { MachineFacts } from '../../src/config/fields.ts'

/** A machine of round numbers: 8 GiB free memory, 4 GiB free shared memory, 100 GiB free disk, 2 CPUs. */
export const TEST_MACHINE: MachineFacts = {
  availableMemoryBytes: 8 * 1024 ** 3,
  freeSharedMemoryBytes: 4 * 1024 ** 3,
  cpus: 2,
  workingDirectory: '/home/someone',
  hostName: 'machine-one',
  freeDiskBytes: () => 100 * 1024 ** 3,
  keptL1Bytes: () => 0,
}
