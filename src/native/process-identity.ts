import { readFileSync } from 'node:fs'

/**
 * One process of this machine, whatever comes after it under its number: `startTicks` is when it began, in ticks since
 * the machine did (field 22 of /proc/PID/stat).
 */
export interface ProcessIdentity {
  readonly pid: number
  readonly startTicks: number
}

const STATE_FIELD = 0
const START_FIELD = 19
/** It has given up its memory and its devices, and waits for its parent. */
const ENDED_STATES = ['Z', 'X', 'x']

/** Whether that very process runs, seen from here. False also for one that this process cannot see. */
export function isRunning({ pid, startTicks }: ProcessIdentity): boolean {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return false
  }
  // The name of the program stands in brackets and may hold any character.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[START_FIELD]) === startTicks && !ENDED_STATES.includes(fields[STATE_FIELD]!)
}
