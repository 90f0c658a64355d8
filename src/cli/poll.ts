import { setTimeout as pause } from 'node:timers/promises'
import { SystemClock } from '../core/clock.ts'
import { onStopSignal } from './stop-signal.ts'

/** How often a running engine is asked how far something is. */
const POLL_MS = 200

/**
 * Asks until something has ended, or the user has had enough: then it goes on by itself.
 *
 * @param show told every answer that is not the last.
 * @returns the last answer.
 */
export async function poll<T>(
  first: T,
  isEnded: (answer: T) => boolean,
  ask: () => Promise<T>,
  show: (answer: T) => void,
): Promise<T> {
  const left = new AbortController()
  const unhook = onStopSignal(new SystemClock(), () => left.abort())
  let last = first
  try {
    while (!isEnded(last) && !left.signal.aborted) {
      show(last)
      await pause(POLL_MS, undefined, { signal: left.signal }).catch(() => undefined)
      last = await ask()
    }
    return last
  } finally {
    unhook()
  }
}
