import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/clock.ts'

/** Callers that are told apart; who was not seen for longest is forgotten, and starts anew. */
const CALLERS_MAX = 10_000

export interface RateLimiterParts {
  /** Requests a second of one caller; 0 = no limit. */
  readonly perSecond: number
  /** Requests that one caller may send at once. */
  readonly burst: number
  readonly clock: Clock
}

/** One token bucket a caller: it holds up to `burst` requests, and `perSecond` flow in. */
export class RateLimiter {
  readonly #parts: RateLimiterParts
  readonly #burst: number
  readonly #buckets = new LRUCache<string, { level: number; atMs: number }>({ max: CALLERS_MAX })

  constructor(parts: RateLimiterParts) {
    this.#parts = parts
    this.#burst = Math.max(1, parts.burst)
  }

  /** Takes one request of a caller. @returns 0 when it may go on, else the seconds until one may. */
  take(caller: string): number {
    const { perSecond, clock } = this.#parts
    if (perSecond === 0) return 0
    const nowMs = clock.nowMs()
    let bucket = this.#buckets.get(caller)
    if (bucket === undefined) {
      bucket = { level: this.#burst, atMs: nowMs }
      this.#buckets.set(caller, bucket)
    }
    bucket.level = Math.min(this.#burst, bucket.level + ((nowMs - bucket.atMs) * perSecond) / 1000)
    bucket.atMs = nowMs
    if (bucket.level < 1) return (1 - bucket.level) / perSecond
    bucket.level -= 1
    return 0
  }
}
