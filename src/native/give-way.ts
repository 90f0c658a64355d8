import { loadPosix } from './posix.ts'

/**
 * Lets threads that wait for this thread's processor go first (`sched_yield`); under a microsecond when none does. For
 * a thread that has just handed something to another one and has much to do: the kernel often wakes that other one on
 * the same processor, where it would wait for its turn. Does nothing where the call is not to be had.
 */
export function giveWay(): void {
  const posix = loadPosix()
  if (typeof posix !== 'string') posix.schedYield()
}
