import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { loadPosix } from '../../src/native/posix.ts'

const PROT_READ_WRITE = 3
const MAP_SHARED = 1
const MADV_POPULATE_WRITE = 23

/** A segment of another process in shared memory, every page of it mapped, as a worker of an inference server has it. */
export function mapSegment({ name, bytes }: { readonly name: string; readonly bytes: number }): Uint8Array {
  const posix = loadPosix()
  if (typeof posix === 'string') throw new Error(posix)
  const file = openSync(join('/dev/shm', name.replace(/^\//, '')), 'r+')
  const address = posix.mmap(0, bytes, PROT_READ_WRITE, MAP_SHARED, file, 0)
  closeSync(file)
  if (address < 0) throw new Error(`mmap failed with error ${posix.errno()}`)
  posix.madvise(address, bytes, MADV_POPULATE_WRITE)
  return new Uint8Array(posix.view(BigInt(address), bytes))
}
