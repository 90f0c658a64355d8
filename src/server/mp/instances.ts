import type { LeaseId, SpaceId } from '../../core/ids.ts'
import type { L1Cache } from '../../l1/l1-cache.ts'
import type { LookupHold } from './lookup-hold.ts'
import type { ShardLayout } from './shard-layout.ts'

/** Slots that a worker writes to, from the answer to `prepare_store` to its commit. */
export interface StoreTransfer {
  readonly space: SpaceId
  readonly rank: number
  readonly lease: LeaseId
  readonly shards: number
  readonly startMs: number
}

/** Slots that a worker reads from, from the answer to `prepare_retrieve` to its commit. */
export interface RetrieveTransfer {
  readonly hold: LookupHold
  readonly rank: number
  readonly from: number
  readonly to: number
  readonly startMs: number
}

/** Transfers at most that one worker may have begun and not committed, in each direction. */
const TRANSFERS_MAX = 1024

/** One worker: what its memory looks like, and what it is copying. */
export class Instance {
  readonly id: bigint
  readonly model: string
  readonly worldSize: number
  readonly layout: ShardLayout
  /** Of its write leases. */
  readonly owner: number
  lastSeenMs: number
  hasPinged = false
  /** Silent for too long: its slots are set aside until it says that it is done. */
  isReaped = false
  readonly #stores = new Map<string, StoreTransfer[]>()
  readonly #retrieves = new Map<string, RetrieveTransfer>()

  constructor(id: bigint, model: string, worldSize: number, layout: ShardLayout, owner: number, nowMs: number) {
    this.id = id
    this.model = model
    this.worldSize = worldSize
    this.layout = layout
    this.owner = owner
    this.lastSeenMs = nowMs
  }

  /** Requests whose stores are not committed. */
  get openStores(): number {
    return this.#stores.size
  }

  get canStore(): boolean {
    return this.#stores.size < TRANSFERS_MAX
  }

  /** One request may prepare the same range again before it commits. */
  addStore(key: string, transfer: StoreTransfer): void {
    const found = this.#stores.get(key)
    if (found === undefined) this.#stores.set(key, [transfer])
    else found.push(transfer)
  }

  takeStores(key: string): readonly StoreTransfer[] {
    const found = this.#stores.get(key) ?? []
    this.#stores.delete(key)
    return found
  }

  addRetrieve(key: string, transfer: RetrieveTransfer): void {
    this.#retrieves.get(key)?.hold.release()
    this.#retrieves.delete(key)
    if (this.#retrieves.size >= TRANSFERS_MAX) {
      const [oldest, { hold }] = this.#retrieves.entries().next().value!
      this.#retrieves.delete(oldest)
      hold.release()
    }
    this.#retrieves.set(key, transfer)
  }

  takeRetrieve(key: string): RetrieveTransfer | undefined {
    const found = this.#retrieves.get(key)
    this.#retrieves.delete(key)
    return found
  }

  /** The worker is silent and may still be writing: its slots are not used again before it speaks. */
  reap(l1: L1Cache): void {
    this.isReaped = true
    this.#endRetrieves()
    for (const transfers of this.#stores.values()) for (const { lease } of transfers) l1.quarantine(lease)
  }

  /** The worker says that it copies nothing any more. */
  end(l1: L1Cache): void {
    this.#endRetrieves()
    for (const transfers of this.#stores.values()) for (const { lease } of transfers) l1.abort(lease)
    this.#stores.clear()
  }

  #endRetrieves(): void {
    for (const { hold } of this.#retrieves.values()) hold.release()
    this.#retrieves.clear()
  }
}

/** The workers by instance id, a random number of 63 bits. Bounded. */
export class InstanceTable {
  readonly #limit: number
  readonly #instances = new Map<bigint, Instance>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Registered and not reaped. */
  get liveCount(): number {
    let live = 0
    for (const instance of this.#instances.values()) if (!instance.isReaped) live += 1
    return live
  }

  get isFull(): boolean {
    return this.#instances.size >= this.#limit
  }

  /** Of a worker that is registered, reaped or not. */
  find(id: bigint): Instance | undefined {
    return this.#instances.get(id)
  }

  /** The worker, heard of just now; undefined when it is unknown or reaped. */
  heard(id: bigint, nowMs: number): Instance | undefined {
    const found = this.#instances.get(id)
    if (found === undefined || found.isReaped) return undefined
    found.lastSeenMs = nowMs
    return found
  }

  add(instance: Instance): void {
    this.#instances.set(instance.id, instance)
  }

  remove(id: bigint): void {
    this.#instances.delete(id)
  }

  list(): readonly Instance[] {
    return [...this.#instances.values()]
  }
}
