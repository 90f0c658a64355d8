import { expect, it } from 'vitest'
import type { SpaceId } from '../../src/core/ids.ts'
import { L1_POLICIES } from '../../src/l1/options.ts'
import { SHARD_WORDS, SLOT } from '../../src/l1/shard-table.ts'
import { Killed } from '../support/killed-tables.ts'
import { chainOf } from '../support/l1.ts'
import { type L1Shape, PARTED } from '../support/l1-shapes.ts'
import { OWNERS, Scene, TTL } from '../support/recovery-scene.ts'

const ROUNDS = 40
const STEPS_MAX = 300

const SHAPES: readonly L1Shape[] = [
  {
    name: 'one rank',
    options: { capacityBytes: 160, extentBytes: 32 },
    spaces: [
      { salt: 'a', ranks: 1, shardBytes: 4, tenant: 0 },
      { salt: 'b', ranks: 1, shardBytes: 4, tenant: 1 },
    ],
  },
  {
    name: 'two ranks beside one, in three lengths that change places',
    options: { capacityBytes: 240, extentBytes: 24, ghostCapacityChunks: 5 },
    spaces: [
      { salt: 'a', ranks: 2, shardBytes: 6, tenant: 0 },
      { salt: 'b', ranks: 1, shardBytes: 4, tenant: 1 },
      { salt: 'c', ranks: 1, shardBytes: 11, tenant: 2 },
    ],
  },
  {
    name: 'tables that are too small',
    options: {
      capacityBytes: 160,
      extentBytes: 32,
      indexCapacityChunks: 24,
      indexCapacityShards: 20,
      ghostCapacityChunks: 8,
      leaseCapacity: 6,
      leaseEntryCapacity: 20,
    },
    spaces: [
      { salt: 'a', ranks: 2, shardBytes: 4, tenant: 0 },
      { salt: 'b', ranks: 1, shardBytes: 4, tenant: 1 },
    ],
  },
  PARTED,
]

const CASES = SHAPES.flatMap((shape) =>
  (shape === PARTED ? (['lru'] as const) : L1_POLICIES).flatMap((policy) =>
    [1, 2].map((seed) => ({ shape, policy, seed })),
  ),
)

it.each(CASES)(
  'loses no acknowledged chunk and serves no wrong byte, killed at any store: $shape.name, $policy, seed $seed',
  ({ shape, policy, seed }) => {
    const scene = new Scene(shape, policy, seed)
    let kills = 0
    for (let round = 0; round < ROUNDS; round += 1) {
      const steps = 5 + scene.next(60)
      for (let step = 0; step < steps; step += 1) scene.step()
      let before = scene.resident()
      scene.aimsAtMove = scene.next(2) === 0
      scene.fuse.left = scene.aimsAtMove ? Number.POSITIVE_INFINITY : scene.next(120)
      const hasDied = isKilled(() => {
        for (let step = 0; step < STEPS_MAX || !scene.aimsAtMove; step += 1) {
          if (scene.step()) before = scene.resident()
        }
      })
      scene.aimsAtMove = false
      if (hasDied && scene.isTaking) before = new Set()
      while (scene.next(3) === 0) {
        scene.fuse.left = scene.next(200)
        if (isKilled(() => scene.restart(scene.fuse.left))) kills += 1
      }
      scene.restart()
      scene.cache.verify()
      scene.check()
      const after = scene.resident()
      expect([...before].filter((name) => !after.has(name))).toEqual([])
    }
    expect(kills).toBeGreaterThan(0)
    const isShifting = new Set(shape.spaces.map(({ shardBytes }) => shardBytes)).size > 1
    if (isShifting) expect(scene.moves).toBeGreaterThan(20)
  },
)

/** Whether the engine is killed while it does this. */
function isKilled(work: () => void): boolean {
  try {
    work()
    return false
  } catch (error) {
    if (!(error instanceof Killed)) throw error
    return true
  }
}

it.each([1, 2, 3, 4])('trusts nothing that it finds (seed %i)', (seed) => {
  const scene = new Scene(SHAPES[1]!, 'lru', seed)
  const words = new Uint32Array(scene.tables.chunks.buffer)
  let taken = 0
  let refused = 0
  for (let round = 0; round < 300; round += 1) {
    for (let step = 0; step < 40; step += 1) scene.step()
    const kept = words.slice()
    const columns = [...Object.values(scene.tables.leases), ...Object.values(scene.tables.copies)]
    const tables = [
      scene.tables.shards,
      scene.tables.chunks,
      ...scene.tables.arenas!.flatMap((one) => Object.values<Uint32Array | Float64Array>({ ...one })),
      ...columns,
    ]
    for (let spoilt = 0; spoilt <= scene.next(4); spoilt += 1) {
      const table = tables[scene.next(tables.length)]!
      const used = Math.min(table.length, 200)
      table[scene.next(used)] = [0, 1, 3, 255, 2 ** 31, 2 ** 32 - 1, Number.NaN, -1, 1e300][scene.next(9)]!
    }
    if (scene.tryRestart()) {
      taken += 1
      scene.cache.verify()
    } else {
      refused += 1
      words.set(kept)
      scene.restart()
    }
    scene.writers = []
    scene.readers = []
    for (let owner = 0; owner < OWNERS; owner += 1) scene.forget(owner)
  }
  expect(Math.min(taken, refused)).toBeGreaterThan(10)
})

it('takes no shard over that lies in the part of another model', () => {
  const scene = new Scene(PARTED, 'lru', 1)
  const [ofA, , ofC] = scene.spaces as [SpaceId, SpaceId, SpaceId]
  const path = [0]
  for (const space of [ofA, ofC]) {
    scene.cache.commit(scene.cache.reserve(space, 0, chainOf(path), 0, 1, 0, TTL, 'store', scene.grants))
  }
  const words = scene.tables.shards
  const slots = [1, 2].map((shard) => words[shard * SHARD_WORDS + SLOT]!)
  expect(slots.map((slot) => slot % PARTED.options.isolationModels!)).toEqual([0, 2])
  words[SHARD_WORDS + SLOT] = slots[1]! + PARTED.options.isolationModels! // the next one there: free, of this length
  expect(scene.tryRestart()).toBe(true)
  scene.cache.verify()
  expect(scene.cache.residentRun(ofA, chainOf(path), 0, 1)).toBe(0)
  expect(scene.cache.residentRun(ofC, chainOf(path), 0, 1)).toBe(1)
})
