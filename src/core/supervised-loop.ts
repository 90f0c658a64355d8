import type { Clock, Timer } from './clock.ts'

export interface LoopOptions {
  readonly name: string
  /** Between two cycles; a function is asked after each. */
  readonly intervalMs: number | (() => number)
  readonly clock: Clock
  /** One cycle. Synchronous and bounded; an exception is reported and the loop goes on. */
  readonly cycle: () => void
  readonly onError: (loop: string, error: unknown) => void
  /** Told the time of each finished cycle, good or bad: the heartbeat. */
  readonly onBeat: (nowMs: number) => void
}

/** A background loop that survives its own exceptions and can be woken early. */
export class SupervisedLoop {
  readonly #options: LoopOptions
  #timer: Timer | undefined
  #isWoken = false
  #isRunning = false

  constructor(options: LoopOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    this.#options.onBeat(this.#options.clock.nowMs())
    this.#arm(this.#intervalMs())
  }

  stop(): void {
    this.#isRunning = false
    this.#isWoken = false
    this.#timer?.cancel()
  }

  /** Runs a cycle as soon as the event loop is free. Any number of calls before it make one cycle. */
  wake(): void {
    if (!this.#isRunning || this.#isWoken) return
    this.#isWoken = true
    this.#timer?.cancel()
    this.#arm(0)
  }

  #arm(delayMs: number): void {
    this.#timer = this.#options.clock.schedule(delayMs, this.#run)
  }

  readonly #run = (): void => {
    this.#isWoken = false
    try {
      this.#options.cycle()
    } catch (error) {
      this.#options.onError(this.#options.name, error)
    }
    this.#options.onBeat(this.#options.clock.nowMs())
    if (this.#isRunning && !this.#isWoken) this.#arm(this.#intervalMs())
  }

  #intervalMs(): number {
    const { intervalMs } = this.#options
    return typeof intervalMs === 'number' ? intervalMs : intervalMs()
  }
}
