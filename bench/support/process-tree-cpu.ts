import { readdirSync, readFileSync } from 'node:fs'

/** CPU time that processes have taken, in milliseconds; Linux counts it in ticks of 10. */
export interface TreeCpu {
  /** Of the process itself, all its threads. */
  ownMs: number
  /** Of the processes that it started and that still run. */
  childrenMs: number
}

const TICK_MS = 10

/** CPU time of a process and of its children, as /proc tells it. @throws Error where there is no /proc */
export function processTreeCpu(pid: number): TreeCpu {
  let childrenMs = 0
  for (const name of readdirSync('/proc')) {
    const child = /^\d+$/.test(name) ? readProcess(Number(name)) : null
    if (child?.parent === pid) childrenMs += child.cpuMs
  }
  const own = readProcess(pid)
  if (own === null) throw new Error(`there is no process ${pid}`)
  return { ownMs: own.cpuMs, childrenMs }
}

function readProcess(pid: number): { readonly parent: number; readonly cpuMs: number } | null {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return null // it has ended
  }
  // The name may have spaces and brackets in it; what follows has none.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { parent: Number(fields[1]), cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS }
}
