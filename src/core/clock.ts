/** A pending callback of a `Clock`. Cancelling twice, or after it ran, does nothing. */
export interface Timer {
  cancel(): void
}

/** The only source of time below `app/`. One instance a thread; readings of all threads of a process agree. */
export interface Clock {
  /** Monotonic milliseconds, with fractions. */
  nowMs(): number
  /** Milliseconds since 1970 (UTC). Only for records that people read, never for durations. */
  wallMs(): number
  /** Runs `callback` once, `delayMs` from now or later. The timer does not keep the process alive. */
  schedule(delayMs: number, callback: () => void): Timer
}

/** The machine's clock. */
export class SystemClock implements Clock {
  // performance.now() counts from the start of its thread; hrtime from one moment of the machine.
  readonly #offsetMs = Number(process.hrtime.bigint()) / 1e6 - performance.now()

  nowMs(): number {
    return performance.now() + this.#offsetMs
  }

  wallMs(): number {
    return Date.now()
  }

  schedule(delayMs: number, callback: () => void): Timer {
    const handle = setTimeout(callback, delayMs)
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  }
}

interface ManualTimer extends Timer {
  readonly dueMs: number
  readonly order: number
  readonly callback: () => void
}

/** A clock that moves only when told to: tests, and replays on virtual time. */
export class ManualClock implements Clock {
  #nowMs: number
  readonly #wallOffsetMs: number
  readonly #timers = new Set<ManualTimer>()
  #order = 0

  constructor(startMs = 1_000_000, wallMs = 1_700_000_000_000) {
    this.#nowMs = startMs
    this.#wallOffsetMs = wallMs - startMs
  }

  nowMs(): number {
    return this.#nowMs
  }

  wallMs(): number {
    return this.#nowMs + this.#wallOffsetMs
  }

  schedule(delayMs: number, callback: () => void): Timer {
    const timer: ManualTimer = {
      dueMs: this.#nowMs + Math.max(0, delayMs),
      order: this.#order++,
      callback,
      cancel: () => this.#timers.delete(timer),
    }
    this.#timers.add(timer)
    return timer
  }

  /** When the next timer is due, or Infinity. */
  nextDueMs(): number {
    return this.#next()?.dueMs ?? Number.POSITIVE_INFINITY
  }

  /** Moves time forward and runs every timer that falls due on the way, in order, at its own time. */
  advance(byMs: number): void {
    this.advanceTo(this.#nowMs + byMs)
  }

  /** As `advance`, to an absolute reading of `nowMs`. A time in the past runs only what is due already. */
  advanceTo(targetMs: number): void {
    for (let timer = this.#next(); timer !== undefined && timer.dueMs <= targetMs; timer = this.#next()) {
      this.#timers.delete(timer)
      this.#nowMs = Math.max(this.#nowMs, timer.dueMs)
      timer.callback()
    }
    this.#nowMs = Math.max(this.#nowMs, targetMs)
  }

  #next(): ManualTimer | undefined {
    let first: ManualTimer | undefined
    for (const timer of this.#timers) {
      const isEarlier =
        first === undefined || timer.dueMs < first.dueMs || (timer.dueMs === first.dueMs && timer.order < first.order)
      if (isEarlier) first = timer
    }
    return first
  }
}
