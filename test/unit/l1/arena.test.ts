import { describe, expect, it } from 'vitest'
import { Arena, CLASS_TOO_LONG, NO_SLOT } from '../../../src/l1/arena.ts'

const noMove = () => {
  throw new Error('nothing should move')
}

/** Allocates until there is no room. */
function fill(arena: Arena, cls: number): number[] {
  const slots: number[] = []
  for (let slot = arena.allocate(cls, 0); slot !== NO_SLOT; slot = arena.allocate(cls, slots.length)) slots.push(slot)
  return slots
}

describe('an arena of one class', () => {
  it('has as many slots as it says, side by side', () => {
    const arena = new Arena({ capacityBytes: 10_240, extentBytes: 1024 })
    const cls = arena.classOf(256)
    expect([arena.slotsMax(cls), arena.freeSlots(cls)]).toEqual([40, 40])
    const offsets = fill(arena, cls).map((slot) => arena.offsetOf(slot))
    expect(offsets.sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, index) => index * 256))
    expect([arena.usedBytes, arena.wasteBytes, arena.freeSlots(cls)]).toEqual([10_240, 0, 0])
  })

  it('says what is lost to tails and behind the last extent', () => {
    const arena = new Arena({ capacityBytes: 4096 + 100, extentBytes: 4096 })
    fill(arena, arena.classOf(1000))
    expect([arena.usedBytes, arena.wasteBytes]).toEqual([4000, 96 + 100])
  })

  it('can use all but the waste', () => {
    const arena = new Arena({ capacityBytes: 4096 + 100, extentBytes: 4096 })
    expect(arena.usableBytes).toBe(4096)
    fill(arena, arena.classOf(1000))
    expect(arena.usableBytes).toBe(4000)
  })

  it('refuses a length over the capacity', () => {
    expect(new Arena({ capacityBytes: 4096, extentBytes: 0 }).classOf(4097)).toBe(CLASS_TOO_LONG)
  })

  it('cannot reclaim from itself', () => {
    const arena = new Arena({ capacityBytes: 4096, extentBytes: 1024 })
    const cls = arena.classOf(512)
    fill(arena, cls)
    expect(arena.reclaim(cls, noMove)).toBe(false)
  })

  it('promises no slot once slot numbers have run out, whatever else is free', () => {
    const arena = new Arena({ capacityBytes: 4096, extentBytes: 1024 }, null, () => false, 6)
    const cls = arena.classOf(512)
    const slots = fill(arena, cls)
    expect([slots.length, arena.freeSlots(cls), arena.reclaim(cls, noMove)]).toEqual([6, 0, false])
    const other = arena.classOf(256)
    expect([arena.allocate(other, 0), arena.freeSlots(other), arena.reclaim(other, noMove)]).toEqual([
      NO_SLOT,
      0,
      false,
    ])
    for (const slot of slots) arena.free(slot)
    expect([arena.reclaim(other, noMove), arena.reclaim(cls, noMove)]).toEqual([false, true])
    expect(fill(arena, cls)).toHaveLength(6)
    arena.verify()
  })

  it('stops on a double free, a free of a held slot, and an unhold too many', () => {
    const arena = new Arena({ capacityBytes: 4096, extentBytes: 1024 })
    const slot = arena.allocate(arena.classOf(512), 7)
    arena.hold(slot)
    expect(() => arena.free(slot)).toThrow('held')
    arena.unhold(slot)
    expect(() => arena.unhold(slot)).toThrow('not held')
    arena.free(slot)
    expect(() => arena.free(slot)).toThrow('free')
    expect(() => arena.owner(slot)).toThrow('free')
  })
})

describe('an arena of two classes', () => {
  const open = () => {
    const arena = new Arena({ capacityBytes: 8192, extentBytes: 1024 })
    const small = arena.classOf(256)
    const large = arena.classOf(2048)
    return { arena, small, large, slots: fill(arena, small) }
  }

  it('gives the empty spans of one to the other without a reclaim', () => {
    const { arena, small, large, slots } = open()
    for (const slot of slots) {
      if (arena.offsetOf(slot) < 2048) arena.free(slot)
    }
    expect([arena.freeSlots(small), arena.freeSlots(large)]).toEqual([8, 1])
    expect(arena.offsetOf(arena.allocate(large, 1))).toBe(0)
    expect([arena.freeSlots(small), arena.freeSlots(large)]).toEqual([0, 0])
    arena.verify()
  })

  it('moves what is scattered as soon as the free slots add up', () => {
    const { arena, large, slots } = open()
    const places = new Map(slots.map((slot) => [arena.owner(slot), slot]))
    let moved = 0
    const move = (owner: number, from: number, to: number) => {
      expect(places.get(owner)).toBe(from)
      places.set(owner, to)
      moved += 1
    }
    for (let evicted = 1; evicted <= 8; evicted += 1) {
      const owner = evicted * 4 - 1 // one of each extent
      arena.free(places.get(owner)!)
      places.delete(owner)
      expect(arena.reclaim(large, move)).toBe(evicted === 8)
    }
    expect(moved).toBe(6)
    expect(arena.allocate(large, 99)).not.toBe(NO_SLOT)
    expect(arena.usedBytes).toBe(8192)
    arena.verify()
  })

  it('takes the window with the fewest live bytes', () => {
    const { arena, large, slots } = open()
    const freed = new Set([0, 256, 1024, 2048, 4096, 4352, 5120, 5376])
    for (const slot of slots) if (freed.has(arena.offsetOf(slot))) arena.free(slot)
    let moved = 0
    expect(arena.reclaim(large, () => (moved += 1))).toBe(true)
    expect(arena.offsetOf(arena.allocate(large, 99))).toBe(4096)
    expect(moved).toBe(4)
  })

  it('leaves held slots where they are, and moves them once they are let go', () => {
    const { arena, large, slots } = open()
    const held = slots.filter((slot) => arena.offsetOf(slot) % 2048 === 0)
    for (const slot of held) arena.hold(slot)
    for (const slot of slots) if (arena.offsetOf(slot) % 1024 === 256) arena.free(slot)
    expect(arena.reclaim(large, noMove)).toBe(false)
    expect(arena.reclaim(large, noMove)).toBe(false)
    arena.unhold(held[2]!)
    expect(arena.reclaim(large, () => {})).toBe(true)
    expect(arena.offsetOf(arena.allocate(large, 99))).toBe(arena.offsetOf(held[2]!))
    arena.verify()
  })

  it('asks for holds before it moves anything, and only then', () => {
    let asked = 0
    let read: number[] = []
    const countReads = (): boolean => {
      asked += 1
      for (const slot of read) arena.hold(slot)
      return asked === 1
    }
    const arena: Arena = new Arena({ capacityBytes: 8192, extentBytes: 1024 }, null, countReads)
    const slots = fill(arena, arena.classOf(256))
    const large = arena.classOf(2048)
    expect(arena.reclaim(large, noMove)).toBe(false)
    expect(asked).toBe(0)
    read = slots.filter((slot) => arena.offsetOf(slot) % 2048 === 0)
    for (const slot of slots) if (arena.offsetOf(slot) % 1024 === 256) arena.free(slot)
    expect(arena.reclaim(large, noMove)).toBe(false)
    expect(arena.reclaim(large, noMove)).toBe(false)
    expect(asked).toBe(1)
    const last = read.pop()!
    arena.unhold(last)
    read = []
    expect(arena.reclaim(large, () => {})).toBe(true)
    expect(arena.offsetOf(arena.allocate(large, 99))).toBe(arena.offsetOf(last))
    arena.verify()
  })

  it('keeps two spans of each free, or 2 %, so that windows can change hands', () => {
    const arena = new Arena({ capacityBytes: 1_000_000, extentBytes: 1000 })
    const small = arena.classOf(100)
    const large = arena.classOf(2000)
    arena.allocate(small, 0)
    expect(arena.usableBytes).toBe(1_000_000)
    arena.allocate(large, 1)
    expect(arena.usableBytes).toBe(1_000_000 - 2 * (1000 + 2000))
    arena.allocate(arena.classOf(20_000), 2)
    expect(arena.usableBytes).toBe(980_000)
  })

  it('refuses to be changed from within a move', () => {
    const { arena, small, large, slots } = open()
    for (const slot of slots) if (arena.offsetOf(slot) % 1024 === 256) arena.free(slot)
    expect(() => arena.reclaim(large, () => arena.allocate(small, 1))).toThrow('within a move')
  })
})

describe('the hot path of an arena', () => {
  it('allocates no memory once slots have been used', () => {
    const arena = new Arena({ capacityBytes: 2 ** 30, extentBytes: 0 })
    const cls = arena.classOf(65_536)
    const slots = fill(arena, cls)
    const cycle = (count: number) => {
      for (let i = 0; i < count; i += 1) {
        const slot = slots[i % slots.length]!
        arena.hold(slot)
        arena.unhold(slot)
        arena.free(slot)
        slots[i % slots.length] = arena.allocate(cls, i)
      }
    }
    cycle(200_000)
    let grown = 0
    for (let round = 0; round < 100; round += 1) {
      const before = process.memoryUsage().heapUsed
      cycle(10_000)
      grown += Math.max(0, process.memoryUsage().heapUsed - before)
    }
    expect(grown / 1_000_000).toBeLessThan(1) // bytes a cycle
  })

  it('knows ten million slots, and one extent each for tens of thousands', () => {
    for (const extentBytes of [0, 4096]) {
      const capacityBytes = 4096 * (extentBytes === 0 ? 10_000_000 : 50_000)
      const arena = new Arena({ capacityBytes, extentBytes })
      const cls = arena.classOf(4096)
      let count = 0
      while (arena.allocate(cls, count) !== NO_SLOT) count += 1
      expect(count).toBe(arena.slotsMax(cls))
      expect(count * 4096).toBeGreaterThan(0.99 * capacityBytes)
    }
  })
})
