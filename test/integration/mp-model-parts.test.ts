import { afterEach, beforeEach, expect, it } from 'vitest'
import { KIB } from '../support/engine.ts'
import { CHUNK, closeSound, contextOf, keyOf, type Mp, promptOf, SHARD_BYTES, startMp } from '../support/mp.ts'

// Two models, each with a part of L1 of its own, a segment for each part, and two workers of the first model.

const PARTS = 2
const L1_BYTES = 256 * KIB
const HELD_RATIO = 0.5
const WORKERS = [
  { id: 1n, model: 'A' },
  { id: 2n, model: 'A' },
  { id: 3n, model: 'B' },
] as const
/** A worker that was heard of within this time is alive. */
const QUIET_MS = 15_000
/** As long nobody may have the segment open. */
const ALONE_MS = 5_000

let mp: Mp
let isOnlyOurs: boolean[]
let gone: object[]

beforeEach(async () => {
  isOnlyOurs = [false, false]
  gone = []
  const segments = isOnlyOurs.map((_, part) => ({
    name: `part-${part}`,
    bytes: L1_BYTES / PARTS,
    restoreName() {},
    isOnlyOurs: () => isOnlyOurs[part]!,
  }))
  mp = await startMp({
    segments,
    onGone: (worker) => void gone.push(worker),
    mp: { heldRatioMax: HELD_RATIO },
    l1: { capacityBytes: L1_BYTES, isolation: 'model', isolationModels: PARTS },
  })
})
afterEach(() => closeSound(mp))

async function registered() {
  const worker = mp.connect()
  for (const { id, model } of WORKERS) await worker.register(contextOf(id, { model }))
  return worker
}

it('the workers of a model hold no more than the share of its part between them', async () => {
  const worker = await registered()
  const share = (L1_BYTES / PARTS) * HELD_RATIO
  const chunks = share / SHARD_BYTES
  const granted: number[] = []
  for (const [index, { id, model }] of WORKERS.entries()) {
    const wanted = index === 0 ? chunks - 5 : chunks
    const { slots } = await worker.prepareStore(keyOf(promptOf(index + 1, wanted), { model }), id)
    granted.push(slots.length)
  }
  expect(granted).toEqual([chunks - 5, 5, chunks])
})

it('the process of a worker is gone when nobody has the segment of its own model open', async () => {
  const worker = await registered()
  for (const { id, model } of WORKERS) {
    await worker.ping(id)
    await worker.prepareStore(keyOf(promptOf(Number(id), 2), { model, end: 2 * CHUNK }), id)
  }
  mp.clock.advance(1000)
  isOnlyOurs[1] = true
  mp.clock.advance(QUIET_MS + ALONE_MS)
  expect(gone).toMatchObject([{ worker: '3', model: 'B' }])
  expect(mp.server.status()).toMatchObject({ instances: 2, heldBytes: 2 * 2 * SHARD_BYTES })
})
