import { LRUCache } from 'lru-cache'
import { HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import type { Lookup } from './lookup.ts'

/** One request of one client: its hashes so far and the lookup it holds. */
export interface Session {
  readonly key: string
  /** Owner number of its leases. */
  readonly owner: number
  readonly space: SpaceId
  readonly chain: HashChain
  lookup: Lookup | null
}

/** Open sessions by (space, request id), bounded: the one used longest ago makes room, and is closed properly. */
export class SessionTable {
  readonly #sessions: LRUCache<string, Session>
  #owners = 1

  /** @param onClosed ends what the session still holds; called for every session that leaves the table. */
  constructor(capacity: number, onClosed: (session: Session) => void) {
    this.#sessions = new LRUCache({ max: capacity, dispose: (session) => onClosed(session) })
  }

  get count(): number {
    return this.#sessions.size
  }

  /** Makes the owner numbers to come greater than this one: those up to it are an earlier engine's. */
  startOwnersAfter(owner: number): void {
    this.#owners = Math.max(this.#owners, owner)
  }

  /** A fresh owner number, for leases outside any session too. */
  nextOwner(): number {
    this.#owners += 1
    return this.#owners
  }

  open(space: SpaceId, requestId: string): Session {
    const key = `${space}:${requestId}`
    const found = this.#sessions.get(key)
    if (found !== undefined) return found
    const session = { key, owner: this.nextOwner(), space, chain: new HashChain(0), lookup: null }
    this.#sessions.set(key, session)
    return session
  }

  find(space: SpaceId, requestId: string): Session | undefined {
    return this.#sessions.get(`${space}:${requestId}`)
  }

  /** Ends a session; false when it was not open. */
  close(space: SpaceId, requestId: string): boolean {
    return this.#sessions.delete(`${space}:${requestId}`)
  }

  closeAll(): void {
    this.#sessions.clear()
  }
}
