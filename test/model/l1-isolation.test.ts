import { expect, it } from 'vitest'
import { NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../src/l2/options.ts'
import { TaggedWorker, taggedBytes } from '../support/isolated-models.ts'
import { chainOf } from '../support/l1.ts'
import { closeSound, type Mp, SHARD_BYTES, startMp } from '../support/mp.ts'
import { random } from '../support/random.ts'

// Three models with workers and one without share a small engine over real sockets, with L2 behind it that brings back
// what was evicted. Each worker reads all it can reach after each step. Oracle: the high half of every byte.

const KIB = 1024
const PART = 16 * KIB
const STEPS = 120
const PROMPTS = 6
const PARTS = 4
const WITHOUT_WORKER = 4

async function start(seed: number) {
  const segments = Array.from({ length: PARTS }, (_, part) => {
    return { name: `part${part}`, bytes: PART, restoreName() {}, isOnlyOurs: () => false }
  })
  const l1 = { capacityBytes: PARTS * PART, isolation: 'model', isolationModels: PARTS, extentBytes: 2 * KIB } as const
  const mp = await startMp({ seed, l1, segments })
  const adapter = new MemoryAdapter({ type: 'memory', capacityBytes: 48 * KIB, keepBytes: true })
  await mp.engine.adapters.add('l2', adapter, ADAPTER_LIMITS_DEFAULT)
  const partNamed = (name: string, bytes: number) => {
    const at = segments.findIndex((one) => one.name === name)
    const own = mp.memory.subarray(at * PART, at * PART + bytes)
    return {
      read: (offset: number, length: number) => own.slice(offset, offset + length),
      write: (offset: number, bytes: Uint8Array) => own.set(bytes, offset),
      all: () => own,
    }
  }
  return { mp, partNamed }
}

/** A store of a client without a worker: through the engine itself, as HTTP does it. */
function storeDirectly(mp: Mp, space: SpaceId, prompt: number, chunks: number): void {
  const { engine, memory } = mp
  const path = Array.from({ length: chunks }, (_, at) => (at === 0 ? prompt : 0))
  const grants = new SlotList()
  const lease = engine.reserve(space, 0, chainOf(path), 0, chunks, 0, grants)
  if (lease === NO_LEASE) return
  for (let row = 0; row < grants.count; row += 1) {
    memory.set(taggedBytes(WITHOUT_WORKER, prompt, grants.chainIndex[row]!, grants.length[row]!), grants.offset[row]!)
  }
  expect(engine.commit(space, 0, lease)).toBe(grants.count)
}

it.each([1, 2, 3, 4])(
  'no worker can reach a byte of another model (seed %i)',
  async (seed) => {
    const { mp, partNamed } = await start(seed)
    const next = random(seed)
    const shape = { ranks: 1, shardBytes: 1536, layout: 'x' }
    const workers: TaggedWorker[] = []
    const names = new Set<string>()
    let space: SpaceId | undefined
    let stored = 0
    let hits = 0
    const join = async () => {
      const at = workers.length
      const model = 'ABC'[at % 3]!
      const worker = new TaggedWorker(model, 1 + (at % 3), BigInt(100 + at), mp.connect())
      const { name, bytes } = await worker.register(partNamed)
      expect(bytes).toBe(PART)
      names.add(name)
      workers.push(worker)
    }
    await join()
    for (let step = 0; step < STEPS; step += 1) {
      if (workers.length < 5 && next(12) === 0) await join()
      const worker = workers[next(workers.length)]!
      const [prompt, chunks] = [next(PROMPTS), 1 + next(6)]
      const kind = next(8)
      if (kind < 3) stored += await worker.store(prompt, chunks)
      else if (kind < 6) hits += await worker.retrieve(prompt, chunks)
      else if (kind === 6) {
        space ??= mp.engine.openSpace({ ...shape, model: 'without worker', salt: '' })
        storeDirectly(mp, space, prompt, chunks)
      } else mp.clock.advance(next(120))
      mp.engine.l1.verify()
      for (const one of workers) one.checkAll()
    }
    while (workers.length < 3) await join()
    expect(names.size).toBe(3)
    expect(stored).toBeGreaterThan(30)
    expect(hits).toBeGreaterThan(5)
    expect(mp.engine.cells.l1Tenants.sum('evictedShards')).toBeGreaterThan(5)
    expect(mp.engine.cells.engineTenants.sum('hitTokensL2')).toBeGreaterThan(0)
    closeSound(mp)
  },
  120_000,
)

it('gives a part to no model when others have them all, and says which option helps', async () => {
  const { mp, partNamed } = await start(1)
  for (const [at, model] of ['A', 'B', 'C', 'D'].entries()) {
    await new TaggedWorker(model, 1, BigInt(at + 1), mp.connect()).register(partNamed)
  }
  const late = new TaggedWorker('E', 1, 9n, mp.connect())
  await expect(late.register(partNamed)).rejects.toMatchObject({ code: 'FORBIDDEN' })
  expect(mp.lines.at(-1)).toContain('--l1-isolation-models')
  await new TaggedWorker('B', 1, 10n, mp.connect()).register(partNamed)
  closeSound(mp)
})

it('a model that is short of room takes none from others that are as full', async () => {
  const { mp, partNamed } = await start(1)
  const chunks = PART / SHARD_BYTES
  const workers = ['quiet', 'busy', 'late'].map(
    (model, at) => new TaggedWorker(model, at + 1, BigInt(at), mp.connect()),
  )
  for (const worker of workers) await worker.register(partNamed)
  const [quiet, busy, late] = workers as [TaggedWorker, TaggedWorker, TaggedWorker]
  for (const worker of [quiet, late]) {
    for (let prompt = 0; prompt < chunks / 4; prompt += 1) expect(await worker.store(prompt, 4)).toBe(4)
  }
  // The clock stands still: reservations make their own room.
  for (let prompt = 0; prompt < chunks; prompt += 1) expect(await busy.store(prompt, 4)).toBe(4)
  expect(mp.engine.cells.l1Tenants.sum('evictedShards')).toBe(3 * chunks)
  for (const worker of [quiet, late]) {
    for (let prompt = 0; prompt < chunks / 4; prompt += 1) expect(await worker.retrieve(prompt, 4)).toBe(4)
  }
  closeSound(mp)
})
