import { Samples } from './samples.ts'

/** How late timers of this thread come, while it is started: the delay that everything else on the thread has too. */
export class LoopDelay {
  readonly #samples = new Samples()
  #timer: NodeJS.Timeout | undefined

  get count(): number {
    return this.#samples.count
  }

  start(): void {
    const wait = () => {
      const dueMs = performance.now() + 1
      this.#timer = setTimeout(() => {
        this.#samples.push(Math.max(0, performance.now() - dueMs))
        wait()
      }, 1)
    }
    wait()
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  /** Milliseconds below which a share of 0..1 of the delays lies, in steps of 0.01. */
  at(share: number): number {
    return Number(this.#samples.at(share).toFixed(2))
  }
}
