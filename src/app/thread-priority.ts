import { readlinkSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { setPriority } from 'node:os'

/** As the tokenizer processes: about a third of the processor when another thread wants all of it. */
const NICENESS = 5

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
  } catch {
    // The system shows no threads: this one runs like the others.
  }
}
