import { assert } from '../core/assert.ts'
import { Arena, type ArenaJournal, type MoveSlot } from './arena.ts'
import { NO_SLOT } from './arena-spans.ts'
import type { PartShape } from './model-parts.ts'
import { SLOT_LIMIT } from './size-classes.ts'

/** An arena, or several that look like one. See `Arena`; the class of a length is that of one part. */
export interface SlotArena extends Omit<Pick<Arena, keyof Arena>, 'classOf'> {
  classOf(lengthBytes: number, part: number): number
}

/**
 * The arena of an L1 that is cut into parts, or of one that is not.
 *
 * @param journals by part; null = nothing outlives this engine. @param countReads see `Arena`.
 */
export function openArena(
  { count, partBytes }: PartShape,
  extentBytes: number,
  journals: readonly ArenaJournal[] | null,
  countReads: () => boolean,
): SlotArena {
  const shape = { capacityBytes: partBytes, extentBytes }
  if (count === 1) return new Arena(shape, journals?.[0] ?? null, countReads)
  const limit = Math.floor(SLOT_LIMIT / count)
  const arenas = Array.from({ length: count }, (_, part) => {
    return new Arena(shape, journals?.[part] ?? null, countReads, limit)
  })
  return new PartedArena(arenas)
}

/**
 * Equal arenas side by side, of which each gives room to one part of L1 and to no other.
 *
 *   slot    number within its part * parts + part      class   the same
 *   offset  bytes of a part * part + offset within it
 *
 * Nothing ever moves from one part to another: neither slots nor extents.
 */
export class PartedArena implements SlotArena {
  readonly #arenas: readonly Arena[]
  readonly #count: number
  readonly #partBytes: number

  /** @param arenas equal, their slot numbers below SLOT_LIMIT / arenas.length. */
  constructor(arenas: readonly Arena[]) {
    this.#arenas = arenas
    this.#count = arenas.length
    this.#partBytes = arenas[0]!.capacityBytes
  }

  get capacityBytes(): number {
    return this.#partBytes * this.#count
  }

  get extentBytes(): number {
    return this.#arenas[0]!.extentBytes
  }

  get usedBytes(): number {
    return this.#sum((arena) => arena.usedBytes)
  }

  get wasteBytes(): number {
    return this.#sum((arena) => arena.wasteBytes)
  }

  get usableBytes(): number {
    return this.#sum((arena) => arena.usableBytes)
  }

  /** Bytes of live slots of one part. */
  usedBytesOf(part: number): number {
    return this.#arenas[part]!.usedBytes
  }

  /** The part that a slot lies in. */
  partOf(slot: number): number {
    return slot % this.#count
  }

  restore(slots: Uint32Array, owners: Uint32Array): void {
    for (const [part, arena] of this.#arenas.entries()) {
      const own = slots.map((_, at) => at).filter((at) => this.partOf(slots[at]!) === part)
      arena.restore(
        own.map((at) => this.#local(slots[at]!)),
        own.map((at) => owners[at]!),
      )
    }
  }

  classOf(lengthBytes: number, part: number): number {
    const cls = this.#arenas[part]!.classOf(lengthBytes)
    return cls < 0 ? cls : cls * this.#count + part
  }

  freeSlots(cls: number): number {
    return this.#arenaOf(cls).freeSlots(this.#local(cls))
  }

  slotsMax(cls: number): number {
    return this.#arenaOf(cls).slotsMax(this.#local(cls))
  }

  allocate(cls: number, owner: number): number {
    const slot = this.#arenaOf(cls).allocate(this.#local(cls), owner)
    return slot === NO_SLOT ? NO_SLOT : slot * this.#count + (cls % this.#count)
  }

  free(slot: number): void {
    this.#arenaOf(slot).free(this.#local(slot))
  }

  hold(slot: number): void {
    this.#arenaOf(slot).hold(this.#local(slot))
  }

  unhold(slot: number): void {
    this.#arenaOf(slot).unhold(this.#local(slot))
  }

  offsetOf(slot: number): number {
    return this.partOf(slot) * this.#partBytes + this.#arenaOf(slot).offsetOf(this.#local(slot))
  }

  lengthOf(slot: number): number {
    return this.#arenaOf(slot).lengthOf(this.#local(slot))
  }

  owner(slot: number): number {
    return this.#arenaOf(slot).owner(this.#local(slot))
  }

  reclaim(cls: number, move: MoveSlot): boolean {
    const arena = this.#arenaOf(cls)
    if (arena.capacityBytes - arena.usedBytes < arena.extentBytes) return false
    const part = cls % this.#count
    const count = this.#count
    return arena.reclaim(this.#local(cls), (owner, from, to) => move(owner, from * count + part, to * count + part))
  }

  verify(): void {
    for (const arena of this.#arenas) {
      arena.verify()
      assert(arena.capacityBytes === this.#partBytes, 'parts of different sizes')
    }
  }

  /** Of a slot or a class: both say their part. */
  #arenaOf(number: number): Arena {
    return this.#arenas[number % this.#count]!
  }

  #local(number: number): number {
    return Math.floor(number / this.#count)
  }

  #sum(bytesOf: (arena: Arena) => number): number {
    return this.#arenas.reduce((bytes, arena) => bytes + bytesOf(arena), 0)
  }
}
