import { afterEach, expect, it } from 'vitest'
import { checkLaws } from '../support/conservation-laws.ts'
import { CHUNK, contextOf, found, keyOf, type Mp, promptOf, SHARD_BYTES, startMp, storePrompt } from '../support/mp.ts'

// Workers whose processes end: the kernel's word is played by the test.

const WORKER = 2n ** 62n + 7n
const OTHER = 5n
/** A worker that was heard of within this time is alive. */
const QUIET_MS = 15_000
/** As long nobody may have the segment open. */
const ALONE_MS = 5_000

let mp: Mp
let isOnlyOurs = false
let gone: object[]
afterEach(() => {
  checkLaws(mp.engine)
  expect(mp.bugs).toEqual([])
  mp.close()
})

/** A worker that has a store and a retrieval under way; its process has the segment open. */
async function working() {
  isOnlyOurs = false
  gone = []
  mp = await startMp({ isOnlyOurs: () => isOnlyOurs, onGone: (worker) => void gone.push(worker) })
  const [scheduler, worker] = [mp.connect(), mp.connect()]
  await worker.register(contextOf(WORKER))
  await worker.ping(WORKER)
  const stored = keyOf(promptOf(1, 2))
  await storePrompt(mp, worker, stored, WORKER, 1)
  const read = { ...stored, requestId: 'again' }
  expect(await found(scheduler, read)).toBe(stored.end / CHUNK)
  await worker.prepareRetrieve(read, WORKER)
  expect((await worker.prepareStore(keyOf(promptOf(2, 3)), WORKER)).slots).toHaveLength(3)
  mp.clock.advance(1000)
  return { scheduler, worker }
}

const heldBytes = () => mp.server.status().heldBytes
const quarantined = () => mp.cells.l1.get(0, 'quarantinedBytes') + mp.cells.l1.get(0, 'quarantinedReadBytes')

it('a worker whose process is gone holds nothing any more, long before it would be taken for dead', async () => {
  await working()
  expect(heldBytes()).toBe(3 * SHARD_BYTES)
  isOnlyOurs = true
  mp.clock.advance(QUIET_MS + ALONE_MS)
  expect([heldBytes(), quarantined(), mp.server.status().instances]).toEqual([0, 0, 0])
  expect(gone).toEqual([{ worker: String(WORKER), model: expect.any(String), transfers: 2 }])
  expect(mp.lines.join()).toContain('the process of a worker is gone')
})

it('and what was quarantined meanwhile is free too', async () => {
  await working()
  mp.clock.advance(200_000)
  expect(mp.server.quarantine.list()).toHaveLength(1)
  isOnlyOurs = true
  mp.clock.advance(ALONE_MS + 1000)
  expect([mp.server.quarantine.list(), quarantined()]).toEqual([[], 0])
})

it('no worker is gone while any process has the segment open', async () => {
  const { worker } = await working()
  await worker.register(contextOf(OTHER))
  mp.clock.advance(200_000)
  expect(mp.server.quarantine.list()).toHaveLength(1)
  expect(gone).toEqual([])
})

it('nor for a moment in which nobody has it open', async () => {
  await working()
  mp.clock.advance(200_000)
  for (let round = 0; round < 5; round += 1) {
    isOnlyOurs = true
    mp.clock.advance(ALONE_MS - 1000)
    isOnlyOurs = false
    mp.clock.advance(1000)
  }
  expect(mp.server.quarantine.list()).toHaveLength(1)
})

it('nor one that is heard of: it may be between its registration and its mapping', async () => {
  const { worker } = await working()
  isOnlyOurs = true
  for (let round = 0; round < 5; round += 1) {
    mp.clock.advance(10_000)
    expect(await worker.ping(WORKER)).toBe(true)
  }
  expect(heldBytes()).toBe(3 * SHARD_BYTES)
})

it('nor one that was never seen beside an open segment', async () => {
  gone = []
  isOnlyOurs = true
  mp = await startMp({ isOnlyOurs: () => isOnlyOurs, onGone: (worker) => void gone.push(worker) })
  const worker = mp.connect()
  await worker.register(contextOf(WORKER))
  await worker.ping(WORKER)
  await worker.prepareStore(keyOf(promptOf(2, 3)), WORKER)
  mp.clock.advance(200_000)
  expect([gone, mp.server.quarantine.list().length]).toEqual([[], 1])
})

it('a worker that comes back after all has to register again, and its late commit gets a no', async () => {
  const { worker } = await working()
  isOnlyOurs = true
  mp.clock.advance(QUIET_MS + ALONE_MS)
  expect(await worker.ping(WORKER)).toBe(false)
  expect(await worker.commitStore(keyOf(promptOf(2, 3)), WORKER)).toBe(false)
  expect((await worker.prepareStore(keyOf(promptOf(3, 1)), WORKER)).slots).toEqual([])
  await worker.register(contextOf(WORKER))
  expect((await worker.prepareStore(keyOf(promptOf(3, 1)), WORKER)).slots).toHaveLength(1)
})
