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

class ManualTimer implements Timer {
  readonly dueMs: number
  readonly order: number
  readonly callback: () => void
  readonly #clock: ManualTimers

  constructor(clock: ManualTimers, dueMs: number, order: number, callback: () => void) {
    this.#clock = clock
    this.dueMs = dueMs
    this.order = order
    this.callback = callback
  }

  cancel(): void {
    this.#clock.remove(this)
  }
}

/** Pending timers in no order: there are few, and a replay sets hundreds of thousands of them. */
class ManualTimers {
  readonly #timers: ManualTimer[] = []
  #order = 0
  /** When the next timer is due, or Infinity. */
  nextDueMs = Number.POSITIVE_INFINITY

  add(dueMs: number, callback: () => void): Timer {
    const timer = new ManualTimer(this, dueMs, this.#order++, callback)
    this.#timers.push(timer)
    if (dueMs < this.nextDueMs) this.nextDueMs = dueMs
    return timer
  }

  remove(timer: ManualTimer): void {
    const at = this.#timers.indexOf(timer)
    if (at < 0) return
    this.#timers[at] = this.#timers.at(-1)!
    this.#timers.pop()
    if (timer.dueMs === this.nextDueMs) this.nextDueMs = this.#first()?.dueMs ?? Number.POSITIVE_INFINITY
  }

  /** Takes the timer that is due first; of those due at once, the one set first. */
  take(): ManualTimer {
    const first = this.#first()!
    this.remove(first)
    return first
  }

  #first(): ManualTimer | undefined {
    let first = this.#timers[0]
    for (let at = 1; at < this.#timers.length; at += 1) {
      const timer = this.#timers[at]!
      const isEarlier = timer.dueMs < first!.dueMs || (timer.dueMs === first!.dueMs && timer.order < first!.order)
      if (isEarlier) first = timer
    }
    return first
  }
}

/** A clock that moves only when told to: tests, and replays on virtual time. */
export class ManualClock implements Clock {
  #nowMs: number
  readonly #wallOffsetMs: number
  readonly #timers = new ManualTimers()

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
    return this.#timers.add(this.#nowMs + Math.max(0, delayMs), callback)
  }

  /** When the next timer is due, or Infinity. */
  nextDueMs(): number {
    return this.#timers.nextDueMs
  }

  /** Moves time forward and runs every timer that falls due on the way, in order, at its own time. */
  advance(byMs: number): void {
    this.advanceTo(this.#nowMs + byMs)
  }

  /** As `advance`, to an absolute reading of `nowMs`. A time in the past runs only what is due already. */
  advanceTo(targetMs: number): void {
    while (this.#timers.nextDueMs <= targetMs) {
      const timer = this.#timers.take()
      this.#nowMs = Math.max(this.#nowMs, timer.dueMs)
      timer.callback()
    }
    this.#nowMs = Math.max(this.#nowMs, targetMs)
  }
}
