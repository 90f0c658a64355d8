import { describe, expect, it } from 'vitest'
import { Arena, NO_SLOT } from '../../src/l1/arena.ts'
import { random } from '../support/random.ts'

interface Place {
  slot: number
  readonly bytes: Uint8Array
  holds: number
}

/** An arena with bytes, and what each owner should find there. */
class Model {
  readonly arena: Arena
  readonly memory: Uint8Array
  readonly places = new Map<number, Place>()
  moves = 0
  reclaims = 0

  constructor(capacityBytes: number, extentBytes: number) {
    this.arena = new Arena({ capacityBytes, extentBytes })
    this.memory = new Uint8Array(capacityBytes)
  }

  readonly move = (owner: number, from: number, to: number) => {
    const place = this.places.get(owner)!
    expect(place.slot).toBe(from)
    expect(place.holds).toBe(0)
    expect(this.arena.owner(to)).toBe(owner)
    expect(this.arena.lengthOf(to)).toBe(place.bytes.length)
    const offset = this.arena.offsetOf(from)
    this.memory.copyWithin(this.arena.offsetOf(to), offset, offset + place.bytes.length)
    place.slot = to
    this.moves += 1
  }

  allocate(cls: number, owner: number, byte: number): boolean {
    const room = this.arena.freeSlots(cls)
    const slot = this.arena.allocate(cls, owner)
    expect(slot === NO_SLOT).toBe(room === 0)
    if (slot === NO_SLOT) return false
    const bytes = new Uint8Array(this.arena.lengthOf(slot)).fill(byte)
    const offset = this.arena.offsetOf(slot)
    expect(offset + bytes.length).toBeLessThanOrEqual(this.arena.capacityBytes)
    this.memory.set(bytes, offset)
    this.places.set(owner, { slot, bytes, holds: 0 })
    return true
  }

  free(owner: number): void {
    this.arena.free(this.places.get(owner)!.slot)
    this.places.delete(owner)
  }

  verify(): void {
    this.arena.verify()
    let used = 0
    for (const [owner, { slot, bytes }] of this.places) {
      used += bytes.length
      if (this.arena.owner(slot) !== owner) throw new Error(`slot ${slot} forgot its owner ${owner}`)
      const offset = this.arena.offsetOf(slot)
      if (Buffer.compare(this.memory.subarray(offset, offset + bytes.length), bytes) !== 0) {
        throw new Error(`the bytes of owner ${owner} changed`)
      }
    }
    expect(this.arena.usedBytes).toBe(used)
    const spans = [...this.places.values()].map(({ slot, bytes }) => [this.arena.offsetOf(slot), bytes.length] as const)
    spans.sort((a, b) => a[0] - b[0])
    for (let i = 1; i < spans.length; i += 1) {
      if (spans[i - 1]![0] + spans[i - 1]![1] > spans[i]![0]) throw new Error(`slots overlap at ${spans[i]![0]}`)
    }
  }
}

const LENGTHS = [64, 96, 100, 700, 1000, 1024, 2600, 5000]

describe.each([
  [1024, 64],
  [4096, 16],
  [512, 200],
])('an arena of extents of %i bytes, %i of them', (extentBytes, extentCount) => {
  let moves = 0
  let reclaims = 0

  it.each([1, 2, 3, 4, 5, 6])('keeps every owner its bytes (seed %i)', (seed) => {
    const next = random(seed)
    const model = new Model(extentBytes * extentCount + next(extentBytes), extentBytes)
    const classes = LENGTHS.map((length) => model.arena.classOf(length))
    let favourite = 0
    for (let step = 0; step < 1500; step += 1) {
      if (step % 300 === 0) favourite = next(LENGTHS.length)
      const owners = [...model.places.keys()]
      const owner = owners[next(Math.max(1, owners.length))]
      const cls = classes[next(3) === 0 ? next(LENGTHS.length) : favourite]!
      const action = next(10)
      if (action < 5 || owner === undefined) {
        if (!model.allocate(cls, step, 1 + next(255)) && model.arena.reclaim(cls, model.move)) {
          model.reclaims += 1
          model.verify()
          expect(model.allocate(cls, step, 1 + next(255))).toBe(true)
        }
      } else if (action < 8) {
        const place = model.places.get(owner)!
        if (place.holds === 0) model.free(owner)
      } else if (action === 8 && next(4) === 0) {
        const place = model.places.get(owner)!
        place.holds += 1
        model.arena.hold(place.slot)
      } else {
        const place = model.places.get(owner)!
        if (place.holds > 0) {
          place.holds -= 1
          model.arena.unhold(place.slot)
        }
      }
      model.verify()
    }
    moves += model.moves
    reclaims += model.reclaims
  })

  it('has moved slots on the way', () => {
    expect(moves).toBeGreaterThan(0)
    expect(reclaims).toBeGreaterThan(0)
  })
})

/** Fills with one class, then lets another take over by exact oldest-first eviction. Returns what it cost. */
function shift(arena: Arena, from: number, to: number) {
  const slots = new Map<number, number>() // owner to slot, oldest first
  let owner = 0
  let evicted = 0
  let moved = 0
  const move = (which: number, _from: number, slot: number) => {
    slots.set(which, slot) // keeps its place in the order
    moved += arena.lengthOf(slot)
  }
  const admit = (cls: number) => {
    let slot = arena.allocate(cls, owner)
    while (slot === NO_SLOT) {
      const [oldest, place] = slots.entries().next().value!
      slots.delete(oldest)
      arena.free(place)
      evicted += 1
      if (arena.reclaim(cls, move)) slot = arena.allocate(cls, owner)
      else slot = arena.freeSlots(cls) > 0 ? arena.allocate(cls, owner) : NO_SLOT
    }
    slots.set(owner, slot)
    owner += 1
  }
  while (arena.freeSlots(from) > 0) admit(from)
  const filled = arena.usedBytes
  while (slots.keys().next().value! < arena.slotsMax(from)) admit(to)
  arena.verify()
  return { filled, evicted, moved, used: arena.usedBytes }
}

describe('a shift of traffic from one length to another', () => {
  const MIB = 2 ** 20
  it.each([
    [3 * MIB, 2 * MIB],
    [2 * MIB, 3 * MIB],
    [128 * 1024, 9.5 * MIB],
    [9.5 * MIB, 128 * 1024],
    [16 * MIB, 17 * MIB],
    [327_680, 1_114_112],
  ])('fills nearly all with the new one (%i to %i bytes)', (fromBytes, toBytes) => {
    const arena = new Arena({ capacityBytes: 4 * 1024 * MIB, extentBytes: 0 })
    const from = arena.classOf(fromBytes)
    const to = arena.classOf(toBytes)
    const result = shift(arena, from, to)
    expect(result.filled).toBeGreaterThanOrEqual(0.97 * arena.capacityBytes)
    expect(result.used).toBeGreaterThanOrEqual(0.97 * arena.capacityBytes)
    expect(result.moved).toBeLessThanOrEqual(1.05 * arena.capacityBytes)
  })

  it('evicts what is oldest and nothing else, though lengths differ', () => {
    // Half the room is worth one chunk of the other length each time, so exact LRU keeps the newest of both.
    const arena = new Arena({ capacityBytes: 64 * MIB, extentBytes: MIB })
    const result = shift(arena, arena.classOf(MIB / 4), arena.classOf(2 * MIB))
    expect(result.evicted).toBe(256)
    expect(result.used).toBe(64 * MIB)
  })
})
