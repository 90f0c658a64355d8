import { assert } from '../../core/assert.ts'
import { CacheError } from '../../core/errors.ts'
import {
  type AdapterUsage,
  type KeyBatch,
  type L2Adapter,
  type ObjectPage,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_FULL,
  OUTCOME_NOT_FOUND,
  OUTCOME_OK,
  type QuotaChanges,
  type TenantUsage,
} from '../adapter.ts'
import { followsNeighbour, keyWords } from '../key-words.ts'
import { isExpected, payloadSum } from '../object-format.ts'
import { NO_NODE, ObjectIndex } from '../object-index.ts'
import { objectPage } from '../object-pages.ts'
import { FITS, NO_ROOM, ObjectRoom, tenantsOf } from '../object-room.ts'
import type { MemoryAdapterOptions } from '../options.ts'
import { isOwnAncestor } from '../own-ancestor.ts'
import { SpaceTable } from '../space-table.ts'

/**
 * Objects in the memory of this process, with a capacity and leaf-first LRU eviction. Lost at close.
 * Bytes are copied in and out, and summed both times, so that a stray write is found.
 * Without `keepBytes` only the index is real: sources may be empty, targets are left as they are, no bytes move.
 */
export class MemoryAdapter implements L2Adapter {
  readonly type = 'memory'
  readonly #options: MemoryAdapterOptions
  readonly #spaces = new SpaceTable()
  readonly #index = new ObjectIndex(1024, this.#spaces)
  readonly #room: ObjectRoom
  /** By node. */
  readonly #payloads: (Uint8Array | undefined)[] = []
  readonly #sums: number[] = []
  #isOpen = false
  #checksumFailures = 0

  constructor(options: MemoryAdapterOptions) {
    this.#options = options
    this.#room = new ObjectRoom(this.#index, this.#spaces, options.capacityBytes)
  }

  async open(): Promise<void> {
    this.#isOpen = true
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    this.#begin(signal)
    const space = this.#spaces.find(batch.space)
    const hashes = keyWords(batch.hashes)
    for (let key = 0; key < batch.count; key += 1) {
      found[key] = space !== undefined && this.#index.isHeld(this.#index.find(space.id, hashes, key)) ? 1 : 0
    }
  }

  async store(
    batch: KeyBatch,
    sources: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    this.#begin(signal)
    const space = this.#spaces.open(batch.space)
    const hashes = keyWords(batch.hashes)
    const parents = keyWords(batch.parents)
    let bytes = 0
    for (let key = 0; key < batch.count; key += 1) {
      if (this.#index.isHeld(this.#index.find(space.id, hashes, key))) {
        outcomes[key] = OUTCOME_OK
        continue
      }
      // No room for a chunk means none for what follows it: a child is worth nothing without its parent.
      const isRefused = followsNeighbour(hashes, parents, key) && outcomes[key - 1] === OUTCOME_FULL
      if (isOwnAncestor(this.#index, space.id, hashes, parents, key)) {
        outcomes[key] = OUTCOME_FULL
        continue
      }
      const node = this.#index.begin(space.id, hashes, parents, key, batch.space.shardBytes)
      const hasRoom = !isRefused && this.#makeRoom(space.id)
      outcomes[key] = hasRoom ? this.#keep(node, batch, key, sources[key]!) : OUTCOME_FULL
      if (outcomes[key] !== OUTCOME_OK) {
        this.#index.cancel(node)
        continue
      }
      this.#index.publish(node)
      if (this.#options.keepBytes) bytes += batch.space.shardBytes
    }
    this.#index.refresh(space.id, hashes, parents, batch.count)
    return bytes
  }

  async load(
    batch: KeyBatch,
    targets: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    this.#begin(signal)
    outcomes.fill(OUTCOME_NOT_FOUND, 0, batch.count)
    const space = this.#spaces.find(batch.space)
    if (space === undefined) return 0
    const hashes = keyWords(batch.hashes)
    let bytes = 0
    for (let key = 0; key < batch.count; key += 1) {
      const node = this.#index.find(space.id, hashes, key)
      if (!this.#index.isHeld(node)) continue
      outcomes[key] = this.#read(node, targets[key]!)
      if (outcomes[key] === OUTCOME_OK && this.#options.keepBytes) bytes += this.#index.bytesOf(node)
    }
    this.#index.refresh(space.id, hashes, keyWords(batch.parents), batch.count)
    return bytes
  }

  async remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    this.#begin(signal)
    const space = this.#spaces.find(batch.space)
    if (space === undefined) return 0
    const hashes = keyWords(batch.hashes)
    let removed = 0
    for (let key = 0; key < batch.count; key += 1) {
      const node = this.#index.find(space.id, hashes, key)
      if (!this.#index.isHeld(node)) continue
      this.#drop(node)
      removed += 1
    }
    return removed
  }

  async clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    this.#begin(signal)
    const nodes = this.#index.heldIn(this.#spaces.matching(filter))
    for (const node of nodes) this.#drop(node)
    return nodes.length
  }

  async list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    this.#begin(signal)
    return objectPage(this.#index, this.#spaces, cursor, countMax)
  }

  async scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    this.#begin(signal)
    outcomes.fill(OUTCOME_NOT_FOUND, 0, batch.count)
    const space = this.#spaces.find(batch.space)
    if (space === undefined) return 0
    const hashes = keyWords(batch.hashes)
    let bytes = 0
    for (let key = 0; key < batch.count; key += 1) {
      const node = this.#index.find(space.id, hashes, key)
      if (!this.#index.isHeld(node)) continue
      const length = this.#index.bytesOf(node)
      outcomes[key] = this.#options.keepBytes ? this.#check(node, this.#payloads[node]!) : OUTCOME_OK
      if (outcomes[key] === OUTCOME_OK && this.#options.keepBytes) bytes += length
    }
    return bytes
  }

  async setQuotas(changes: QuotaChanges, signal: AbortSignal): Promise<boolean> {
    this.#begin(signal)
    this.#room.change(changes)
    for (let victim = this.#room.nextOver(); victim !== FITS; victim = this.#room.nextOver()) {
      this.#drop(victim)
      this.#room.noteEvicted()
    }
    return true
  }

  async tenants(): Promise<TenantUsage[]> {
    return tenantsOf(this.#index, this.#spaces)
  }

  usage(): AdapterUsage {
    return {
      bytes: this.#index.heldBytes,
      objects: this.#index.objects,
      capacityBytes: this.#options.capacityBytes,
      evictedObjects: this.#room.evictedObjects,
      quotaEvictedObjects: this.#room.quotaEvictedObjects,
      checksumFailures: this.#checksumFailures,
    }
  }

  async close(): Promise<void> {
    this.#isOpen = false
    for (const node of this.#index.held()) this.#drop(node)
  }

  /** Flips a bit of the object at this place of the list: for tests. */
  spoil(place: number): void {
    let node = this.#index.nextHeld(NO_NODE)
    for (let at = 0; at < place; at += 1) node = this.#index.nextHeld(node)
    this.#payloads[node]![0]! ^= 1
  }

  /** Checks the index: for tests. */
  verify(): void {
    this.#index.verify()
  }

  #begin(signal: AbortSignal): void {
    if (!this.#isOpen) throw new CacheError('L2_UNAVAILABLE', 'the memory adapter is not open')
    if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it began')
  }

  /** Evicts until what is held and begun fits. */
  #makeRoom(space: number): boolean {
    for (let victim = this.#room.next(space); victim !== FITS; victim = this.#room.next(space)) {
      if (victim === NO_ROOM) return false
      this.#drop(victim)
      this.#room.noteEvicted()
    }
    return true
  }

  #keep(node: number, batch: KeyBatch, key: number, source: Uint8Array): number {
    if (!this.#options.keepBytes) return OUTCOME_OK
    assert(source.length === batch.space.shardBytes, 'payload of another length than its space')
    const payload = new Uint8Array(source)
    const sum = payloadSum(payload)
    if (!isExpected(batch, key, sum)) return OUTCOME_CORRUPT
    this.#payloads[node] = payload
    this.#sums[node] = sum
    return OUTCOME_OK
  }

  #read(node: number, target: Uint8Array): number {
    if (!this.#options.keepBytes) return OUTCOME_OK
    const payload = this.#payloads[node]
    if (payload === undefined || payload.length !== target.length) return OUTCOME_FAILED
    target.set(payload)
    return this.#check(node, target)
  }

  /** Whether bytes are those that were stored; an object of which they are not is dropped. */
  #check(node: number, bytes: Uint8Array): number {
    if (payloadSum(bytes) === this.#sums[node]) return OUTCOME_OK
    this.#checksumFailures += 1
    this.#drop(node)
    return OUTCOME_CORRUPT
  }

  #drop(node: number): void {
    this.#index.leave(node)
    this.#index.gone(node)
    this.#payloads[node] = undefined
  }
}
