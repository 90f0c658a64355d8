import type { QuotaChanges, TenantUsage } from './adapter.ts'
import { NO_NODE, type ObjectIndex } from './object-index.ts'
import type { SpaceTable } from './space-table.ts'

/** Nothing has to leave. */
export const FITS = 0
/** Nothing that may leave makes room enough. */
export const NO_ROOM = -1

/**
 * What must leave an adapter so that it keeps its capacity, and each salt its quota. It chooses; the adapter deletes.
 *
 *   next(space) -> a node: delete it, noteEvicted, ask again -> FITS: write
 *                                                            -> NO_ROOM: refuse
 *
 * The quota of a salt comes first and takes only its own objects; then the capacity takes the oldest of all. Both take
 * leaves. Bytes count as soon as an object is begun, so a limit is never passed while an object is written.
 */
export class ObjectRoom {
  readonly #index: ObjectIndex
  readonly #spaces: SpaceTable
  readonly #capacityBytes: number
  readonly #limits = new Map<string, number>()
  #defaultBytes = Number.POSITIVE_INFINITY
  #isForQuota = false
  #evictedObjects = 0
  #quotaEvictedObjects = 0

  /** @param capacityBytes 0 = no limit. @param index with the salts of `spaces`. */
  constructor(index: ObjectIndex, spaces: SpaceTable, capacityBytes: number) {
    this.#index = index
    this.#spaces = spaces
    this.#capacityBytes = capacityBytes === 0 ? Number.POSITIVE_INFINITY : capacityBytes
  }

  /** Objects evicted for the capacity. */
  get evictedObjects(): number {
    return this.#evictedObjects
  }

  /** Objects evicted for a quota. */
  get quotaEvictedObjects(): number {
    return this.#quotaEvictedObjects
  }

  change({ defaultBytes, bySalt }: QuotaChanges): void {
    if (defaultBytes !== undefined) this.#defaultBytes = defaultBytes
    for (const [salt, bytes] of bySalt) {
      if (bytes === undefined) this.#limits.delete(salt)
      else this.#limits.set(salt, bytes)
    }
  }

  /** What a salt may hold; Infinity = no limit. */
  limitOf(salt: string): number {
    return this.#limits.get(salt) ?? this.#defaultBytes
  }

  /** The next object to delete, FITS or NO_ROOM. @param space that for which an object was begun; its quota is kept. */
  next(space?: number): number {
    const index = this.#index
    if (space !== undefined) {
      const row = this.#spaces.saltRowOf(space)
      if (index.saltBytes(row) > this.limitOf(this.#spaces.byId(space).space.salt)) return this.#victimOf(row)
    }
    this.#isForQuota = false
    if (index.heldBytes + index.pendingBytes <= this.#capacityBytes) return FITS
    if (index.pendingBytes > this.#capacityBytes) return NO_ROOM
    const victim = index.victim()
    return victim === NO_NODE ? NO_ROOM : victim
  }

  /** The next object to delete because its salt is over its quota; FITS when there is none that may leave. */
  nextOver(): number {
    for (const [salt, row] of this.#spaces.salts) {
      if (this.#index.saltBytes(row) <= this.limitOf(salt)) continue
      const victim = this.#victimOf(row)
      if (victim !== NO_ROOM) return victim
    }
    return FITS
  }

  /** Whether the object that was named last goes for a quota. */
  get isForQuota(): boolean {
    return this.#isForQuota
  }

  /** The object that was named last is gone; or an earlier one, for what it was named then. */
  noteEvicted(isForQuota = this.#isForQuota): void {
    if (isForQuota) this.#quotaEvictedObjects += 1
    else this.#evictedObjects += 1
  }

  #victimOf(row: number): number {
    this.#isForQuota = true
    const victim = this.#index.victimOf(row)
    return victim === NO_NODE ? NO_ROOM : victim
  }
}

/** What each (model, salt) of an index holds. It takes time in proportion to the spaces. */
export function tenantsOf(index: ObjectIndex, spaces: SpaceTable): TenantUsage[] {
  const tenants = new Map<string, TenantUsage>()
  for (const { id, space } of spaces.entries) {
    const { objects, bytes } = index.heldOf(id)
    if (objects === 0) continue
    const { model, salt } = space
    const key = JSON.stringify([model, salt])
    const sum = tenants.get(key) ?? { bytes: 0, objects: 0 }
    tenants.set(key, { model, salt, bytes: bytes + sum.bytes, objects: objects + sum.objects })
  }
  return [...tenants.values()]
}
