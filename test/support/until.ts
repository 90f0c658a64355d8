import { setTimeout as pause } from 'node:timers/promises'

/**
 * Asks again and again until `attempt` gives a value, for what happens in other processes.
 *
 * @throws Error naming `what` after `deadlineMs`, with the last error of an attempt as its cause.
 */
export async function until<Value>(
  what: string,
  attempt: () => Promise<Value | undefined> | Value | undefined,
  deadlineMs = 45_000,
): Promise<Value> {
  const endMs = performance.now() + deadlineMs
  let cause: unknown
  while (performance.now() < endMs) {
    try {
      const value = await attempt()
      if (value !== undefined) return value
    } catch (error) {
      cause = error
    }
    await pause(50)
  }
  throw new Error(`not in ${deadlineMs} ms: ${what}`, { cause })
}
