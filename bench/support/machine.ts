import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'

/** What a result was measured on. Ratios of one run can be compared between machines, times cannot. */
export interface Machine {
  readonly processor: string
  readonly cores: number
  readonly memoryGib: number
  readonly node: string
  readonly kernel: string
  /** Load average of the last minute, when the bench began. */
  readonly load: number
}

export function thisMachine(): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGib: Math.round(totalmem() / 1024 ** 3),
    node: process.versions.node,
    kernel: process.platform,
    load: Number(loadavg()[0]!.toFixed(1)),
  }
}
