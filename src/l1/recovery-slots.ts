import type { ArenaJournal } from './arena.ts'
import { SPAN_ROW } from './arena-spans.ts'
import type { L1Tables } from './l1-tables.ts'
import { partShape } from './model-parts.ts'
import type { L1Options } from './options.ts'
import { type ArenaShape, arenaShape, CLASS_LIMIT, CLASS_ROW, SLOT_LIMIT } from './size-classes.ts'

/** Tables that no order of stores can leave behind. The message names what is wrong. */
export class Damage extends Error {}

export function demand(condition: boolean, damage: string): asserts condition {
  if (!condition) throw new Damage(damage)
}

/** The slots of an earlier engine's arenas by number, and who claims them. @throws Damage */
export class SlotMaps {
  readonly #maps: readonly SlotMap[]

  constructor({ arenas }: L1Tables, options: L1Options) {
    demand(arenas !== null, 'no journal of the arena')
    const { count, partBytes } = partShape(options)
    demand(arenas.length === count, 'another number of parts')
    const shape = { capacityBytes: partBytes, extentBytes: options.extentBytes }
    this.#maps = arenas.map((journal) => new SlotMap(journal, shape, Math.floor(SLOT_LIMIT / count)))
  }

  /** The part of L1 that a slot lies in. */
  partOf(slot: number): number {
    return slot % this.#maps.length
  }

  /** @returns the bytes of a slot that nobody else claimed. */
  claim(slot: number): number {
    return this.#maps[this.partOf(slot)]!.claim(Math.floor(slot / this.#maps.length))
  }

  lengthOf(slot: number): number {
    return this.#maps[this.partOf(slot)]!.lengthOf(Math.floor(slot / this.#maps.length))
  }
}

/** Those of one part. */
class SlotMap {
  readonly #bases: number[] = []
  readonly #lengths: number[] = []
  readonly #claimed: (Uint8Array | null)[] = [] // by span; null = parked

  constructor({ classes, spans }: ArenaJournal, shape: ArenaShape, slotLimit: number) {
    const { extentBytes, extentCount } = arenaShape(shape)
    const taken = new Uint8Array(extentCount)
    const classCount = checkedClasses(classes, extentBytes, extentCount)
    let base = 0
    for (let row = 0; row < spans.length && spans[row] !== 0; row += SPAN_ROW) {
      const cls = spans[row]! - 1
      demand(cls < classCount, 'a span of no class')
      const extents = classes[cls * CLASS_ROW + 1]!
      const first = spans[row + 1]! - 1
      demand(first < 0 || (first % extents === 0 && first + extents <= extentCount), 'a span outside of the arena')
      for (let extent = first; first >= 0 && extent < first + extents; extent += 1) {
        demand(taken[extent] === 0, 'two spans in one place')
        taken[extent] = 1
      }
      const slots = classes[cls * CLASS_ROW + 2]!
      this.#bases.push(base)
      this.#lengths.push(classes[cls * CLASS_ROW]!)
      this.#claimed.push(first < 0 ? null : new Uint8Array(slots))
      base += slots
      demand(base <= slotLimit, 'more slots than there are numbers')
    }
  }

  /** @returns the bytes of a slot that nobody else claimed. */
  claim(slot: number): number {
    const span = this.#spanOf(slot)
    const claimed = this.#claimed[span]
    const index = slot - this.#bases[span]!
    demand(claimed !== null && claimed !== undefined && index < claimed.length, 'a shard without a place')
    demand(claimed[index] === 0, 'two shards in one place')
    claimed[index] = 1
    return this.#lengths[span]!
  }

  lengthOf(slot: number): number {
    return this.#lengths[this.#spanOf(slot)]!
  }

  #spanOf(slot: number): number {
    let low = 0
    let high = this.#bases.length
    while (high - low > 1) {
      const middle = (low + high) >>> 1
      if (this.#bases[middle]! <= slot) low = middle
      else high = middle
    }
    return low
  }
}

/** @returns how many classes there are. */
function checkedClasses(classes: Float64Array, extentBytes: number, extentCount: number): number {
  let count = 0
  for (; count < CLASS_LIMIT && classes[count * CLASS_ROW] !== 0; count += 1) {
    const [lengthBytes, extents, slots] = classes.subarray(count * CLASS_ROW, (count + 1) * CLASS_ROW)
    const isLength = Number.isSafeInteger(lengthBytes) && lengthBytes! > 0
    const isShape = Number.isInteger(extents) && extents! > 0 && extents! <= extentCount
    demand(isLength && isShape, 'a size class that cannot be')
    demand(slots === Math.floor((extents! * extentBytes) / lengthBytes!) && slots > 0, 'a size class with other slots')
    for (let other = 0; other < count; other += 1) {
      demand(classes[other * CLASS_ROW] !== lengthBytes, 'a size class is there twice')
    }
  }
  return count
}
