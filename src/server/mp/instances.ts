import type { LeaseId, SpaceId } from '../../core/ids.ts'
import type { Span } from '../../events/tracer.ts'
import { type CopyLog, copyName, type OpenCopy, RETRIEVE_COPY, STORE_COPY } from '../../l1/copy-log.ts'
import type { L1Cache } from '../../l1/l1-cache.ts'
import type { CopyHold } from './lookup-hold.ts'
import { RecoveredRetrieves } from './recovered-retrieves.ts'
import type { ShardLayout } from './shard-layout.ts'

/** Slots that a worker writes to, from the answer to `prepare_store` to its commit. */
export interface StoreTransfer {
  readonly space: SpaceId
  readonly rank: number
  readonly lease: LeaseId
  readonly shards: number
  readonly startMs: number
  /** Absent = of an earlier engine. */
  readonly span?: Span
}

/** Slots that a worker reads from, from the answer to `prepare_retrieve` to its commit. */
export interface RetrieveTransfer {
  readonly hold: CopyHold
  readonly rank: number
  readonly from: number
  readonly to: number
  readonly startMs: number
  /** Absent = of an earlier engine. */
  readonly span?: Span
}

/** Its rows in the log of copies. */
interface Noted {
  readonly rows: readonly number[]
}

/** What a worker may still write to or read from though its leases have expired. Bytes are those of its transfers. */
export interface LateSlots {
  readonly transfers: number
  readonly writeBytes: number
  readonly readBytes: number
}

/** Transfers at most that one worker may have begun and not committed, in each direction. */
const TRANSFERS_MAX = 1024
/** Leases at most that one copy is under. */
const LEASES_OF_COPY = 2

/** Who registered: see `Instance`. */
export interface InstanceFacts {
  readonly id: bigint
  readonly model: string
  readonly worldSize: number
  readonly layout: ShardLayout
  /** Of its write leases. */
  readonly owner: number
}

/** One worker: what its memory looks like, and what it is copying. */
export class Instance {
  readonly id: bigint
  readonly model: string
  readonly worldSize: number
  readonly layout: ShardLayout
  readonly owner: number
  lastSeenMs: number
  hasPinged = false
  /** It registered with an earlier engine, and has not been heard of since. */
  isAwaited = false
  /** Some other process had the segment open since it registered: it was one of those, as far as anybody knows. */
  hasMapped = false
  /** Silent for too long: its slots are set aside until it says that it is done. */
  isReaped = false
  /** Of the slots that it may write to. */
  heldBytes = 0
  readonly #held: HeldBytes
  readonly #copies: CopyLog
  readonly #stores = new Transfers<StoreTransfer & Noted>()
  readonly #retrieves = new Transfers<RetrieveTransfer & Noted>()

  /**
   * @param held counts what it may write to, together with that of others.
   * @param copies where it is noted what it copies.
   */
  constructor({ id, model, worldSize, layout, owner }: InstanceFacts, held: HeldBytes, copies: CopyLog, nowMs: number) {
    this.id = id
    this.model = model
    this.worldSize = worldSize
    this.layout = layout
    this.owner = owner
    this.lastSeenMs = nowMs
    this.#held = held
    this.#copies = copies
  }

  /** Stores and retrievals that are not committed. */
  get openTransfers(): number {
    return this.#stores.count + this.#retrieves.count
  }

  /**
   * Whether a store may begin under this key. Not while one is under way: a commit could be that of either, and would
   * make slots readable that are not written.
   */
  canStore(key: string): boolean {
    const hasRoom = this.#stores.count < TRANSFERS_MAX && this.#copies.freeRows >= LEASES_OF_COPY
    return hasRoom && !this.#stores.has(copyName(key))
  }

  get canRetrieve(): boolean {
    return this.#retrieves.count < TRANSFERS_MAX && this.#copies.freeRows >= LEASES_OF_COPY
  }

  addStore(key: string, transfer: StoreTransfer): void {
    const name = copyName(key)
    this.#stores.add(name, { ...transfer, rows: [this.#copies.begin(STORE_COPY, this.owner, name, transfer.lease)] })
    this.#hold(transfer.shards * this.layout.shardBytes)
  }

  takeStore(key: string): StoreTransfer | undefined {
    const found = this.#stores.take(copyName(key))
    if (found !== undefined) this.#letGo(found)
    return found
  }

  /** One request may prepare the same range again before it commits: whichever copy ends, the slots keep their bytes. */
  addRetrieve(key: string, transfer: RetrieveTransfer): void {
    const name = copyName(key)
    const leases = transfer.hold.leasesOf(transfer.from, transfer.to)
    const rows = leases.map((lease) => this.#copies.begin(RETRIEVE_COPY, this.owner, name, lease))
    this.#retrieves.add(name, { ...transfer, rows })
  }

  /** The one that began first. */
  takeRetrieve(key: string): RetrieveTransfer | undefined {
    const found = this.#retrieves.take(copyName(key))
    this.#endRows(found)
    return found
  }

  /** Takes over what it copied under an earlier engine. */
  restore(l1: L1Cache, nowMs: number): void {
    this.isAwaited = true
    this.hasMapped = this.#copies.listOf(this.owner).length > 0 // nobody is told of slots before
    const retrieves = new RecoveredRetrieves(l1)
    for (const copy of this.#copies.listOf(this.owner)) {
      const { space, rank, lease, count } = copy
      if (copy.kind === RETRIEVE_COPY) retrieves.add(copy)
      else this.#restoreStore(copy, { space, rank, lease, shards: count, startMs: nowMs })
    }
    for (const { name, ...transfer } of retrieves.list()) this.#retrieves.add(name, { ...transfer, startMs: nowMs })
  }

  /** The worker is silent and may still be copying: its slots are not used again before it speaks. */
  reap(l1: L1Cache): void {
    this.isReaped = true
    for (const { lease } of this.#stores.list()) l1.quarantine(lease)
  }

  /** The worker says that it copies nothing any more. */
  end(l1: L1Cache): void {
    for (const transfer of this.#stores.drop(() => true)) this.#abort(l1, transfer)
    for (const transfer of this.#retrieves.drop(() => true)) this.#endRetrieve(transfer)
  }

  lateSlots(l1: L1Cache): LateSlots {
    const { shardBytes } = this.layout
    const stores = this.#stores.list().filter(({ lease }) => l1.isQuarantined(lease))
    const retrieves = this.#retrieves.list().filter(isLate)
    return {
      transfers: stores.length + retrieves.length,
      writeBytes: stores.reduce((bytes, { shards }) => bytes + shards * shardBytes, 0),
      readBytes: retrieves.reduce((bytes, { from, to }) => bytes + (to - from) * shardBytes, 0),
    }
  }

  /** Somebody knows that the worker is done with what has expired. */
  releaseLate(l1: L1Cache): void {
    for (const transfer of this.#stores.drop(({ lease }) => l1.isQuarantined(lease))) this.#abort(l1, transfer)
    for (const transfer of this.#retrieves.drop(isLate)) this.#endRetrieve(transfer)
  }

  #restoreStore({ name, row }: OpenCopy, transfer: StoreTransfer): void {
    this.#stores.add(name, { ...transfer, rows: [row] })
    this.#hold(transfer.shards * this.layout.shardBytes)
  }

  #abort(l1: L1Cache, transfer: StoreTransfer & Noted): void {
    this.#letGo(transfer)
    l1.abort(transfer.lease)
  }

  #letGo(transfer: StoreTransfer & Noted): void {
    this.#endRows(transfer)
    this.#hold(-transfer.shards * this.layout.shardBytes)
  }

  #endRetrieve(transfer: RetrieveTransfer & Noted): void {
    this.#endRows(transfer)
    transfer.hold.endCopy(transfer.from, transfer.to)
  }

  /** From here on a later engine does not wait for this copy. */
  #endRows(transfer: Noted | undefined): void {
    for (const row of transfer?.rows ?? []) this.#copies.end(row)
  }

  #hold(bytes: number): void {
    this.heldBytes += bytes
    this.#held.bytes += bytes
  }
}

function isLate({ hold, from, to }: RetrieveTransfer): boolean {
  return hold.isQuarantined(from, to)
}

/** Transfers by the name of what ties a commit to its prepare, oldest first. */
class Transfers<Transfer> {
  readonly #byKey = new Map<number, Transfer[]>()
  #count = 0

  get count(): number {
    return this.#count
  }

  add(key: number, transfer: Transfer): void {
    const found = this.#byKey.get(key)
    if (found === undefined) this.#byKey.set(key, [transfer])
    else found.push(transfer)
    this.#count += 1
  }

  has(key: number): boolean {
    return this.#byKey.has(key)
  }

  /** The oldest under this key. */
  take(key: number): Transfer | undefined {
    const found = this.#byKey.get(key)
    if (found === undefined) return undefined
    if (found.length === 1) this.#byKey.delete(key)
    this.#count -= 1
    return found.shift()
  }

  list(): Transfer[] {
    return [...this.#byKey.values()].flat()
  }

  /** Takes out those that are `wanted`. */
  drop(wanted: (transfer: Transfer) => boolean): Transfer[] {
    const dropped: Transfer[] = []
    for (const [key, transfers] of this.#byKey) {
      const kept = transfers.filter((transfer) => !wanted(transfer))
      dropped.push(...transfers.filter((transfer) => !kept.includes(transfer)))
      if (kept.length === 0) this.#byKey.delete(key)
      else this.#byKey.set(key, kept)
    }
    this.#count -= dropped.length
    return dropped
  }
}

/** Bytes of the slots that workers may write to: those of open and expired write leases. */
export interface HeldBytes {
  bytes: number
}

/** The workers by instance id, a random number of 63 bits. Bounded. */
export class InstanceTable {
  readonly #limit: number
  readonly #instances = new Map<bigint, Instance>()
  /** Forgotten for nothing but silence, the latest last; as many as `limit`. */
  readonly #silent = new Set<bigint>()
  readonly #held: HeldBytes = { bytes: 0 }
  readonly #copies: CopyLog
  readonly #onRemoved: (id: bigint) => void
  readonly #onBack: (instance: Instance) => void

  /** @param copies where it is noted what workers copy. @param onRemoved told of each that is not known any more.
   * @param onBack told of each that an earlier engine knew, when it is first heard of. */
  constructor(
    limit: number,
    copies: CopyLog,
    onRemoved: (id: bigint) => void,
    onBack: (instance: Instance) => void = () => {},
  ) {
    this.#limit = limit
    this.#copies = copies
    this.#onRemoved = onRemoved
    this.#onBack = onBack
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

  /** See `HeldBytes`; of all workers. */
  get heldBytes(): number {
    return this.#held.bytes
  }

  /** The same, of the workers of one model. */
  heldBytesOf(model: string): number {
    let bytes = 0
    for (const instance of this.#instances.values()) if (instance.model === model) bytes += instance.heldBytes
    return bytes
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
    if (found.isAwaited) this.#onBack(found)
    found.isAwaited = false
    return found
  }

  /** Replaces the one of the same id. */
  add(facts: InstanceFacts, nowMs: number): Instance {
    const instance = new Instance(facts, this.#held, this.#copies, nowMs)
    this.#instances.set(facts.id, instance)
    this.#silent.delete(facts.id)
    return instance
  }

  remove(id: bigint): void {
    if (this.#instances.delete(id)) this.#onRemoved(id)
  }

  /** Forgets a worker that was reaped and has nothing left that could be late. */
  forgetIfDone(instance: Instance): void {
    if (!instance.isReaped || instance.openTransfers > 0) return
    this.remove(instance.id)
    if (this.#silent.size >= this.#limit) this.#silent.delete(this.#silent.values().next().value!)
    this.#silent.add(instance.id)
  }

  /** Whether a worker was forgotten so: nobody took anything from it. */
  fellSilent(id: bigint): boolean {
    return this.#silent.has(id)
  }

  list(): readonly Instance[] {
    return [...this.#instances.values()]
  }
}
