import { assert } from '../core/assert.ts'

interface Waiter {
  readonly bytes: number
  readonly admit: () => void
}

/**
 * A bound on the bytes that may be under way at once, first come, first served, and on those that wait for it.
 * A request over the whole budget is admitted alone, so that nothing waits for ever.
 */
export class InflightBudget {
  readonly limitBytes: number
  readonly #pendingLimitBytes: number
  #inflightBytes = 0
  #pendingBytes = 0
  readonly #waiters: Waiter[] = []

  /** @param pendingLimitBytes of requests that wait; one more is refused. */
  constructor(limitBytes: number, pendingLimitBytes = Number.POSITIVE_INFINITY) {
    assert(limitBytes > 0 && pendingLimitBytes > 0, 'a budget of nothing')
    this.limitBytes = limitBytes
    this.#pendingLimitBytes = pendingLimitBytes
  }

  get inflightBytes(): number {
    return this.#inflightBytes
  }

  /** Bytes of the requests that wait. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  get waiting(): number {
    return this.#waiters.length
  }

  /** Whether `bytes` would be admitted now. */
  hasRoom(bytes: number): boolean {
    return this.#waiters.length === 0 && this.#fits(bytes)
  }

  /** Whether `acquire` would take `bytes` or wait for them. One request may always wait, whatever its size. */
  mayWait(bytes: number): boolean {
    return this.hasRoom(bytes) || this.waiting === 0 || this.#pendingBytes + bytes <= this.#pendingLimitBytes
  }

  /** Takes `bytes` at once when there is room. */
  tryAcquire(bytes: number): boolean {
    if (!this.hasRoom(bytes)) return false
    this.#inflightBytes += bytes
    return true
  }

  /**
   * Takes `bytes`, waiting for room. Resolves false, with nothing taken, when `signal` aborts first, or too much waits
   * already.
   */
  acquire(bytes: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false)
    if (this.tryAcquire(bytes)) return Promise.resolve(true)
    if (!this.mayWait(bytes)) return Promise.resolve(false)
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
        this.#pendingBytes -= bytes
        resolve(false)
        this.#admitWaiters()
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiters.push(waiter)
      this.#pendingBytes += bytes
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
      this.#pendingBytes -= first.bytes
      this.#inflightBytes += first.bytes
      first.admit()
    }
  }

  #fits(bytes: number): boolean {
    return this.#inflightBytes === 0 || this.#inflightBytes + bytes <= this.limitBytes
  }
}
