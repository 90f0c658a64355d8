import { readFileSync, statfsSync, statSync } from 'node:fs'
import { availableParallelism, hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { MachineFacts } from './fields.ts'

/** What this machine has now. A container's memory limit counts. */
export function readMachineFacts(): MachineFacts {
  return {
    availableMemoryBytes: process.availableMemory(),
    freeSharedMemoryBytes: freeBytes('/dev/shm'),
    cpus: availableParallelism(),
    workingDirectory: process.cwd(),
    hostName: hostname(),
    freeDiskBytes: freeBytes,
    keptL1Bytes,
  }
}

/** Contents of a config file. */
export function readTextFile(path: string): string {
  return readFileSync(path, 'utf8')
}

/** `DATA_DIR/l1-memory.json` says; it may be older than this run of the machine, and what it names gone. */
function keptL1Bytes(dataDir: string): number {
  try {
    const { name, bytes } = JSON.parse(readFileSync(join(dataDir, 'l1-memory.json'), 'utf8'))
    return statSync(join('/dev/shm', name)).size === bytes ? bytes : 0
  } catch {
    return 0
  }
}

// Of the nearest directory that exists; 0 when none can be asked.
function freeBytes(path: string): number {
  for (let at = path; ; at = dirname(at)) {
    try {
      const facts = statfsSync(at)
      return facts.bavail * facts.bsize
    } catch {
      if (at === dirname(at)) return 0
    }
  }
}
