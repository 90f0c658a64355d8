import type { Clock } from '../core/clock.ts'

const SIGNALS = ['SIGINT', 'SIGTERM'] as const
/** Signals that come this soon after the first are copies: npm passes on what the terminal has sent to all. */
const COPIES_MS = 1000

/**
 * Calls `onStop` at the first SIGINT or SIGTERM. A further one, unless it is a copy of the first, ends the process
 * at once with exit code 1.
 *
 * @returns takes the handlers away again.
 */
export function onStopSignal(clock: Clock, onStop: (signal: string) => void): () => void {
  let firstMs = Number.NaN
  const handle = (signal: string): void => {
    if (Number.isNaN(firstMs)) {
      firstMs = clock.nowMs()
      onStop(signal)
    } else if (clock.nowMs() - firstMs > COPIES_MS) process.exit(1)
  }
  for (const signal of SIGNALS) process.on(signal, handle)
  return () => SIGNALS.forEach((signal) => void process.off(signal, handle))
}
