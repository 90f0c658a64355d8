import { assert } from '../core/assert.ts'

interface Waiter {
  readonly bytes: number
  readonly admit: () => void
}

/**
 * A bound on the bytes that may be under way at once, first come, first served.
 * A request over the whole budget is admitted alone, so that nothing waits for ever.
 */
export class InflightBudget {
  readonly limitBytes: number
  #inflightBytes = 0
  readonly #waiters: Waiter[] = []

  constructor(limitBytes: number) {
    assert(limitBytes > 0, 'a budget of nothing')
    this.limitBytes = limitBytes
  }

  get inflightBytes(): number {
    return this.#inflightBytes
  }

  get waiting(): number {
    return this.#waiters.length
  }

  /** Whether `bytes` would be admitted now. */
  hasRoom(bytes: number): boolean {
    return this.#waiters.length === 0 && this.#fits(bytes)
  }

  /** Takes `bytes` at once when there is room. */
  tryAcquire(bytes: number): boolean {
    if (!this.hasRoom(bytes)) return false
    this.#inflightBytes += bytes
    return true
  }

  /** Takes `bytes`, waiting for room. Resolves false, with nothing taken, when `signal` aborts first. */
  acquire(bytes: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false)
    if (this.tryAcquire(bytes)) return Promise.resolve(true)
    return new Promise((resolve) => {
      const waiter: Waiter = {
        bytes,
        admit: () => {
          signal.removeEventListener('abort', leave)
          resolve(true)
        },
      }
      const leave = () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        resolve(false)
        this.#admitWaiters()
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiters.push(waiter)
    })
  }

  release(bytes: number): void {
    this.#inflightBytes -= bytes
    assert(this.#inflightBytes >= 0, 'budget released twice')
    this.#admitWaiters()
  }

  #admitWaiters(): void {
    for (let first = this.#waiters[0]; first !== undefined && this.#fits(first.bytes); first = this.#waiters[0]) {
      this.#waiters.shift()
      this.#inflightBytes += first.bytes
      first.admit()
    }
  }

  #fits(bytes: number): boolean {
    return this.#inflightBytes === 0 || this.#inflightBytes + bytes <= this.limitBytes
  }
}
