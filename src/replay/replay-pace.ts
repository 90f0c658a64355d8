import type { Clock, ManualClock } from '../core/clock.ts'

/** How time passes in a replay. Times are readings of the engine's clock, in ms. */
export interface Pace {
  readonly clock: Clock
  /** Trace milliseconds that pass in one millisecond of the clock. */
  readonly speed: number
  /** Requests wait for each other: one is over before the next begins. */
  readonly isSequential: boolean
  /** Lets time pass until then; work that falls due on the way is done. */
  until(timeMs: number): Promise<void> | undefined
  /** Lets time pass until the condition holds: for answers that come from real storage. */
  when(condition: () => boolean): Promise<void>
  /** Lets other work of this thread have its turn. */
  breathe(): Promise<void>
}

/** The time of the wall, at N times the speed of the trace. */
export class RealPace implements Pace {
  readonly clock: Clock
  readonly speed: number
  readonly isSequential = false

  constructor(clock: Clock, speed: number) {
    this.clock = clock
    this.speed = speed
  }

  async until(timeMs: number): Promise<void> {
    const delayMs = timeMs - this.clock.nowMs()
    if (delayMs > 0) await new Promise<void>((resolve) => this.clock.schedule(delayMs, resolve))
    else await this.breathe()
  }

  async when(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.clock.schedule(1, resolve))
  }

  breathe(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve))
  }
}

/**
 * Virtual time: it jumps from one thing due to the next. While something real is awaited (storage), it flows as
 * fast as the wall's, so that no deadline of the engine passes sooner than it would in service.
 */
export class VirtualPace implements Pace {
  readonly clock: ManualClock
  readonly speed = 1
  readonly isSequential: boolean
  readonly #wall: Clock
  readonly #isStoragePending: () => boolean

  constructor(clock: ManualClock, wall: Clock, isSequential: boolean, isStoragePending: () => boolean) {
    this.clock = clock
    this.#wall = wall
    this.isSequential = isSequential
    this.#isStoragePending = isStoragePending
  }

  until(timeMs: number): Promise<void> | undefined {
    if (this.#isStoragePending()) return this.when(() => this.clock.nowMs() >= timeMs, timeMs)
    this.clock.advanceTo(timeMs)
    return undefined
  }

  async when(condition: () => boolean, latestMs = Number.POSITIVE_INFINITY): Promise<void> {
    while (!condition()) {
      if (this.#isStoragePending()) await this.#flow(latestMs)
      else this.clock.advanceTo(Math.min(latestMs, this.clock.nextDueMs()))
    }
  }

  breathe(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve))
  }

  /** One turn of the event loop, in which time passes as it does outside. */
  async #flow(latestMs: number): Promise<void> {
    const startMs = this.#wall.nowMs()
    await this.breathe()
    const elapsedMs = this.#wall.nowMs() - startMs
    this.clock.advanceTo(Math.min(latestMs, this.clock.nowMs() + elapsedMs))
  }
}
