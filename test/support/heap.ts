import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes of heap that `work` allocates, as long as it is too little for a collection to fall into it. */
export function heapGrowthBytes(work: () => void): number {
  collect()
  collect()
  const before = process.memoryUsage().heapUsed
  work()
  return process.memoryUsage().heapUsed - before
}

/** Bytes in use after a collection, buffers included. */
export function usedMemoryBytes(): number {
  collect()
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
