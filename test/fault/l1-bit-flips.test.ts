import { crc32 } from 'node:zlib'
import { afterEach, expect, it } from 'vitest'
import { ManualClock, SystemClock } from '../../src/core/clock.ts'
import type { HashChain } from '../../src/core/hash-chain.ts'
import type { SpaceId } from '../../src/core/ids.ts'
import { ChunkRefs } from '../../src/l1/chunk-refs.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT, FILESYSTEM_DEFAULT, MEMORY_DEFAULT } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import { Checksums } from '../../src/transfer/checksums.ts'
import { checkLaws } from '../support/conservation-laws.ts'
import { KIB, makeEngine } from '../support/engine.ts'
import { chainOf, storeChain } from '../support/engine-client.ts'
import { temporaryDirectory } from '../support/l2-objects.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'

const CHUNKS = 6

const closings: (() => unknown)[] = []

afterEach(async () => {
  for (const close of closings.splice(0)) await close()
})

/** An engine with a filesystem and a memory adapter. Checksums have a clock of their own: stores wait for `send`. */
async function setUp() {
  const setup = makeEngine({ seed: 1, l1: { capacityBytes: 256 * KIB } })
  const { engine, clock } = setup
  const memory = setup.memory!
  const directory = temporaryDirectory()
  const options = { ...FILESYSTEM_DEFAULT, directory: directory.path, durability: 'checksum' } as const
  const disk = new FilesystemAdapter(options, { clock: new SystemClock(), lock: lockFile })
  const copies = new MemoryAdapter(MEMORY_DEFAULT)
  await engine.adapters.add('disk', disk, ADAPTER_LIMITS_DEFAULT)
  await engine.adapters.add('copies', copies, ADAPTER_LIMITS_DEFAULT)
  closings.push(
    () => disk.close(),
    () => directory.remove(),
  )
  setup.start()
  const sumsClock = new ManualClock()
  const port = {
    sums: async (offsets: Float64Array, lengths: Float64Array) =>
      Uint32Array.from(offsets, (offset, row) => crc32(memory.subarray(offset, offset + lengths[row]!))),
  }
  const onError = (where: string, error: unknown) => setup.errors.push({ where, error })
  const checksums = new Checksums({ l1: engine.l1, clock: sumsClock, port, onError })
  const space = engine.openSpace({ model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' })
  /** Takes the checksum of everything that lacks one. */
  const sum = async () => {
    checksums.scan()
    for (let turn = 0; turn < 20; turn += 1) {
      sumsClock.advance(5)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  /** Lets everything go to L2 that waits. */
  const send = () =>
    until('stores are done', () => {
      clock.advance(20)
      return engine.stores.queuedShards + engine.stores.inflightBatches === 0 || undefined
    })
  return { ...setup, memory, space, disk, copies, sum, send }
}

type Setup = Awaited<ReturnType<typeof setUp>>

/** Flips a bit of a chunk in the arena, as no part of the engine would. */
function flip({ engine, memory, space }: Setup, chain: HashChain, index: number, at: number, bit: number): void {
  const lease = engine.l1.lease(space, chain, index, index + 1, 'internal', 0, 1_000)
  const slots = new SlotList()
  engine.l1.slots(lease, 0, index, index + 1, slots)
  engine.l1.release(lease)
  memory[slots.offset[0]! + at]! ^= 1 << bit
}

/** Chunks of a chain that a lookup promises, from any tier. */
async function promised({ engine, clock }: Setup, space: SpaceId, chain: HashChain): Promise<number> {
  const lookup = engine.lookup(space, chain, engine.sessions.nextOwner())
  await until('the lookup is final', () => {
    clock.advance(1)
    return lookup.state === 'final' || undefined
  })
  const { hitChunks } = lookup
  engine.release(lookup)
  return hitChunks
}

it.each([1, 2, 3])('a bit that flips in L1 reaches no L2, and is served by nobody (seed %i)', async (seed) => {
  const scene = await setUp()
  const { engine, cells, memory, space, disk, copies } = scene
  const next = random(seed)
  let kept = 0
  let dropped = 0
  let flips = 0
  for (let serial = 0; serial < 12; serial += 1) {
    const chain = chainOf(`${String.fromCharCode(1_000 + serial)}bcdef`)
    storeChain(engine, memory, space, chain)
    await scene.sum()
    const index = next(CHUNKS + 2)
    const isFlipped = index < CHUNKS
    if (isFlipped) flip(scene, chain, index, next(KIB), next(8))
    await scene.send()
    const left = isFlipped ? index : CHUNKS
    expect(engine.l1.residentRun(space, chain, 0, CHUNKS)).toBe(left)
    expect(await promised(scene, space, chain)).toBe(left)
    kept += left
    dropped += CHUNKS - left
    flips += isFlipped ? 1 : 0
    expect(cells.l1.get(0, 'checksumFailures')).toBe(flips)
    expect(cells.l1Tenants.sum('removedCorrupt')).toBe(dropped)
    checkLaws(engine)
  }
  expect(flips).toBeGreaterThan(5)
  // Both adapters refuse what both were handed; a batch may also find the chunk gone. What is stored is right.
  expect(cells.l2Tenants.sum('storeFailedCorrupt')).toBeGreaterThanOrEqual(flips)
  for (const adapter of [disk, copies]) {
    expect(adapter.usage().objects).toBeGreaterThanOrEqual(kept)
    expect(adapter.usage().objects).toBeLessThanOrEqual(kept + dropped - flips)
    expect(adapter.usage().checksumFailures).toBe(0)
  }
  expect(engine.l1.openLeases).toBe(0)
  expect(cells.l2.get(0, 'circuitState') + cells.l2.get(1, 'circuitState')).toBe(0)
  expect(scene.errors).toEqual([])
})

it('what was stored before its checksum was taken has that of its record, and is compared with it later', async () => {
  const scene = await setUp()
  const { engine, cells, memory, space } = scene
  const chain = chainOf('abcdef')
  storeChain(engine, memory, space, chain)
  await scene.send()
  expect(cells.l2Tenants.sum('storeCompletedObjects')).toBe(2 * CHUNKS)
  flip(scene, chain, 3, 17, 5)
  await engine.adapters.clear({})
  engine.stores.enqueue(space, 0, refsOf(scene, chain))
  await scene.send()
  expect(cells.l1.get(0, 'checksumFailures')).toBe(1)
  expect(await promised(scene, space, chain)).toBe(3)
  checkLaws(engine)
})

it('a chunk that was promised before it was found altered is not given out', async () => {
  const scene = await setUp()
  const { engine, cells, memory, space } = scene
  const chain = chainOf('abcdef')
  storeChain(engine, memory, space, chain)
  await scene.sum()
  const lookups = [0, 1].map(() => engine.lookup(space, chain, engine.sessions.nextOwner()))
  flip(scene, chain, 3, 17, 5)
  const slots = new SlotList()
  expect(engine.slots(lookups[0]!, 0, 0, CHUNKS, slots)).toBe(true) // a copy that is under way meanwhile
  await scene.send()
  expect(engine.served(lookups[0]!, 0, CHUNKS)).toBe(0)
  expect(engine.slots(lookups[1]!, 0, 2, 5, slots)).toBe(false)
  expect(engine.slots(lookups[1]!, 0, 0, 3, slots)).toBe(true)
  expect(engine.slots(lookups[1]!, 0, 4, CHUNKS, slots)).toBe(true)
  expect(cells.l1Tenants.sum('readFailureChecksum')).toBe(CHUNKS + 3)
  expect(cells.l1.get(0, 'checksumFailures')).toBe(1)
  for (const lookup of lookups) engine.release(lookup)
  expect(engine.l1.openLeases).toBe(0)
  storeChain(engine, memory, space, chain)
  await scene.sum()
  await scene.send()
  expect(await promised(scene, space, chain)).toBe(CHUNKS)
  checkLaws(engine)
})

function refsOf({ engine, space }: Setup, chain: HashChain): ChunkRefs {
  const refs = new ChunkRefs()
  for (let index = 0; index < chain.count; index += 1) engine.l1.order.complete(space, chain, index, refs)
  return refs
}
