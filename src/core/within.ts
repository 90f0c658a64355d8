import type { Clock } from './clock.ts'

/** Whether a promise settles within `limitMs`. Rejects only as it does, and only in time. */
export async function within(clock: Clock, limitMs: number, promise: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>()
  const timer = clock.schedule(limitMs, () => late.resolve(false))
  try {
    return await Promise.race([promise.then(() => true), late.promise])
  } finally {
    timer.cancel()
  }
}
