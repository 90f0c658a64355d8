import { randomUUID } from 'node:crypto'
import type { LeaseId, SpaceId } from '../../core/ids.ts'
import type { Lookup } from '../../engine/lookup.ts'
import type { Span } from '../../events/tracer.ts'

/** What a client of the HTTP API holds under one opaque id. */
export type Held =
  | { readonly kind: 'lookup'; readonly lookup: Lookup; expiresMs: number }
  | {
      readonly kind: 'read'
      readonly space: SpaceId
      readonly rank: number
      readonly lease: LeaseId
      /** From the slot that was given to the end of what it is for. */
      readonly span: Span
      expiresMs: number
    }
  | {
      readonly kind: 'write'
      readonly space: SpaceId
      readonly rank: number
      readonly lease: LeaseId
      /** From the slot that was given to the end of what it is for. */
      readonly span: Span
      expiresMs: number
    }

/** Leases of HTTP clients by opaque id. Ids cannot be guessed, so that one client cannot end another's lease. */
export class HeldLeases {
  readonly #held = new Map<string, Held>()

  get count(): number {
    return this.#held.size
  }

  add(held: Held): string {
    const id = randomUUID()
    this.#held.set(id, held)
    return id
  }

  find(id: string): Held | undefined {
    return this.#held.get(id)
  }

  take(id: string): Held | undefined {
    const held = this.#held.get(id)
    this.#held.delete(id)
    return held
  }

  /**
   * Forgets what has expired, handing each to `onExpired`. A write lease is kept: its writer is the service thread,
   * which always says when it is done, and only then may the slot be used again.
   */
  sweep(nowMs: number, onExpired: (held: Held) => void): void {
    for (const [id, held] of this.#held) {
      if (held.kind === 'write' || held.expiresMs > nowMs) continue
      this.#held.delete(id)
      onExpired(held)
    }
  }
}
