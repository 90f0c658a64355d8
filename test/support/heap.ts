import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes of heap that `work` leaves or churns through, without a collection in between being counted as free. */
export function heapGrowthBytes(work: () => void): number {
  collect()
  collect()
  const before = process.memoryUsage().heapUsed
  work()
  return process.memoryUsage().heapUsed - before
}
