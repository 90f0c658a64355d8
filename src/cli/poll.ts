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
  everyMs = POLL_MS,
): Promise<T> {
  const clock = new SystemClock()
  const keepAlive = new MessageChannel() // timers of the clock do not keep the process
  keepAlive.port1.ref()
  let isLeft = false
  let wake = (): void => undefined
  const unhook = onStopSignal(clock, () => {
    isLeft = true
    wake()
  })
  let last = first
  try {
    while (!isEnded(last) && !isLeft) {
      show(last)
      await new Promise<void>((resolve) => {
        wake = resolve
        clock.schedule(everyMs, resolve)
      })
      last = await ask()
    }
    return last
  } finally {
    unhook()
    keepAlive.port1.close()
  }
}
