import { createRequire } from 'node:module'

type Koffi = typeof import('koffi')

const PROCESS = 2
const THREAD = 3
const SECOND_NS = 1e9

const gettime = load()
const time = new BigInt64Array(2)

/**
 * CPU time of this thread, in nanoseconds. `process.threadCpuUsage` moves only when the system's clock ticks, every 1 to 10
 * milliseconds, as Linux keeps it; this reads the thread's own clock. Takes half a microsecond.
 */
export function threadCpuNs(): number {
  return read(THREAD) ?? sumNs(process.threadCpuUsage())
}

/** CPU time of all threads of this process, in nanoseconds. */
export function processCpuNs(): number {
  return read(PROCESS) ?? sumNs(process.cpuUsage())
}

function read(clock: number): number | null {
  if (gettime === null || gettime(clock, time) !== 0) return null
  return Number(time[0]!) * SECOND_NS + Number(time[1]!)
}

function sumNs({ user, system }: NodeJS.CpuUsage): number {
  return (user + system) * 1_000
}

function load(): ((clock: number, time: BigInt64Array) => number) | null {
  if (process.platform !== 'linux') return null
  try {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi
    return koffi.load(null).func('int clock_gettime(int clock, void *time)')
  } catch {
    return null
  }
}
