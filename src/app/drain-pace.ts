/** Events that a drain should find: waking up for it costs as much as some hundred of them. */
const EVENTS = 4_096
const LEAST_MS = 10
/** A ring of 65,536 events takes 1.6 million events a second to come about in this time. */
const MOST_MS = 40

/**
 * When the event bus is drained next: once about 4,096 events have come about at the rate of late. A drain that wakes up for
 * few finds that all it works on has left the caches since, which takes longer than its work.
 */
export class DrainPace {
  #delayMs = LEAST_MS

  /** Milliseconds until the next drain, 10 to 40. */
  get delayMs(): number {
    return this.#delayMs
  }

  /** @param delivered events that the last drain found. */
  note(delivered: number): void {
    const untilEnoughMs = Math.round((this.#delayMs * EVENTS) / Math.max(1, delivered))
    this.#delayMs = Math.min(MOST_MS, Math.max(LEAST_MS, untilEnoughMs))
  }
}
