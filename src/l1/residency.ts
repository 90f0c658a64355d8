import { assert } from '../core/assert.ts'
import type { CounterTable } from '../core/counters.ts'
import type { SpaceId } from '../core/ids.ts'
import { NO_SLOT } from './arena.ts'
import { openArena, type SlotArena } from './arena-parts.ts'
import {
  ANCHORED,
  CHILDREN,
  CHUNK_WORDS,
  ChunkTable,
  DOOMED,
  FIRST_SHARD,
  GENERATION,
  GENERATION_MASK,
  GHOST_SEEN,
  HOLDS,
  INTERNAL_ONE,
  LIVE,
  META,
  NO_CHUNK,
  PARENT,
  READY_SHIFT,
  SPACE_SHIFT,
  STATE_MASK,
  TOUCH_MS,
  USE_KNOWN,
} from './chunk-table.ts'
import { HoldTree } from './holds.ts'
import type { KeySpaces, OpenSpace } from './key-spaces.ts'
import type { L1Field, L1Recorder, L1TenantField } from './l1-recorder.ts'
import type { L1Tables } from './l1-tables.ts'
import type { Leases } from './leases.ts'
import type { L1Options } from './options.ts'
import type { GroupOrder } from './policies/group-order.ts'
import { ReadSlots } from './read-slots.ts'
import {
  ALLOCATED_MS,
  CHUNK,
  NEXT_SHARD,
  NO_SHARD,
  READABLE,
  RESERVED,
  SHARD_WORDS,
  ShardTable,
  SLOT,
} from './shard-table.ts'
import { Victims } from './victims.ts'

const READY_MASK = 0xff << READY_SHIFT

/** Why chunks are removed, and the cell that counts it. */
export type RemoveReason = 'clear' | 'delete' | 'quota' | 'corrupt'
const REMOVED_FIELDS = {
  clear: 'removedClear',
  delete: 'removedDelete',
  quota: 'removedQuota',
  corrupt: 'removedCorrupt',
} as const satisfies Record<RemoveReason, L1TenantField>

export interface ResidencyParts {
  readonly recorder: L1Recorder
  readonly spaces: KeySpaces
  readonly tenants: CounterTable<L1TenantField>
  readonly totals: CounterTable<L1Field>
  readonly tables: L1Tables
  readonly leases: Leases
  readonly hashKey: readonly [number, number]
  readonly move?: (fromOffset: number, toOffset: number, bytes: number) => void
  readonly onEvicted?: (id: number, generation: number) => void
  readonly isClean?: (id: number, generation: number) => boolean
}

/**
 * The chunks in L1 and how they leave it: records, shards, slots, holds and policy as one structure.
 * Writers (`reservations.ts`), readers (`read-leases.ts`) and removals (`removal.ts`) work on it.
 */
export class Residency {
  readonly table: ChunkTable
  readonly shards: ShardTable
  readonly slots: ReadSlots
  readonly arena: SlotArena
  readonly policy: GroupOrder
  readonly holds: HoldTree
  readonly victims: Victims
  readonly altered = new Set<number>() // DOOMED chunks that nobody may read: their bytes are wrong
  readonly spaces: KeySpaces
  readonly recorder: L1Recorder
  readonly #onEvicted: ((id: number, generation: number) => void) | undefined
  readonly #ghostCapacity: number
  readonly #evictedColumn: number
  readonly #ghostsExpiredColumn: number
  readonly #removedColumns: Record<RemoveReason, number>
  readonly #move: (owner: number, fromSlot: number, toSlot: number) => void

  constructor(options: L1Options, parts: ResidencyParts) {
    const { chunks, shards, arenas } = parts.tables
    this.table = new ChunkTable(options.indexCapacityChunks, parts.hashKey, chunks)
    this.shards = new ShardTable(options.indexCapacityShards, shards)
    this.slots = new ReadSlots(parts.leases, this.table.words, this.shards.words)
    this.arena = openArena(parts.spaces.parts, options.extentBytes, arenas, () => this.slots.count())
    this.slots.holdIn(this.arena)
    this.victims = new Victims({
      table: this.table,
      arena: this.arena,
      spaces: parts.spaces,
      policy: options.policy,
      isClean: parts.isClean,
      anchor: (id) => this.anchor(id),
    })
    this.policy = this.victims.policy
    this.holds = new HoldTree(this.table, this.policy, (id) => this.#leave(id))
    this.spaces = parts.spaces
    this.recorder = parts.recorder
    this.#onEvicted = parts.onEvicted
    this.#ghostCapacity = options.ghostCapacityChunks
    this.#evictedColumn = parts.tenants.column('evictedShards')
    this.#ghostsExpiredColumn = parts.totals.column('ghostsExpired')
    this.#removedColumns = {
      clear: parts.tenants.column(REMOVED_FIELDS.clear),
      delete: parts.tenants.column(REMOVED_FIELDS.delete),
      quota: parts.tenants.column(REMOVED_FIELDS.quota),
      corrupt: parts.tenants.column(REMOVED_FIELDS.corrupt),
    }
    const copy = parts.move
    // The bytes first: whoever reads the record, now or after a crash, finds them where it says.
    this.#move = (shard, fromSlot, toSlot) => {
      copy?.(this.arena.offsetOf(fromSlot), this.arena.offsetOf(toSlot), this.arena.lengthOf(fromSlot))
      this.shards.words[shard * SHARD_WORDS + SLOT] = toSlot
    }
  }

  /** The space of a record that is not FREE. */
  specOf(id: number): OpenSpace {
    return this.spaces.spec(this.spaceOf(id))
  }

  spaceOf(id: number): SpaceId {
    return (this.table.words[id * CHUNK_WORDS + META]! >>> SPACE_SHIFT) as SpaceId
  }

  stateOf(id: number): number {
    return this.table.words[id * CHUNK_WORDS + META]! & STATE_MASK
  }

  /** Moves slots of other classes together until one of this class is free; false when that cannot be done. */
  reclaim(cls: number): boolean {
    const arena = this.arena
    if (arena.capacityBytes - arena.usedBytes < arena.extentBytes) return false // not even one extent's worth is free
    return arena.reclaim(cls, this.#move)
  }

  /** The LIVE record of a hash, or NO_CHUNK. */
  findLive(space: number, hash: Uint32Array, at: number): number {
    const id = this.table.find(space, hash, at)
    return id !== NO_CHUNK && this.stateOf(id) === LIVE ? id : NO_CHUNK
  }

  /** The record of a hash when all `ranks` shards are readable, or NO_CHUNK. @param guess where it may lie. */
  findComplete(space: number, hash: Uint32Array, at: number, ranks: number, guess = NO_CHUNK): number {
    const id = guess === NO_CHUNK ? this.table.find(space, hash, at) : this.table.findNear(guess, space, hash, at)
    if (id === NO_CHUNK) return NO_CHUNK
    const wanted = (ranks << READY_SHIFT) | LIVE
    return (this.table.words[id * CHUNK_WORDS + META]! & (READY_MASK | STATE_MASK)) === wanted ? id : NO_CHUNK
  }

  /** Holds a chunk in the tree on behalf of its internal leases. */
  anchor(id: number): void {
    const at = id * CHUNK_WORDS + META
    this.table.words[at] = this.table.words[at]! | ANCHORED
    this.holds.hold(id)
  }

  /** Bytes of the readable shards of a chunk; all it has, when it is free. */
  bytesOf(id: number): number {
    const ready = (this.table.words[id * CHUNK_WORDS + META]! & READY_MASK) >>> READY_SHIFT
    return ready * this.specOf(id).shardBytes
  }

  /** Evicts a victim: all its shards leave, and its hash stays as a ghost. @returns the bytes freed. */
  evict(id: number): number {
    const words = this.table.words
    const record = id * CHUNK_WORDS
    this.#onEvicted?.(id, words[record + GENERATION]!)
    const spec = this.specOf(id)
    this.recorder.addTenant(spec.tenant, this.#evictedColumn, this.#shardsLeave(id, spec))
    const bytes = this.#freeShards(id, spec)
    this.policy.forget(id, true)
    const parent = words[record + PARENT]!
    if (this.#ghostCapacity > 0) this.#remember(id, this.recorder.stamp, false)
    else this.#discard(id)
    if (parent !== NO_CHUNK) this.#loseChild(parent)
    return bytes
  }

  /**
   * Removes a chunk for a reason that is not room. It cannot be found from here on; when it is held, its slots stay
   * until the last lease ends. Its live children have been removed, or will be before the caller returns.
   *
   * @returns readable shards that were removed.
   */
  remove(id: number, reason: RemoveReason): number {
    const words = this.table.words
    const record = id * CHUNK_WORDS
    if (words[record + GENERATION]! >= INTERNAL_ONE && (words[record + META]! & ANCHORED) === 0) this.anchor(id)
    const spec = this.specOf(id)
    const count = this.#shardsLeave(id, spec)
    this.recorder.addTenant(spec.tenant, this.#removedColumns[reason], count)
    this.policy.forget(id, false)
    if (words[record + HOLDS] !== 0) {
      this.table.unhash(id)
      words[record + META] = (words[record + META]! & ~(STATE_MASK | READY_MASK)) | DOOMED
      this.#nextGeneration(record)
      return count
    }
    this.#freeShards(id, spec)
    const parent = words[record + PARENT]!
    this.#discard(id)
    if (parent !== NO_CHUNK) this.#loseChild(parent)
    return count
  }

  /** Reports a ghost once for its eviction. */
  seeGhost(id: number): void {
    const words = this.table.words
    const record = id * CHUNK_WORDS
    if ((words[record + META]! & GHOST_SEEN) !== 0) return
    words[record + META] = words[record + META]! | GHOST_SEEN
    if (!this.recorder.isSampled(words, record)) return
    const spec = this.specOf(id)
    this.recorder.ghostSeen(spec.tenant, words[record + TOUCH_MS]!)
  }

  /** Forgets the oldest ghost. False when there is none. */
  dropOldestGhost(): boolean {
    const id = this.table.oldestGhost()
    if (id === NO_CHUNK) return false
    if ((this.table.words[id * CHUNK_WORDS + META]! & GHOST_SEEN) === 0) {
      this.recorder.addTotal(this.#ghostsExpiredColumn, 1)
    }
    this.table.dropGhost(id)
    return true
  }

  /** Puts a shard in the list of its chunk. */
  linkShard(id: number, shard: number): void {
    const at = id * CHUNK_WORDS + FIRST_SHARD
    this.shards.words[shard * SHARD_WORDS + NEXT_SHARD] = this.table.words[at]!
    this.table.words[at] = shard
  }

  /** Takes a shard out of the list of its chunk. */
  unlinkShard(shard: number): void {
    const words = this.shards.words
    const id = words[shard * SHARD_WORDS + CHUNK]!
    const next = words[shard * SHARD_WORDS + NEXT_SHARD]!
    let other = this.table.words[id * CHUNK_WORDS + FIRST_SHARD]!
    if (other === shard) {
      this.table.words[id * CHUNK_WORDS + FIRST_SHARD] = next
      return
    }
    while (words[other * SHARD_WORDS + NEXT_SHARD] !== shard) {
      other = words[other * SHARD_WORDS + NEXT_SHARD]!
      assert(other !== NO_SHARD, 'a shard is missing from its chunk')
    }
    words[other * SHARD_WORDS + NEXT_SHARD] = next
  }

  /** Frees the slot and the record of a shard that is in no list. @returns the bytes freed. */
  freeShard(shard: number, spec: OpenSpace): number {
    const slot = this.shards.words[shard * SHARD_WORDS + SLOT]!
    this.arena.free(slot)
    this.shards.free(shard)
    this.recorder.addUsage(spec, -spec.shardBytes)
    return spec.shardBytes
  }

  /** A slot of the class for the shard, which is RESERVED from here on; false, without eviction, when there is none. */
  placeShard(shard: number, cls: number, spec: OpenSpace): boolean {
    const slot = this.arena.allocate(cls, shard)
    if (slot === NO_SLOT) return false
    this.arena.hold(slot)
    this.shards.words[shard * SHARD_WORDS + SLOT] = slot
    this.shards.setState(shard, RESERVED)
    this.recorder.addUsage(spec, spec.shardBytes)
    return true
  }

  /** The leave of a chunk that lost its last hold: doomed, or without a shard. Its parent is still held by it. */
  #leave(id: number): void {
    const words = this.table.words
    const record = id * CHUNK_WORDS
    const parent = words[record + PARENT]!
    const meta = words[record + META]!
    if (parent !== NO_CHUNK) {
      const children = parent * CHUNK_WORDS + CHILDREN
      words[children] = words[children]! - 1
    }
    if ((meta & STATE_MASK) === DOOMED) {
      this.altered.delete(id)
      this.#freeShards(id, this.specOf(id))
      this.table.free(id)
      return
    }
    words[record + HOLDS] = 1 // the policy was never told that the chunk is free
    this.policy.forget(id, false)
    words[record + HOLDS] = 0
    if ((meta & USE_KNOWN) !== 0 && this.#ghostCapacity > 0) this.#remember(id, this.recorder.stamp, true)
    else this.#discard(id)
  }

  #loseChild(parent: number): void {
    const words = this.table.words
    const record = parent * CHUNK_WORDS
    const children = words[record + CHILDREN]! - 1
    words[record + CHILDREN] = children
    if (children === 0 && words[record + HOLDS] === 0) this.policy.ripen(parent)
  }

  #remember(id: number, evictedStamp: number, isSeen: boolean): void {
    while (this.table.ghostCount >= this.#ghostCapacity) this.dropOldestGhost()
    this.table.toGhost(id, evictedStamp, isSeen)
  }

  #discard(id: number): void {
    this.table.unhash(id)
    this.#nextGeneration(id * CHUNK_WORDS)
    this.table.free(id)
  }

  #nextGeneration(record: number): void {
    const value = this.table.words[record + GENERATION]!
    const next = (value + 1) & GENERATION_MASK
    this.table.words[record + GENERATION] = (value - (value & GENERATION_MASK) + next) >>> 0
  }

  /** Readable shards of a chunk that is leaving; each is reported when sampled. */
  #shardsLeave(id: number, spec: OpenSpace): number {
    const words = this.table.words
    const record = id * CHUNK_WORDS
    const meta = words[record + META]!
    const count = (meta & READY_MASK) >>> READY_SHIFT
    if (count === 0 || !this.recorder.isSampled(words, record)) return count
    const shards = this.shards.words
    let shard = words[record + FIRST_SHARD]!
    while (shard !== NO_SHARD) {
      const at = shard * SHARD_WORDS
      if (this.shards.stateOf(shard) === READABLE) {
        this.recorder.shardLeft(spec.tenant, shards[at + ALLOCATED_MS]!, words[record + TOUCH_MS]!)
      }
      shard = shards[at + NEXT_SHARD]!
    }
    return count
  }

  #freeShards(id: number, spec: OpenSpace): number {
    const words = this.table.words
    const record = id * CHUNK_WORDS
    let bytes = 0
    let shard = words[record + FIRST_SHARD]!
    while (shard !== NO_SHARD) {
      assert(this.shards.stateOf(shard) !== RESERVED, 'a shard that is being written leaves')
      const next = this.shards.words[shard * SHARD_WORDS + NEXT_SHARD]!
      bytes += this.freeShard(shard, spec)
      shard = next
    }
    words[record + FIRST_SHARD] = NO_SHARD
    return bytes
  }
}
