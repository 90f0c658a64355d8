import { readlinkSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { setTimeSlice } from '../native/time-slice.ts'

/** As the tokenizer processes: about a third of the processor when another thread wants all of it. */
const NICENESS = 5

/** The shortest that there is: see `native/time-slice`. Others are usually given 1 to 3 ms. */
const SHORT_SLICE_MS = 0.1
/** Just above the 4 ms in which many kernels look at the clock. */
const LONG_SLICE_MS = 5

/**
 * Has the calling thread go, whenever it wakes, before threads that it shares a processor with: it is the one that others
 * wait for. Its share of the processor stays the same, and threads that it starts are ordinary ones.
 *
 * @returns why that is not to be had here, in one line; undefined = done.
 */
export function goBeforeOtherThreads(): string | undefined {
  return setTimeSlice({ milliseconds: SHORT_SLICE_MS, isInherited: false })
}

/**
 * For a thread that moves many bytes, and that nobody waits for directly: it gives way to others sooner, and then runs for
 * longer at a time. Its share of the processor stays the same. Does nothing where there are no such slices.
 */
export function takeLongTurns(): void {
  setTimeSlice({ milliseconds: LONG_SLICE_MS, isInherited: true })
}

/**
 * Lets threads of ordinary priority go before the calling one where processors are short. It cannot be taken back. Does
 * nothing where threads have no priority of their own.
 *
 * libuv's pool starts with the first file operation of the process, and its threads inherit the priority of whoever that
 * was. So this waits for one first: L2 must not be served with less.
 */
export async function yieldToOtherThreads(): Promise<void> {
  if (process.platform !== 'linux') return
  try {
    await stat('/')
    const [, , thread] = readlinkSync('/proc/thread-self').split('/') // PROCESS/task/THREAD
    setPriority(Number(thread), NICENESS)
    takeLongTurns()
  } catch {
    // The system shows no threads: this one runs like the others.
  }
}
